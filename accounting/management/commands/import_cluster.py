"""Takes over a cluster that HAMi ran: prints what is there and writes it to the ledger."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from django.core.management.base import BaseCommand

from accounting.services import cluster_import
from accounting.services.cluster_api import cluster_api
from accounting.services.cluster_import import ImportReport
from accounting.services.device_config import device_config


class Command(BaseCommand):
    """`manage.py import_cluster [--dry-run]`: exit 1 when something needs a person."""

    help = "Take over the pods and locks of a cluster that HAMi ran. Changes nothing in the cluster."

    def add_arguments(self, parser: Any) -> None:
        """--dry-run writes nothing anywhere."""
        parser.add_argument("--dry-run", action="store_true", help="Only say what is there.")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Print the tables, then what it comes to."""
        dry_run = options["dry_run"]
        report = cluster_import.cluster_import(cluster_api(), config=device_config(), dry_run=dry_run)
        for line in (*tables(report), *_summary(report, dry_run=dry_run)):
            self.stdout.write(line)
        if report.needs_a_person:
            sys.exit(1)


def tables(report: ImportReport) -> Iterable[str]:
    """Nodes, pods, locks and over-committed devices, each as a table, if there are any."""
    yield from _table(
        ("NODE", "DEVICES", "NEW", "PROBLEM"),
        [(one.name, str(one.devices), _yes(one.new), one.problem) for one in report.nodes],
    )
    yield from _table(
        ("POD", "NODE", "VERDICT", "NEW", "NOTE"),
        [(one.name, one.node, one.verdict, _yes(one.new), one.note) for one in report.pods],
    )
    yield from _table(
        ("LOCKED NODE", "OWNER", "AGE BY ITS TEXT", "NEW"),
        [(one.node, one.owner, _age(one.age_s), _yes(one.new)) for one in report.locks],
    )
    yield from _table(
        ("OVER-COMMITTED", "NODE", "RESOURCE", "HELD", "HAS", "OVER BY"),
        [
            (one.uuid, one.node, one.resource, str(one.held), str(one.capacity), str(one.over))
            for one in report.excesses
        ],
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    if rows:
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        for row in (head, *rows):
            yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        yield ""


def _summary(report: ImportReport, *, dry_run: bool) -> Iterable[str]:
    verdicts = Counter(one.verdict for one in report.pods)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())) or "none"
    devices = sum(one.devices for one in report.nodes)
    yield f"{len(report.nodes)} nodes with {devices} devices; pods: {counts}; {len(report.locks)} locks"
    if not report.new:
        yield "nothing new"
    else:
        yield f"{report.new} new" + (", not written: this was a dry run" if dry_run else ", now in the ledger")
    if report.needs_a_person:
        yield "something above needs a person: unmanaged or undecodable pods, over-committed devices, unreadable nodes"


def _yes(new: bool) -> str:
    return "new" if new else ""


def _age(age_s: int | None) -> str:
    return "unknown" if age_s is None else f"{age_s} s"
