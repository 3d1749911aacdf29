"""How current what a page shows is, and the stamp by which a poll learns that nothing changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Max, QuerySet
from django.utils.translation import gettext

from accounting import ledger
from accounting.models import DeniedAsk, Finding, ProcessLease, Refusal, Trace
from accounting.selectors import measured
from hami_platform.domain.view import View

RECONCILE = "pods"
"""The periodic task that compares every pod."""
OLD_S = 120
"""Four of its periods."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """problem: why what is shown may be old or incomplete, and what mends it; empty: all is well."""

    revision: int
    problem: str = ""


def freshness(view: View) -> Freshness:
    """Whether the ledger was compared with the API server, and whether somebody watches it now."""
    if not view.ready:
        text = gettext("The ledger has not been compared with the API server yet: nothing is placed.")
        return Freshness(view.clock.revision, _run(text, "./manage.py watch"))
    lease = ProcessLease.objects.filter(cluster=ledger.cluster_id(), name=ledger.WATCHER).first()
    if lease is None or lease.until is None or lease.until < ledger.database_time():
        text = gettext("No watcher runs: changes arrive only with reconciliation.")
        return Freshness(view.clock.revision, _run(text, "./manage.py watch"))
    return Freshness(view.clock.revision, _unrepaired())


def _run(text: str, command: str) -> str:
    """What is wrong, and the command that mends it."""
    return text + " " + gettext("Run: %(command)s") % {"command": command}


def reconciliation_age_s() -> int | None:
    """Seconds since every pod was last compared with the API server by a tick; None: never."""
    job = ProcessLease.objects.filter(cluster=ledger.cluster_id(), name=RECONCILE).first()
    if job is None or job.succeeded_at is None:
        return None
    return max(0, round((ledger.database_time() - job.succeeded_at).total_seconds()))


def _unrepaired() -> str:
    """What to say where ticks fail or nobody ticks: the watcher alone misses what no event tells."""
    age_s = reconciliation_age_s()
    if age_s is not None and age_s <= OLD_S:
        return ""
    text = (
        gettext("Reconciliation has never run: missed events are not repaired.")
        if age_s is None
        else gettext("Reconciliation is %(s)s s old: missed events are not repaired.") % {"s": age_s}
    )
    return _run(text, "celery -A hami_platform worker, beat")


def stamp(view: View, *, pod_uid: str = "", uuid: str = "") -> str:
    """Changes whenever a page over the View, refusals, denied asks and findings would; with one pod's decisions and
    measurements, or one device's measurements."""
    cluster = ledger.cluster_id()
    beside = [
        (Refusal.objects.filter(cluster=cluster), "at"),
        (DeniedAsk.objects.filter(cluster=cluster), "last_at"),
        (Finding.objects.filter(cluster=cluster, repaired_at=None), "last_seen_at"),
    ]
    if pod_uid:
        beside.append((Trace.objects.filter(cluster=cluster, pod_uid=pod_uid), "last_at"))
    parts = [str(view.clock.revision), str(int(view.ready)), *(_newest(rows, column) for rows, column in beside)]
    if pod_uid or uuid:
        at = measured.newest(pod_uid=pod_uid, uuid=uuid)
        parts.append(f"{at.timestamp():.3f}" if at else "0")
    return "-".join(parts)


def _newest(rows: QuerySet[Any], column: str) -> str:
    found = rows.aggregate(at=Max(column), n=Count("pk"))
    return f"{found['at'].timestamp():.3f}x{found['n']}" if found["at"] else "0"
