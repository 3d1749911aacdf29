"""The passage of time enters the ledger here, and only here: each thing that ends or begins by itself is journaled
when it does.

Decisions never compare with a clock. Watcher and worker both run this tick; doing it twice changes nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q, QuerySet

from accounting import ledger
from accounting.ledger import Entry
from accounting.models import Finding, Hold, NodeLock, Pod, PodState, Quota, Refusal
from accounting.services import findings, pod_rows, quotas
from hami_platform import env

LOCK_STALE_S = 30
NEVER_FITS_S = 600
STUCK = "node-lock-stuck"


def leases_tick(*, fence: int | None = None) -> int:
    """Journal what has come due; the number of rows that changed. Takes the Clock only when something has."""
    now = ledger.database_time()
    cluster = ledger.cluster_id()
    due = (
        Pod.objects.filter(
            cluster=cluster, lease_until__lte=now, state__in=(PodState.CLAIMED, PodState.RESERVED)
        ).exists()
        or _quotas_due(cluster, now).exists()
        or quotas.quotas_to_return(cluster, now).exists()
        or _holds_due(cluster, now).exists()
        or _locks_due(cluster, now).exists()
        or bool(_alarms(cluster, now))
        or bool(_hopeless(cluster, now))
    )
    if not due:
        return 0
    with ledger.transaction(cause="leases_tick", fence=fence) as entry:
        returned = quotas.quotas_return(entry)
        return returned + _claims(entry) + _quotas(entry) + _holds(entry) + _locks(entry) + _suspend(entry)


def _claims(entry: Entry) -> int:
    due = Pod.objects.filter(cluster=entry.clock.cluster_id, lease_until__lte=entry.at)
    unseen = list(due.filter(state=PodState.CLAIMED, uid=""))
    for pod in unseen:
        pod_rows.pod_end(entry, pod)
    unbound = list(due.filter(state=PodState.RESERVED))
    for pod in unbound:
        pod_rows.pod_unplace(entry, pod, expired_node=pod.node)
    return len(unseen) + len(unbound)


def _quotas_due(cluster: int, now: datetime) -> QuerySet[Any]:
    valid = (Q(valid_from=None) | Q(valid_from__lte=now)) & (Q(valid_until=None) | Q(valid_until__gt=now))
    return Quota.objects.filter(Q(in_force=False) & valid | Q(in_force=True) & ~valid, cluster=cluster)


def _quotas(entry: Entry) -> int:
    due = list(_quotas_due(entry.clock.cluster_id, entry.at))
    for quota in due:
        quota.in_force = not quota.in_force
        quota.skip_history_when_saving = True
        quota.save(update_fields=["in_force"])
        entry.record("quota", quota.pk, in_force=quota.in_force)
    return len(due)


def _holds_due(cluster: int, now: datetime) -> QuerySet[Any]:
    return Hold.objects.filter(cluster=cluster, in_force=True, expires_at__lte=now)


def _holds(entry: Entry) -> int:
    due = list(_holds_due(entry.clock.cluster_id, entry.at))
    for hold in due:
        hold.in_force = False
        hold.skip_history_when_saving = True
        hold.save(update_fields=["in_force"])
        entry.record("hold", hold.pk, in_force=False)
    return len(due)


def _locks_due(cluster: int, now: datetime) -> QuerySet[Any]:
    return NodeLock.objects.filter(
        cluster=cluster, stale=False, first_seen_at__lte=now - timedelta(seconds=LOCK_STALE_S)
    )


def _locks(entry: Entry) -> int:
    """A lock older than 30 s takes its node out; one older than twice the time-out raises an alarm, until it falls."""
    due = list(_locks_due(entry.clock.cluster_id, entry.at))
    for lock in due:
        lock.stale = True
        lock.save(update_fields=["stale"])
        entry.record("lock", lock.node, stale=True, holder=lock.pod_uid)
    late = _late(entry.clock.cluster_id, entry.at)
    for node in _alarms(entry.clock.cluster_id, entry.at):
        if node in late:
            _alarm(entry, late[node])
        else:
            findings.finding_close(entry, kind=STUCK, subject=node, repair="the lock has fallen")
    return len(due)


def _late(cluster: int, now: datetime) -> dict[str, NodeLock]:
    """Node → its lock, where that is older than twice the time-out."""
    oldest = now - timedelta(seconds=2 * env.current().node_lock_timeout_s)
    return {lock.node: lock for lock in NodeLock.objects.filter(cluster=cluster, first_seen_at__lte=oldest)}


def _alarms(cluster: int, now: datetime) -> set[str]:
    """Nodes about whose lock there is news: too old without an alarm, or an alarm without such a lock."""
    told = Finding.objects.filter(cluster=cluster, kind=STUCK, repaired_at=None).values_list("subject", flat=True)
    return _late(cluster, now).keys() ^ set(told)


def _alarm(entry: Entry, lock: NodeLock) -> None:
    findings.finding_raise(
        entry,
        kind=STUCK,
        subject=lock.node,
        evidence={"uid": lock.pod_uid, "value": lock.value, "since": lock.first_seen_at.isoformat()},
        message=f"locked since {lock.first_seen_at:%Y-%m-%d %H:%M:%S} UTC, more than twice the time-out",
    )


def _hopeless(cluster: int, now: datetime) -> list[str]:
    """uids of claimed pods that could not run even on the empty cluster for ten minutes."""
    refused = Refusal.objects.filter(
        cluster=cluster, never_fits=True, never_fits_since__lte=now - timedelta(seconds=NEVER_FITS_S)
    )
    uids = list(refused.values_list("pod_uid", flat=True))
    claimed = Pod.objects.filter(cluster=cluster, uid__in=uids, state=PodState.CLAIMED)
    return list(claimed.values_list("uid", flat=True))


def _suspend(entry: Entry) -> int:
    """Their claims are given up, so that they keep no quota from pods that can run; a successful filter claims
    again."""
    due = _hopeless(entry.clock.cluster_id, entry.at)
    for pod in Pod.objects.filter(cluster=entry.clock.cluster_id, uid__in=due, state=PodState.CLAIMED):
        pod_rows.pod_unplace(entry, pod, state=PodState.WAITING, suspended=True)
    return len(due)
