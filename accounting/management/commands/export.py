"""Writes all that people have decided as one YAML document."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml
from django.core.management.base import BaseCommand

from accounting.services import portable


class Command(BaseCommand):
    """`manage.py export [--json]`: tenants, namespaces, quotas, prices, roles, and what was decided about devices."""

    help = "Print what people have decided (no pods, no secrets), in an order that stays, to keep in a repository."

    def add_arguments(self, parser: Any) -> None:
        """YAML unless asked otherwise."""
        parser.add_argument("--json", action="store_true", help="As JSON.")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Print it."""
        found = portable.document()
        if options["json"]:
            self.stdout.write(msgspec.json.format(msgspec.json.encode(found)).decode())
        else:
            plain = {"version": found.version} | msgspec.to_builtins(found)
            self.stdout.write(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True), ending="")
