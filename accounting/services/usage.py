"""Intervals of use: opened and closed as what a bound pod holds changes. The source of roll-ups and chargeback."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet

from accounting import loading
from accounting.ledger import Entry
from accounting.models import Pod, UsageInterval
from hami_platform.domain.devices import DeviceKey, Held
from hami_platform.domain.rows import PodRow


def intervals_follow(entry: Entry, pod: Pod, before: PodRow, after: PodRow) -> None:
    """As `intervals_write`, without a query where the pod holds what it held, or holds for the first time.

    before, after: the pod as the View has it, and as it is being written. A pod that was never seen on a node has no
    intervals.
    """
    if before.facts is None:
        _open_all(entry, pod, after, {key: amount for key, amount in after.held.items() if amount})
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
    _open_all(entry, pod, row, held)


def _open_all(entry: Entry, pod: Pod, row: PodRow, held: Mapping[DeviceKey, Held]) -> None:
    models = {share.key: share.model for share in row.shares}
    entry.insert([_interval(entry, pod, key, amount, models.get(key, "")) for key, amount in held.items()])


def intervals_close(entry: Entry, pod: Pod) -> None:
    """The pod holds nothing any more."""
    _open(pod).update(ended_at=entry.at)


def _open(pod: Pod) -> QuerySet[Any]:
    return UsageInterval.objects.filter(cluster=pod.cluster_id, pod_uid=pod.uid, ended_at=None)


def _same(interval: UsageInterval, held: Held) -> bool:
    return (interval.slots, interval.memory_mib, interval.core_percent) == (
        held.slots,
        held.memory_mib,
        held.core_percent,
    )


def _interval(entry: Entry, pod: Pod, key: DeviceKey, held: Held, model: str) -> UsageInterval:
    return UsageInterval(
        cluster_id=pod.cluster_id,
        pod_uid=pod.uid,
        namespace=pod.namespace,
        pod_name=pod.name,
        node=pod.node,
        vendor=key[0],
        uuid=key[1],
        model=model,
        slots=held.slots,
        memory_mib=held.memory_mib,
        core_percent=held.core_percent,
        started_at=entry.at,
    )
