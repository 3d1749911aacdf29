"""What the API server shows of nodes becomes inventory. Human columns are never in what is written here.

Content that did not change costs one comparison of hashes. Liveness stamps are kept beside the ledger; only a plugin
that goes or returns is journaled.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.db import DataError
from django.db.models import Count, Q

from accounting import bulk, ledger, live_view, loading
from accounting.ledger import Entry
from accounting.models import Device, Node, NodeLock
from accounting.services import findings, liveness, pace, registrations
from accounting.services.locks import ANNOTATION
from accounting.services.node_seen import NodeSeen
from hami_platform import logs
from hami_platform.domain import devices
from hami_platform.domain.vendors.base import DeviceConfig

UNREADABLE, TWICE = "unreadable-registration", "device-on-two-nodes"

News = tuple[NodeSeen, Sequence[str]]
"""A node, and its vendors whose plugin is gone."""

log = logs.get(__name__)


def nodes_observe(
    seen: Iterable[NodeSeen],
    *,
    config: DeviceConfig,
    fence: int | None = None,
    between: Callable[[], None] = lambda: None,
) -> int:
    """Bring inventory in line with these node objects; the number of nodes that changed. `between` is called after each
    transaction."""
    seen = list(seen)
    gone = liveness.gone_vendors([one for one in seen if one.registers], config)
    known = _fingerprints([one.name for one in seen])
    news = [
        (one, gone.get(one.name, ()))
        for one in seen
        if (one.registers or one.name in known) and known.get(one.name) != one.fingerprint(gone.get(one.name, ()))
    ]
    _paced(news, fence, between)
    liveness.first_seen([one for one, _ in news])
    return len(news)


def _fingerprints(names: Sequence[str]) -> dict[str, str]:
    rows = Node.objects.filter(cluster=ledger.cluster_id(), name__among=names).order_by()
    return dict(rows.values_list("name", "fingerprint"))


def _paced(news: Sequence[News], fence: int | None, between: Callable[[], None]) -> None:
    left, pacing = deque(news), pace.Pace()
    while left:
        size = pacing.size(serving=live_view.live().now.ready)
        batch = [left.popleft() for _ in range(min(size, len(left)))]
        try:
            pacing.took(len(batch), _batch(batch, fence))
        except DataError:
            for one in batch:
                _alone(one, fence)
        between()


def _batch(batch: Sequence[News], fence: int | None) -> float:
    """Write these nodes; how long the Clock was held, in seconds."""
    with ledger.transaction(cause="nodes_observe", fence=fence) as entry:
        began = time.monotonic()
        _write_all(entry, _still_news(batch))
    return time.monotonic() - began


def _still_news(batch: Sequence[News]) -> Sequence[News]:
    """Under the Clock: watcher and worker may look at the same list of nodes."""
    known = _fingerprints([one.name for one, _ in batch])
    return [(one, gone) for one, gone in batch if known.get(one.name) != one.fingerprint(gone)]


def _write_all(entry: Entry, batch: Sequence[News]) -> None:
    if not batch:
        return
    nodes, known = _nodes(batch)
    devices = defaultdict[int, list[Device]](list)
    for row in Device.objects.filter(node__pk__among=known):
        devices[row.node_id].append(row)
    unreadable = findings.subjects_open(entry, kind=UNREADABLE, subjects=list(nodes))
    touched: set[str] = set()
    fresh: list[FreshDevice] = []
    for one, vendors in batch:
        node = nodes[one.name]
        touched |= _write(entry, node, one, vendors, devices[node.pk], fresh, was_unreadable=one.name in unreadable)
    bulk.insert(Device, DEVICE_COLUMNS, fresh)
    others = _conflicts(entry, touched)
    registrations.registrations_follow(entry, nodes=others | set(nodes))


def _alone(one: tuple[NodeSeen, Sequence[str]], fence: int | None) -> None:
    """One node by itself: what the database refuses of it must not keep the others from being seen. It stays as it
    was."""
    try:
        _batch([one], fence)
    except DataError as fault:
        log.warning("node_unstorable", node=one[0].name, why=str(fault))
        with ledger.transaction(cause="nodes_observe", fence=fence) as entry:
            message = f"cannot be stored: {fault}".splitlines()[0]
            findings.finding_raise(entry, kind=UNREADABLE, subject=one[0].name, message=message[:1000], evidence={})


def nodes_gone(names: Sequence[str], *, fence: int | None = None) -> int:
    """These nodes are certainly gone: retired, never deleted. Pods on them keep their namespace charge while they
    exist."""
    rows = Node.objects.filter(cluster=ledger.cluster_id(), name__in=list(names), retired=False)
    if not rows.exists():
        return 0
    with ledger.transaction(cause="nodes_gone", fence=fence) as entry:
        count, others = 0, set[str]()
        for node in rows:
            node.retired, node.fingerprint = True, ""
            node.save(update_fields=["retired", "fingerprint"])
            entry.record("node", node.name, retired=True)
            _lock_gone(entry, node.name)
            others |= _conflicts(entry, set(node.devices.values_list("uuid", flat=True)))
            count += 1
        registrations.registrations_follow(entry, nodes=others | set(names))
        return count


def _lock_gone(entry: Entry, node: str) -> None:
    """A lock that a node's annotation carried goes with the node. One of the ledger's own falls with its holder."""
    if NodeLock.objects.filter(cluster=entry.clock.cluster_id, node=node, mode=ANNOTATION).delete()[0]:
        entry.record("lock", node, value="")


def _nodes(batch: Sequence[News]) -> tuple[dict[str, Node], list[int]]:
    """(the rows of these nodes by name, written; the keys of those that were known)."""
    cluster = ledger.cluster_id()
    known = {row.name: row for row in Node.objects.filter(cluster=cluster, name__among=[one.name for one, _ in batch])}
    fresh = []
    for one, gone in batch:
        columns = _node_columns(one, gone)
        if one.name in known:
            row = known[one.name]
            for name, value in columns.items():
                setattr(row, name, value)
            row.save(update_fields=list(columns))
        else:
            fresh.append((cluster, one.name, *columns.values()))
    if not fresh:
        return known, [row.pk for row in known.values()]
    bulk.insert(Node, ("cluster_id", "name", *_node_columns(*batch[0])), fresh)
    keys = Node.objects.filter(cluster=cluster, name__among=[name for _, name, *_ in fresh]).values_list("pk", "name")
    made = {name: Node(pk=pk, cluster_id=cluster, name=name) for pk, name in keys}
    return known | made, [row.pk for row in known.values()]


def _node_columns(seen: NodeSeen, gone: Sequence[str]) -> dict[str, Any]:
    return {
        "uid": seen.uid,
        "retired": False,
        "unschedulable": seen.unschedulable,
        "agent": seen.agent,
        "labelled": sorted(seen.labelled),
        "limits": seen.limits,
        "gone_vendors": sorted(gone),
        "pair_scores": [[a, b, score] for (a, b), score in sorted(seen.pair_scores.items())],
        "fingerprint": seen.fingerprint(gone),
        "problem": seen.problem[:400],
    }


def _write(
    entry: Entry,
    node: Node,
    seen: NodeSeen,
    gone: Sequence[str],
    known: Iterable[Device],
    fresh: list[FreshDevice],
    *,
    was_unreadable: bool,
) -> set[str]:
    """The node's devices: those known are written, those that are new come into `fresh`. The uuids whose liveness may
    have changed."""
    before = {(row.vendor, row.uuid): row for row in known}
    for device in seen.devices:
        _device(node, device, before.pop(device.key, None), fresh, cordoned=device.uuid in seen.cordoned)
    for row in before.values():
        if row.vendor not in seen.unreadable and row.registered:
            row.registered = False
            _save(row, ("registered",))
    entry.record(
        "node", node.name, devices=len(seen.devices), gone=sorted(gone), problem=seen.problem[:400], agent=seen.agent
    )
    if seen.problem:
        findings.finding_raise(entry, kind=UNREADABLE, subject=node.name, message=seen.problem[:1000], evidence={})
    elif was_unreadable:
        findings.finding_close(entry, kind=UNREADABLE, subject=node.name, repair="readable again")
    return {device.uuid for device in seen.devices} | {uuid for _, uuid in before}


def _device(
    node: Node, device: devices.Device, row: Device | None, fresh: list[FreshDevice], *, cordoned: bool
) -> None:
    columns = _columns(device) | {"registered": True, "cordoned_on_node": cordoned}
    if row is None:
        fresh.append((node.cluster_id, node.pk, device.vendor, device.uuid, *columns.values()))
        return
    changed = [name for name, value in columns.items() if getattr(row, name) != value]
    if changed:
        for name in changed:
            setattr(row, name, columns[name])
        _save(row, changed)


def _save(row: Device, columns: Iterable[str]) -> None:
    row.skip_history_when_saving = True  # type: ignore[attr-defined]  # simple-history: only people's changes have history
    row.save(update_fields=list(columns))


def _columns(device: devices.Device) -> dict[str, Any]:
    return {
        "index": device.index,
        "model": device.model,
        "memory_mib": device.memory_mib,
        "core_percent": device.core_percent,
        "slots": device.slots,
        "numa": device.numa,
        "mode": device.mode,
        "healthy": device.healthy,
        "custom": dict(device.custom),
        "mig_profiles": [loading.mig_profile_json(profile) for profile in device.mig_profiles],
    }


FreshDevice = tuple[Any, ...]
"""Values of DEVICE_COLUMNS."""
DEVICE_COLUMNS = (
    *("cluster_id", "node_id", "vendor", "uuid"),
    *_columns(devices.Device("", 0, "", "", 0, 0, 0)),
    *("registered", "cordoned_on_node"),
)


def _conflicts(entry: Entry, uuids: set[str]) -> set[str]:
    """A uuid that is live on two nodes is usable on neither, until one of them lets go. The nodes for which that
    changed."""
    changed = set[str]()
    live = Device.objects.filter(cluster=ledger.cluster_id(), uuid__among=uuids, registered=True, node__retired=False)
    twice = set(live.values_list("uuid").annotate(n=Count("pk")).filter(n__gt=1).values_list("uuid", flat=True))
    told = findings.subjects_open(entry, kind=TWICE, subjects=uuids)
    for row in live.select_related("node").filter(Q(uuid__in=twice | told) | Q(conflict=True)):
        conflict = row.uuid in twice
        if row.conflict != conflict:
            row.conflict = conflict
            changed.add(row.node.name)
            _save(row, ("conflict",))
            entry.record("device", f"{row.node.name}/{row.vendor}/{row.uuid}", conflict=conflict)
        if conflict:
            findings.finding_raise(
                entry,
                kind=TWICE,
                subject=row.uuid,
                evidence={"node": row.node.name},
                message="the same device uuid is registered on more than one node; it is used on none of them",
            )
        else:
            findings.finding_close(entry, kind=TWICE, subject=row.uuid, repair="registered once")
    return changed
