"""Recomputes what every pod should hold from the API server and compares it with the ledger."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounting.services import audit, reconcile
from accounting.services.cluster_api import cluster_api
from accounting.services.device_config import device_config


class Command(BaseCommand):
    """`manage.py selfcheck [--repair]`: exit 0 when nothing differs."""

    help = "Compare the ledger with the cluster. Exit code 1 when something differs."

    def add_arguments(self, parser: Any) -> None:
        """--repair reconciles first."""
        parser.add_argument("--repair", action="store_true", help="Reconcile first, then compare.")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Print each difference on a line."""
        api, config = cluster_api(), device_config()
        if options["repair"]:
            reconcile.everything_reconcile(api, config=config)
        found = audit.differences(api, config=config)
        for one in found:
            self.stdout.write(f"{one.kind} {one.subject}: {one.message}")
        if found:
            raise CommandError(f"{len(found)} differences")
        self.stdout.write("no difference")
