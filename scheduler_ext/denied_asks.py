"""Pods that were denied for quota, kept by owner: the pod itself does not exist, and its controller tries again.

Written in batches off the hot path. Must not know: why they were denied.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import connection as database
from django.db import models, transaction

from accounting import ledger
from accounting.models import DeniedAsk
from scheduler_ext import background

MESSAGE_MAX = 1000


@dataclass(frozen=True, slots=True)
class Denied:
    """One denied ask."""

    namespace: str
    owner: str
    message: str


def keep(namespace: str, owner: str, message: str) -> None:
    """Queue it for writing; returns at once, and is lost when the writer is behind."""
    _queue.put(Denied(namespace, owner, message))


def write(batch: list[Denied]) -> None:
    """Write them now: one row for each owner, the last message, and how often."""
    latest = {(one.namespace, one.owner): one for one in batch}
    times = {key: sum((one.namespace, one.owner) == key for one in batch) for key in latest}
    try:
        cluster = ledger.cluster_id()
        now = ledger.database_time()
        with transaction.atomic():
            for key in sorted(latest):
                _write(cluster, latest[key], times[key], now)
    finally:
        if not database.in_atomic_block:
            database.close()


def _write(cluster: int, one: Denied, times: int, now: datetime) -> None:
    rows = DeniedAsk.objects.filter(cluster=cluster, namespace=one.namespace, owner=one.owner)
    message = one.message[:MESSAGE_MAX]
    if not rows.update(message=message, last_at=now, times=models.F("times") + times):
        fresh = DeniedAsk(
            cluster_id=cluster, namespace=one.namespace, owner=one.owner[:320], message=message, first_at=now,
            last_at=now, times=times,
        )  # fmt: skip
        DeniedAsk.objects.bulk_create([fresh], ignore_conflicts=True)


_queue: background.Batcher[Denied] = background.Batcher("denied-asks", write, depth=1000, linger_s=0.2)
