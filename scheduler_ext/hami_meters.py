"""Counters that HAMi's scheduler has in releases after v2.10.0: placements, what failed, and what was taken back.

Its labels are a phase (filter, bind), the vendor's word, and one of its words for why; one count for each vendor that
the pod asks of. Must not know: how anything is decided.
"""

from __future__ import annotations

from collections.abc import Iterable

import prometheus_client
from django.db import DatabaseError, InterfaceError

from accounting import ledger, live_view
from hami_platform import metrics

_LABELS = ("phase", "device_type", "failure_reason", "zone")
FILTER, BIND = "filter", "bind"
NONE, NO_FIT, LOCK, REFUSED, INTERNAL = "none", "no_fit", "lock", "bind", "internal"

_allocations = metrics.counter("hami_scheduler_allocations_total", "Pods that were placed.", _LABELS)
_failures = metrics.counter("hami_scheduler_allocation_failures_total", "Placements and binds that failed.", _LABELS)
_rollbacks = metrics.counter("hami_scheduler_bind_rollbacks_total", "Placements given back after a bind.", _LABELS)


def placed(vendors: Iterable[str]) -> None:
    """A pod got its devices."""
    _count(_allocations, FILTER, vendors, NONE)


def not_placed(vendors: Iterable[str], *, fault: bool) -> None:
    """A pod got none: it fits nowhere, or nobody could tell."""
    _count(_failures, FILTER, vendors, INTERNAL if fault else NO_FIT)


def not_bound(uid: str, why: str) -> None:
    """A bind failed, with this text."""
    _count(_failures, BIND, _vendors(uid), LOCK if "lock" in why else REFUSED)


def taken_back(uid: str) -> None:
    """A bind failed for certain, and the devices are free again."""
    _count(_rollbacks, BIND, _vendors(uid), REFUSED)


def _vendors(uid: str) -> Iterable[str]:
    """Of the pod as last folded; "" where it is not known, also without a database."""
    try:
        row = live_view.live().now.pod(uid)
    except (ledger.LedgerUnavailable, DatabaseError, InterfaceError):
        row = None
    return row.request.vendors if row is not None else ("",)


def _count(counter: prometheus_client.Counter, phase: str, vendors: Iterable[str], reason: str) -> None:
    for word in vendors:
        counter.labels(phase, word, reason, "vGPU").inc()
