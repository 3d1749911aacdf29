"""Leases in the database: one watcher at a time (with an epoch that fences its writes), one run of each periodic task
at a time."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db import transaction
from django.db.models import F, Q

from accounting import ledger
from accounting.models import ProcessLease


def lease_take(*, name: str, holder: str, ttl_s: float) -> int | None:
    """The epoch under which `holder` has the lease now, or None while another has it. Its own lease is renewed, same
    epoch."""
    cluster = ledger.cluster_id()
    ProcessLease.objects.get_or_create(cluster_id=cluster, name=name)
    mine = ProcessLease.objects.filter(cluster=cluster, name=name, holder=holder)
    now = ledger.database_time()
    until = now + timedelta(seconds=ttl_s)
    if mine.filter(until__gt=now).update(until=until):
        return int(mine.values_list("epoch", flat=True).get())
    free = Q(until=None) | Q(until__lte=now)
    taken = ProcessLease.objects.filter(free, cluster=cluster, name=name).update(
        holder=holder, until=until, epoch=F("epoch") + 1
    )
    return int(mine.values_list("epoch", flat=True).get()) if taken else None


def lease_drop(*, name: str, holder: str) -> None:
    """Give the lease back at once, so that the next one need not wait for its end."""
    ProcessLease.objects.filter(cluster=ledger.cluster_id(), name=name, holder=holder).update(until=None)


@contextmanager
def single_flight(name: str, *, holder: str, ttl_s: float) -> Iterator[bool]:
    """True for the one run that may do `name` now. The lease falls at the end of the block, or after ttl_s.

    Every run is a holder of its own: two threads of one process are as different as two machines. A block that ends
    without an exception counts as the job done.
    """
    holder = f"{holder}/{secrets.token_hex(4)}"
    mine = lease_take(name=name, holder=holder, ttl_s=ttl_s) is not None
    try:
        yield mine
        if mine:
            ProcessLease.objects.filter(cluster=ledger.cluster_id(), name=name).update(
                succeeded_at=ledger.database_time()
            )
    finally:
        if mine and not transaction.get_connection().needs_rollback:
            lease_drop(name=name, holder=holder)
