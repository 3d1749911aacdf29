"""Takes over many bound pods at once: what a ledger that is new, or was restored, finds running.

The rows are those that the services would write one by one; a test compares them. Must not know: pods that wait for a
node, or have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from accounting import ledger, live_view, loading
from accounting.ledger import Entry
from accounting.models import Pod
from accounting.services import imports, pod_rows, usage, wire_texts
from accounting.services.seen import PodSeen
from hami_platform.domain.vendors.base import DeviceConfig
from hami_platform.domain.view import View
from hami_platform.domain.wire import pod_facts, pod_request

MANY = 10
"""From so many on it is worth it."""
SERVING, IDLE = 10, 50
"""Pods in one ledger transaction: while others may need the Clock, and while nothing can be decided anyway."""


def pods_import(
    seen: Sequence[PodSeen],
    *,
    config: DeviceConfig,
    fence: int | None = None,
    between: Callable[[], None] = lambda: None,
) -> int:
    """Give these pods, each on a node, their rows; the number of those that had none. `between` is called after each
    transaction. Raises ledger.Fenced,
    LedgerUnavailable, and DataError for what the database refuses (nothing of that batch is written then)."""
    taken = 0
    left = list(seen)
    while left:
        at_once = SERVING if live_view.live().refresh().ready else IDLE
        batch, left = left[:at_once], left[at_once:]
        with ledger.transaction(cause="pods_import", fence=fence, gather=True) as entry:
            taken += _import(entry, live_view.live().refresh(), batch, config)
        between()
    return taken


def _import(entry: Entry, view: View, batch: Sequence[PodSeen], config: DeviceConfig) -> int:
    cluster = ledger.cluster_id()
    known = set(Pod.objects.filter(cluster=cluster, uid__in=[one.uid for one in batch]).values_list("uid", flat=True))
    fresh = [one for one in batch if one.uid not in known]
    for name in sorted({one.namespace for one in fresh} - set(view.namespaces)):
        pod_rows.namespace_ensure(entry, cluster=cluster, name=name)
    found = [imports.stated(one, imports.models_on(view, one.node), config) for one in fresh]
    pods = Pod.objects.bulk_create([_pod(entry, one, what, config) for one, what in zip(fresh, found, strict=True)])
    for pod, one, what in zip(pods, fresh, found, strict=True):
        pod_rows.shares_write(entry, pod, what.shares, had_none=True)
        entry.record("pod", pod.pk, uid=pod.uid, namespace=pod.namespace, name=pod.name, state=pod.state, node=pod.node)
        imports.tell(entry, one, what)
    _intervals(entry, pods, fresh)
    return len(pods)


def _pod(entry: Entry, seen: PodSeen, what: imports.Stated, config: DeviceConfig) -> Pod:
    columns = imports.columns(entry, seen, what, config)
    made = wire_texts.mig_made(columns["wire"], seen.annotations)
    if made is not None:
        columns["wire"] = {**columns["wire"], wire_texts.MIG: made}
    return Pod(
        cluster_id=ledger.cluster_id(),
        state=imports.state_on_node(seen),
        state_at=entry.at,
        request=pod_request.encode(seen.request),
        claim_charges=[],
        facts=pod_facts.encode(seen.facts),
        resource_version=seen.resource_version,
        **columns,
    )


def _intervals(entry: Entry, pods: Sequence[Pod], seen: Sequence[PodSeen]) -> None:
    entry.flush()
    rows = loading.pod_rows_of([pod.pk for pod in pods])
    for pod, one in zip(pods, seen, strict=True):
        row = rows[pod.pk]
        usage.intervals_follow(entry, pod, replace(row, facts=None), row, started_at=one.started_at)
