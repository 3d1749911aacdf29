"""How the platform itself stands: the ledger's history, who is in office, which jobs run, and who holds a node."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from accounting import ledger
from accounting.models import Clock, Finding, Journal, NodeLock, ProcessLease
from hami_platform import env
from hami_platform.domain.view import View

TERMS = 20
LATE = 4
"""Periods after which a job that did not end well is late."""


@dataclass(frozen=True, slots=True)
class Job:
    """One job of which only one process does it at a time. ago_s: since it last ended well; None: never, or it does not
    end. held: somebody has it now."""

    name: str
    holder: str
    epoch: int
    held: bool
    ago_s: int | None


@dataclass(frozen=True, slots=True)
class Lock:
    """One node that is locked for an allocation. overdue: longer than twice the time-out."""

    node: str
    holder: str
    mode: str
    age_s: int
    stale: bool
    overdue: bool


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the ledger's history or of the watcher in office. epoch: 0 for the former."""

    at: datetime
    what: str
    holder: str = ""
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Health:
    """All of it, at one moment of database time."""

    at: datetime
    ready: bool
    revision: int
    incarnation: str
    watcher: Job | None
    jobs: list[Job]
    changes: list[Change]
    locks: list[Lock]
    findings: int
    breaker: str


def health(view: View) -> Health:
    """What operators look at first when something is odd."""
    cluster, now = ledger.cluster_id(), ledger.database_time()
    jobs = [_job(row, now) for row in ProcessLease.objects.filter(cluster=cluster)]
    return Health(
        at=now,
        ready=view.ready,
        revision=view.clock.revision,
        incarnation=Clock.objects.values_list("incarnation", flat=True).get(cluster=cluster),
        watcher=next((one for one in jobs if one.name == ledger.WATCHER), None),
        jobs=[one for one in jobs if one.name != ledger.WATCHER],
        changes=_changes(cluster),
        locks=[_lock(view, row, now) for row in NodeLock.objects.filter(cluster=cluster).order_by("first_seen_at")],
        findings=Finding.objects.filter(cluster=cluster, repaired_at=None).count(),
        breaker=ledger.breaker.why,
    )


def _job(row: ProcessLease, now: datetime) -> Job:
    ago_s = None if row.succeeded_at is None else max(0, round((now - row.succeeded_at).total_seconds()))
    return Job(row.name, row.holder, row.epoch, row.until is not None and row.until > now, ago_s)


def _changes(cluster: int) -> list[Change]:
    """Newest first."""
    rows = Journal.objects.filter(cluster=cluster, kind="clock").order_by("-revision", "-seq")[:TERMS]
    words = {"watcher": "watcher", "incarnation": "history", "compared": "compared"}
    return [
        Change(row.at, words.get(row.key, row.key), row.values.get("holder", ""), row.values.get("epoch", 0))
        for row in rows
    ]


def _lock(view: View, row: NodeLock, now: datetime) -> Lock:
    age_s = max(0, round((now - row.first_seen_at).total_seconds()))
    pod = view.pod(row.pod_uid) if row.pod_uid else None
    holder = f"{pod.namespace}/{pod.name}" if pod is not None else row.pod_uid or row.value
    return Lock(row.node, holder, row.mode, age_s, row.stale, age_s > 2 * env.current().node_lock_timeout_s)
