"""Periodic tasks. No logic and no payload: each looks at the state and converges, through one service.

A run that was delivered late has expired; one that is delivered twice finds the lease taken or nothing to do.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

from celery import shared_task

from accounting.services import audit, flights, leases, lock_repair, reconcile, retention, rollups, wake, wake_calls
from accounting.services.cluster_api import cluster_api
from accounting.services.device_config import device_config

HOLDER = f"{socket.gethostname()}/{os.getpid()}"
_freed = wake.Freed()


def _alone(name: str, ttl_s: float, run: Callable[[], Any]) -> None:
    """Run unless another process does right now."""
    with flights.single_flight(name, holder=HOLDER, ttl_s=ttl_s) as mine:
        if mine:
            run()


@shared_task
def pods() -> None:
    """Compare every pod with the API server; a full compare if this history has had none."""
    _alone("pods", 120, lambda: reconcile.pods_or_everything(cluster_api(), config=device_config()))


@shared_task
def nodes() -> None:
    """Compare inventory and liveness."""
    _alone("nodes", 60, lambda: reconcile.nodes_reconcile(cluster_api(), config=device_config()))


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
    _alone("rollup", 120, rollups.hours_rollup)


@shared_task
def self_audit() -> None:
    """Recompute from the API server and compare."""
    _alone("audit", 120, lambda: audit.audit_run(cluster_api(), config=device_config()))


@shared_task
def expire_old() -> None:
    """Drop what retention says."""
    _alone("retention", 600, retention.retention_run)


def _every(task: Any, seconds: float) -> dict[str, Any]:
    return {"task": task.name, "schedule": seconds, "options": {"expires": seconds, "ignore_result": True}}


BEAT_SCHEDULE = {
    "pods": _every(pods, 30),
    "nodes": _every(nodes, 15),
    "quotas": _every(quotas, 30),
    "due": _every(due, 5),
    "locks": _every(locks, 15),
    "waiting": _every(waiting, 2),
    "rollup": _every(rollup, 60),
    "self_audit": _every(self_audit, 60),
    "expire_old": _every(expire_old, 3600),
}
