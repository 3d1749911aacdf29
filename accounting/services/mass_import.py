"""Takes over many bound pods at once: what a ledger that is new, or was restored, finds running.

The rows are those that the services would write one by one; a test compares them. Must not know: pods that wait for a
node, or have ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from accounting import bulk, ledger, live_view
from accounting.ledger import Entry
from accounting.models import Pod, Share, UsageInterval
from accounting.services import imports, pace, pod_rows, usage, wire_texts
from accounting.services.seen import PodSeen
from hami_platform.domain import lifecycle
from hami_platform.domain.vendors.base import DeviceConfig
from hami_platform.domain.view import View
from hami_platform.domain.wire import pod_facts, pod_request

MANY = 10
"""From so many on it is worth it."""


class _Found(NamedTuple):
    """A pod, and what its annotations state over the devices of its node."""

    seen: PodSeen
    stated: imports.Stated


def pods_import(
    seen: Sequence[PodSeen],
    *,
    config: DeviceConfig,
    fence: int | None = None,
    between: Callable[[], None] = lambda: None,
) -> int:
    """Give these pods, each on a node, their rows; the number of those that had none. `between` is called after each
    transaction. Raises ledger.Fenced, LedgerUnavailable, and DataError for what the database refuses (nothing of that
    batch is written then)."""
    taken, start, pacing = 0, 0, pace.Pace()
    view = live_view.live().refresh()
    while start < len(seen):
        batch = seen[start : start + pacing.size(serving=live_view.live().now.ready)]
        found = [_Found(one, _stated(view, one, config)) for one in batch]
        with ledger.transaction(cause="pods_import", fence=fence) as entry:
            began = time.monotonic()
            now = live_view.live().refresh()
            if now.nodes is not view.nodes:  # other devices may have come, or another model of one
                found = [_Found(one, _stated(now, one, config)) for one in batch]
            view = now
            taken += _import(entry, view, found, config)
        pacing.took(len(batch), time.monotonic() - began)
        start += len(batch)
        between()
    return taken


def _stated(view: View, seen: PodSeen, config: DeviceConfig) -> imports.Stated:
    return imports.stated(seen, imports.models_on(view, seen.node), config)


def _import(entry: Entry, view: View, batch: Sequence[_Found], config: DeviceConfig) -> int:
    known = _keys(one.seen.uid for one in batch)
    fresh = [one for one in batch if one.seen.uid not in known]
    for name in sorted({one.seen.namespace for one in fresh} - set(view.namespaces)):
        pod_rows.namespace_ensure(entry, cluster=ledger.cluster_id(), name=name)
    columns = [_columns(entry, one, config) for one in fresh]
    if not columns:
        return 0
    bulk.insert(Pod, tuple(columns[0]), (tuple(one.values()) for one in columns))
    keys = _keys(one.seen.uid for one in fresh)
    bulk.insert(Share, _SHARE, (row for one in fresh for row in _shares(keys[one.seen.uid], one)))
    _intervals(entry, fresh)
    for one, row in zip(fresh, columns, strict=True):
        told = {name: row[name] for name in ("uid", "namespace", "name", "state", "node")}
        entry.record("pod", keys[one.seen.uid], **told)
        imports.tell(entry, one.seen, one.stated)
    return len(fresh)


def _keys(uids: Iterable[str]) -> dict[str, int]:
    """Keys of the rows of these pods that have one, ended ones too."""
    rows = Pod.objects.filter(cluster=ledger.cluster_id(), uid__among=list(uids)).order_by()
    return dict(rows.values_list("uid", "pk"))


def _columns(entry: Entry, one: _Found, config: DeviceConfig) -> dict[str, Any]:
    seen = one.seen
    columns = imports.columns(entry, seen, one.stated, config)
    made = wire_texts.mig_made(columns["wire"], seen.annotations)
    if made is not None:
        columns["wire"] = {**columns["wire"], wire_texts.MIG: made}
    return columns | {
        "cluster_id": entry.clock.cluster_id,
        "state": imports.state_on_node(seen),
        "state_at": entry.at,
        "request": pod_request.encode(seen.request),
        "claim_charges": [],
        "facts": pod_facts.encode(seen.facts),
        "resource_version": seen.resource_version,
    }


_SHARE = (
    *("pod_id", "container_index", "container", "kind", "vendor", "uuid", "model", "memory_mib", "core_percent"),
    *("mig_profile", "mig_start", "mig_size"),
)


def _shares(pod: int, one: _Found) -> Iterator[tuple[Any, ...]]:
    for share in one.stated.shares:
        mig = (
            (share.mig.profile, share.mig.placement.start, share.mig.placement.size) if share.mig else ("", None, None)
        )
        plain = (share.vendor, share.uuid, share.model, share.memory_mib, share.core_percent)
        yield (pod, share.container_index, share.container, share.kind.value, *plain, *mig)


_INTERVAL = (
    *("cluster_id", "pod_uid", "namespace", "pod_name", "owner", "node"),
    *("vendor", "uuid", "model", "slots", "memory_mib", "core_percent", "started_at"),
)


def _intervals(entry: Entry, fresh: Sequence[_Found]) -> None:
    """Each pod's first intervals of use. The earliest of those that begin in hours that may have been summed up is
    enough to have all of them summed up again."""
    rows: list[tuple[Any, ...]] = []
    first = entry.at
    for seen, stated in fresh:
        since = usage.said(entry, seen.started_at, seen.created_at or entry.at)
        first = min(first, since)
        pod = (entry.clock.cluster_id, seen.uid, seen.namespace, seen.name, seen.owner, seen.node)
        models = {share.key: share.model for share in stated.shares}
        held = lifecycle.held(stated.shares, seen.request.containers, seen.facts, aligned=stated.aligned)
        for key, amount in held.items():
            rows.append((*pod, *key, models[key], amount.slots, amount.memory_mib, amount.core_percent, since))
    usage.late_mark(entry, first)
    bulk.insert(UsageInterval, _INTERVAL, rows)
