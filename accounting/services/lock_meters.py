"""How long nodes stay locked, measured when a lock falls. Counts what was committed, in the database's time."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from accounting.ledger import Entry
from hami_platform import metrics

_held_s = metrics.histogram(
    "hami_platform_node_lock_hold_seconds", "How long a node was locked for one pod's allocation.", ("mode",),
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600),
)  # fmt: skip


def fell(entry: Entry, *, mode: str, since: datetime) -> None:
    """A lock that was first seen then falls in this transaction."""
    held_s = max(0.0, (entry.at - since).total_seconds())
    transaction.on_commit(lambda: _held_s.labels(mode).observe(held_s))
