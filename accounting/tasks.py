"""Periodic tasks. No logic and no payload: each looks at the state and converges, through one service.

A run that was delivered late has expired; one that is delivered twice finds the lease taken or nothing to do. One that
cannot reach the database or the API server says so in one line and ends: the next tick is the retry.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import Any

from celery import shared_task
from django.db import InterfaceError, OperationalError, connection

from accounting import ledger
from accounting.services import (
    audit,
    examinations,
    finding_events,
    flights,
    leases,
    lock_repair,
    notices,
    reconcile,
    retention,
    rollups,
    wake,
    wake_calls,
)
from accounting.services.cluster_api import cluster_api
from accounting.services.device_config import device_config
from hami_platform import logs, metrics
from hami_platform.kube import errors

UNREACHABLE = (ledger.LedgerUnavailable, OperationalError, InterfaceError, errors.KubeError)
"""What a database or an API server that is away looks like."""

HOLDER = f"{socket.gethostname()}/{os.getpid()}"
_freed = wake.Freed()
_log = logs.get(__name__)
_succeeded = metrics.gauge(
    "hami_platform_task_last_success_timestamp_seconds", "When a periodic task last ended well here.", ("task",)
)
_failed = metrics.counter(
    "hami_platform_task_failures_total",
    "Periodic tasks that could not reach the database or the API server.",
    ("task",),
)


def _alone(name: str, ttl_s: float, run: Callable[[], Any]) -> None:
    """Run unless somebody else does right now. Never raises for what is away: the next tick tries again."""
    try:
        with flights.single_flight(name, holder=HOLDER, ttl_s=ttl_s) as mine:
            if not mine:
                return
            run()
    except UNREACHABLE as fault:
        _failed.labels(name).inc()
        _log.warning("tick_failed", task=name, why=str(fault).partition("\n")[0])
        if not connection.in_atomic_block:
            connection.close()  # a broken one would fail at every later try of this thread
            ledger.dead_drop()
        return
    _succeeded.labels(name).set(time.time())


@shared_task
def pods() -> None:
    """Compare every pod with the API server; a full compare if this history has had none."""
    _alone("pods", 60, lambda: reconcile.pods_or_everything(cluster_api(), config=device_config()))


@shared_task
def nodes() -> None:
    """Compare inventory and liveness."""
    _alone("nodes", 45, lambda: reconcile.nodes_reconcile(cluster_api(), config=device_config()))


@shared_task
def quotas() -> None:
    """Compare native ResourceQuotas."""
    _alone("quotas", 60, lambda: reconcile.quotas_reconcile(cluster_api(), config=device_config()))


@shared_task
def due() -> None:
    """Journal what has come due by the passage of time."""
    _alone("leases", 20, leases.leases_tick)


@shared_task
def locks() -> None:
    """Take off locks whose holder is gone."""
    _alone("locks", 60, lambda: lock_repair.locks_release_dead(cluster_api()))


@shared_task
def waiting() -> None:
    """Wake pods that fit now."""
    _alone("wake", 20, lambda: wake_calls.wake_send(cluster_api(), wake.wake_plan(_freed)))


@shared_task
def rollup() -> None:
    """Sum up use by the hour."""
    _alone(rollups.JOB, 120, rollups.hours_rollup)


@shared_task
def self_audit() -> None:
    """Recompute from the API server and compare."""
    _alone("audit", 90, lambda: audit.audit_run(cluster_api(), config=device_config()))


@shared_task
def findings() -> None:
    """Tell of what was found, in the cluster."""
    _alone("findings", 30, lambda: finding_events.findings_tell(cluster_api()))


@shared_task
def notify() -> None:
    """Tell another system what has begun and what is over."""
    _alone("notices", 300, notices.notices_send)


@shared_task
def examine() -> None:
    """Look at cluster and platform, if a person has asked for it."""
    _alone("examination", examinations.LONGEST_S, lambda: examinations.examination_run(cluster_api))


@shared_task
def expire_old() -> None:
    """Drop what retention says."""
    _alone("retention", 600, retention.retention_run)


SKEW_S = 300.0
"""A tick's end is a time of day on beat's clock, read on the worker's: they may differ by so much. One that comes late
by less does no harm, and no more than two minutes of ticks are ever kept (`hami_platform.celery`)."""


def _every(task: Any, seconds: float) -> dict[str, Any]:
    return {"task": task.name, "schedule": seconds, "options": {"expires": seconds + SKEW_S, "ignore_result": True}}


BEAT_SCHEDULE = {
    "pods": _every(pods, 30),
    "nodes": _every(nodes, 15),
    "quotas": _every(quotas, 30),
    "due": _every(due, 5),
    "locks": _every(locks, 15),
    "waiting": _every(waiting, 2),
    "rollup": _every(rollup, 60),
    "self_audit": _every(self_audit, 45),  # and a run: drift is told within a minute
    "findings": _every(findings, 5),
    "notify": _every(notify, 30),
    "examine": _every(examine, 5),
    "expire_old": _every(expire_old, 3600),
}
