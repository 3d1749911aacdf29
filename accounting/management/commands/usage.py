"""Who used how much of which devices, and what it costs, on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounting import ledger, live_view
from accounting.selectors import access, usage_report, windows
from accounting.selectors.usage_report import Line, Report, Scope

BAD_INPUT = 2


class Command(BaseCommand):
    """`manage.py usage [--by WHAT] [--window 7d | --from DAY --to DAY]`: exit 2 for bad input."""

    help = (
        "Hours of whole devices, with what was idle, and what they cost. Charges and idle time are the whole capacity."
    )

    def add_arguments(self, parser: Any) -> None:
        """Whose, of what, and when."""
        parser.add_argument("--by", choices=usage_report.BY, default="tenant")
        parser.add_argument("--window", default="", help=f"One of {', '.join(windows.NAMES)}.")
        parser.add_argument("--from", dest="first", default="", metavar="DAY", help="First day, 2026-03-01 (UTC).")
        parser.add_argument("--to", dest="last", default="", metavar="DAY", help="Last day, included.")
        parser.add_argument("--namespace", default="")
        parser.add_argument("--tenant", default="")
        parser.add_argument("--model", default="")
        parser.add_argument("--json", action="store_true")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Print the report."""
        asked = {"window": options["window"], "from": options["first"], "to": options["last"]}
        try:
            window = windows.window_of(asked, ledger.database_time())
        except windows.BadWindow as bad:
            raise CommandError(str(bad), returncode=BAD_INPUT) from bad
        scope = Scope(options["namespace"], options["tenant"], options["model"])
        view = live_view.live().refresh()
        report = usage_report.usage_report(view, access.ALL, window, by=options["by"], scope=scope)
        if options["json"]:
            self.stdout.write(json.dumps(_plain(report), indent=2))
        else:
            for text in _lines(report):
                self.stdout.write(text)


def _plain(report: Report) -> dict[str, Any]:
    return {
        "from": report.window.since.isoformat(),
        "until": report.window.until.isoformat(),
        "by": report.by,
        "lines": [_plain_line(line) for line in report.lines],
        "idle": _plain_line(report.idle) if report.idle is not None else None,
        "total": _plain_line(report.total),
        "unpriced": list(report.unpriced),
        "simulated": report.simulated,
        "summed_at": report.summed_at.isoformat() if report.summed_at else None,
    }


def _plain_line(line: Line) -> dict[str, Any]:
    return {
        "holder": list(line.parts),
        "device_hours": float(line.device_hours),
        "memory_mib_s": line.memory_mib_s,
        "core_percent_s": line.core_percent_s,
        "cents": line.cents,
        "measured_us": line.measured_us,
        "unused_us": line.unused_us,
        "cores_idle_us": line.unbusy_us,
        "unused_cents": line.unused_cents,
    }


def _lines(report: Report) -> Iterator[str]:
    yield f"{report.window.since:%Y-%m-%d} to {report.window.last_day} (UTC), by {report.by}"
    if not report.lines and report.idle is None:
        yield "nothing was held, and no capacity is on record"
    else:
        named = [(" ".join(line.parts) or "(none)", line) for line in report.lines]
        named += [("(idle)", report.idle)] if report.idle is not None else []
        unused = [f"UNUSED {one}" for one in report.currencies]
        yield from _table(
            ("HOLDER", "DEVICE HOURS", *report.currencies, "UNUSED HOURS", *unused),
            [*named, ("(all)", report.total)],
            report,
        )
    if report.unpriced:
        yield f"without a price on some day: {', '.join(report.unpriced)}"
    if report.simulated:
        yield "some of these hours are made up for a demonstration"
    if report.summed_at is None:
        yield "hours have never been summed up: celery -A hami_platform worker, and beat"
    else:
        yield f"summed up at {report.summed_at:%Y-%m-%d %H:%M:%S} UTC"


def _table(head: tuple[str, ...], named: Iterable[tuple[str, Line]], report: Report) -> Iterator[str]:
    rows = [
        (
            name,
            f"{float(line.device_hours):,.2f}",
            *(_money(line.cents.get(one, 0)) for one in report.currencies),
            f"{float(line.unused_hours):,.2f}" if line.measured_us else "-",
            *(_money(line.unused_cents.get(one, 0)) if line.measured_us else "-" for one in report.currencies),
        )
        for name, line in named
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        first, *rest = (
            cell.ljust(width) if not number else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join((first, *rest)).rstrip()


def _money(cents: int) -> str:
    return f"{cents // 100:,}.{cents % 100:02}"
