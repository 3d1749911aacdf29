"""Intervals of use: opened and closed as what a bound pod holds changes. The source of roll-ups and chargeback.

They begin and end when the pod says that it started and finished, not when somebody looked; where it does not say, or
changes in between, when the change was seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import F, QuerySet, Value
from django.db.models.functions import Greatest

from accounting import loading
from accounting.ledger import Entry
from accounting.models import LateUsage, Pod, UsageInterval
from hami_platform.domain.devices import DeviceKey, Held
from hami_platform.domain.rows import PodRow


def intervals_follow(
    entry: Entry, pod: Pod, before: PodRow, after: PodRow, *, started_at: datetime | None = None
) -> None:
    """As `intervals_write`, without a query where the pod holds what it held, or holds for the first time.

    before, after: the pod as the View has it, and as it is being written. A pod that was never seen on a node has no
    intervals. started_at: when the kubelet took it on.
    """
    if before.facts is None:
        since = _said(entry, started_at, pod.created_at)
        _open_all(entry, pod, after, {key: amount for key, amount in after.held.items() if amount}, since)
    elif (before.held, before.node) != (after.held, after.node):
        entry.flush()
        intervals_write(entry, pod)


def intervals_write(entry: Entry, pod: Pod) -> None:
    """Close the intervals that no longer say what the pod holds, and open those that do."""
    row = loading.pod_rows_of([pod.pk])[pod.pk]
    held = {key: amount for key, amount in row.held.items() if amount}
    for interval in _open(pod):
        key = (interval.vendor, interval.uuid)
        if key in held and _same(interval, held[key]) and interval.node == pod.node:
            del held[key]
        else:
            interval.ended_at = entry.at
            interval.save(update_fields=["ended_at"])
    _open_all(entry, pod, row, held, entry.at)


def _open_all(entry: Entry, pod: Pod, row: PodRow, held: Mapping[DeviceKey, Held], since: datetime) -> None:
    models = {share.key: share.model for share in row.shares}
    entry.insert([_interval(since, pod, key, amount, models.get(key, "")) for key, amount in held.items()])


def intervals_close(entry: Entry, pod: Pod, *, finished_at: datetime | None = None) -> None:
    """The pod holds nothing any more, since its last container finished if that is known."""
    at = _said(entry, finished_at, pod.created_at)
    _open(pod).update(ended_at=entry.at if at == entry.at else Greatest(F("started_at"), Value(at)))


def said(entry: Entry, at: datetime | None, first: datetime | None) -> datetime:
    """The time that a pod's status tells, within its life so far: nodes' clocks may be wrong."""
    return entry.at if at is None else min(entry.at, max(at, first or at))


def late_mark(entry: Entry, since: datetime) -> None:
    """What happened then is told now: hours that may have been summed up already are summed up again."""
    if _hour(since) < _hour(entry.at):
        LateUsage.objects.create(cluster_id=entry.clock.cluster_id, since=since)


def _said(entry: Entry, at: datetime | None, first: datetime | None) -> datetime:
    at = said(entry, at, first)
    late_mark(entry, at)
    return at


def _hour(at: datetime) -> int:
    return int(at.timestamp() // 3600)


def _open(pod: Pod) -> QuerySet[Any]:
    return UsageInterval.objects.filter(cluster=pod.cluster_id, pod_uid=pod.uid, ended_at=None)


def _same(interval: UsageInterval, held: Held) -> bool:
    return (interval.slots, interval.memory_mib, interval.core_percent) == (
        held.slots,
        held.memory_mib,
        held.core_percent,
    )


def _interval(since: datetime, pod: Pod, key: DeviceKey, held: Held, model: str) -> UsageInterval:
    return UsageInterval(
        cluster_id=pod.cluster_id,
        pod_uid=pod.uid,
        namespace=pod.namespace,
        pod_name=pod.name,
        owner=pod.owner,
        node=pod.node,
        vendor=key[0],
        uuid=key[1],
        model=model,
        slots=held.slots,
        memory_mib=held.memory_mib,
        core_percent=held.core_percent,
        started_at=since,
    )
