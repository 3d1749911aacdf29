"""Tells the ledger that its database was restored from a backup: a new history begins, and everything is compared
again."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from accounting import ledger


class Command(BaseCommand):
    """`manage.py restored`."""

    help = "Run after restoring the database: nothing is placed until a full compare with the cluster is done."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Draw a new incarnation under the Clock."""
        with ledger.transaction(cause="restored") as entry:
            ledger.incarnation_draw(entry)
        self.stdout.write("new incarnation drawn; waiting for a full compare")
