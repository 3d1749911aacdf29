"""Limits on the command line: list them with what is used, show one, set one."""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from accounting import live_view
from accounting.models import Quota
from accounting.selectors import access, quota_bars
from accounting.services import quotas
from accounting.services.errors import InvalidInput
from hami_platform.domain import quota as domain

BAD_INPUT = 2
NONE = "none"


class Command(BaseCommand):
    """`manage.py quota list|show|set`: exit 0, 1 when a shown limit is exceeded, 2 for bad input."""

    help = "Limits and what is used of them. Exit code 0: all within, 1: one shown is exceeded, 2: input."

    def add_arguments(self, parser: CommandParser) -> None:
        """Three verbs."""
        verbs = parser.add_subparsers(dest="verb", required=True)
        listing = verbs.add_parser("list", help="Every limit, fullest first.")
        listing.add_argument("--over", action="store_true", help="Only those that are exceeded.")
        show = verbs.add_parser("show", help="The limits that bind one namespace, those of its tenants too.")
        show.add_argument("namespace")
        setting = verbs.add_parser("set", help="Make a quota or change what is named; `none` lifts a limit.")
        setting.add_argument("scope", help="namespace, or tenant:NAME")
        setting.add_argument("limits", nargs="+", metavar="LIMIT=N", help=", ".join(Quota.LIMITS))
        setting.add_argument("--name", default="default")
        setting.add_argument(
            "--until", default="", help="Then the limits of today come back, e.g. 2030-01-31T18:00+00:00."
        )
        setting.add_argument("--reason", required=True)
        setting.add_argument("--actor", default=getpass.getuser())
        for one in (listing, show, setting):
            one.add_argument("--json", action="store_true")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Print bars, or the quota that was set with them."""
        try:
            bars = _set(options) if options["verb"] == "set" else _shown(options)
        except InvalidInput as fault:
            raise CommandError(str(fault), returncode=BAD_INPUT) from fault
        if options["json"]:
            self.stdout.write(json.dumps([_plain(bar) for bar in bars], indent=2))
        else:
            for line in _lines(bars):
                self.stdout.write(line)
        if any(bar.over for bar in bars):
            sys.exit(1)


def _shown(options: dict[str, Any]) -> list[quota_bars.QuotaBar]:
    view = live_view.live().refresh()
    if options["verb"] == "show":
        if options["namespace"] not in view.namespaces and options["namespace"] not in view.usage:
            raise InvalidInput("namespace", f"nothing is known of {options['namespace']}")
        return quota_bars.bars_for(view, options["namespace"], access.ALL)
    bars = quota_bars.all_bars(view, access.ALL)
    return [bar for bar in bars if bar.over or not options["over"]]


def _set(options: dict[str, Any]) -> list[quota_bars.QuotaBar]:
    tenant = options["scope"].removeprefix("tenant:") if options["scope"].startswith("tenant:") else ""
    namespace = "" if tenant else options["scope"]
    scope = {"tenant__name": tenant} if tenant else {"namespace__name": namespace}
    old = Quota.objects.filter(name=options["name"], **scope).first()
    limits = {name: getattr(old, name, None) for name in Quota.LIMITS} | dict(map(_limit, options["limits"]))
    row = quotas.quota_set(
        namespace=namespace,
        tenant=tenant,
        name=options["name"],
        limits=domain.Limits(**limits),
        selector=domain.Selector(old.vendor, old.model_pattern) if old else quotas.ANY,
        valid_from=old.valid_from if old else None,
        valid_until=old.valid_until if old else None,
        returns_at=_moment(options["until"]) if options["until"] else None,
        reason=options["reason"],
        actor=options["actor"],
        expected_version=old.version if old else 0,
    )
    bars = quota_bars.all_bars(live_view.live().refresh(), access.ALL)
    return [bar for bar in bars if bar.quota_id == row.pk]


def _limit(text: str) -> tuple[str, int | None]:
    name, equals, value = text.partition("=")
    if name not in Quota.LIMITS or not equals:
        raise InvalidInput("limits", f"{text}: expected LIMIT=N with one of {', '.join(Quota.LIMITS)}")
    if value == NONE:
        return name, None
    if not value.isdigit():
        hint = " (MiB, without a unit: 16 GiB is 16384)" if name.endswith("_mib") else ""
        raise InvalidInput(name, f"{value!r} is no whole number{hint}; `none` lifts the limit")
    return name, int(value)


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as fault:
        raise InvalidInput("until", str(fault)) from fault
    if found.tzinfo is None:
        raise InvalidInput("until", "say the time zone, e.g. 2030-01-31T18:00+00:00")
    return found


def _plain(bar: quota_bars.QuotaBar) -> dict[str, Any]:
    return {**asdict(bar), "free": bar.free, "over": bar.over}


def _lines(bars: Sequence[quota_bars.QuotaBar]) -> Iterator[str]:
    if not bars:
        yield "no limit"
        return
    head = ("LIMIT", "RESOURCE", "USED", "CLAIMED", "RELEASING", "LIMIT", "FREE", "OVER")
    rows = [
        (
            f"{bar.rule}{f' ({bar.selector})' if bar.selector else ''}{' native' if bar.native else ''}",
            f"{bar.name} ({bar.unit})",
            *map(str, (bar.used, bar.claimed, bar.releasing, bar.limit, bar.free)),
            str(bar.over) if bar.over else "",
        )
        for bar in bars
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
