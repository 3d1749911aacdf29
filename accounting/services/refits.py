"""Moves one container of a bound pod to other devices of its node, because the kubelet can give it only those.

The ledger holds the old and the new devices while the annotations are being written, and lets go of one side when it
is known which one they name. So neither is ever free while a container may be given it, whatever is lost in between;
`refits_settle` finishes what a process left behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from accounting import ledger, live_view
from accounting.ledger import Entry
from accounting.models import Pod
from accounting.services import claims, findings, placements, pod_rows, usage
from accounting.services.seen import PodSeen, storable
from hami_platform import logs
from hami_platform.domain import devices, fit, lifecycle, quota, requests, terms
from hami_platform.domain.errors import WireError
from hami_platform.domain.nodes import MIG, DeviceState, NodeState
from hami_platform.domain.reasons import Reason, Rejection
from hami_platform.domain.rows import PodRow
from hami_platform.domain.vendors.base import DeviceConfig, Vendor
from hami_platform.domain.view import View
from hami_platform.domain.wire import pod_devices
from hami_platform.kube import api as ports
from hami_platform.kube import calls, errors

log = logs.get(__name__)

VENDOR = "NVIDIA"
UNMATCHED = "AllowedDeviceSetUnmatched"
MARK = "refit"
"""Key in Pod.wire while two sides are held: container, uuids before and after, since when. given: which of them the
node's agent has handed out, once it has said so; then the annotations follow that."""
SETTLES_S = 10
SERVED = "served"
"""Key in Pod.wire: containers that have their devices, as the node's agent said."""
ON_NODE = frozenset({"bound", "running"})


@dataclass(frozen=True, slots=True)
class RefitAsk:
    """Which container of which pod, and the devices that the kubelet can give it. Without container_name the index
    alone counts: init containers first, then apps."""

    uid: str
    namespace: str
    name: str
    node: str
    container_index: int
    allowed: frozenset[str]
    container_name: str = ""
    vendor: str = VENDOR


@dataclass(frozen=True, slots=True)
class RefitPlan:
    """What to write into the pod's annotations; until `refit_settle` both sides are held. row: the container's new
    devices as text. at: tells this refit from later ones of the same pod."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    row: str
    annotations: dict[str, str]
    at: str


@dataclass(frozen=True, slots=True)
class RefitUnchanged:
    """Its devices are all allowed: it keeps them."""

    row: str


@dataclass(frozen=True, slots=True)
class RefitRefused:
    """Why not, for people; the first word may be a reason."""

    message: str


@dataclass(frozen=True, slots=True)
class _Texts:
    """The pod's annotations of this vendor, as rows, one for each container."""

    waiting: pod_devices.Rows
    allocated: pod_devices.Rows


Begun = RefitPlan | RefitUnchanged | RefitRefused


def refit_begin(*, ask: RefitAsk, seen: PodSeen, config: DeviceConfig) -> Begun:
    """Choose allowed devices for the container as a placement would, and hold them beside the old ones.

    seen: the pod as just read. Raises ledger.LedgerUnavailable.
    """
    with live_view.deciding(cause="refit_begin") as (entry, view):
        row = view.pod(ask.uid)
        refused = _not_this(view, row, ask, seen)
        if refused or row is None:
            return RefitRefused(refused or "the pod is unknown")
        if row.request.containers[ask.container_index].name in Pod.objects.get(pk=row.id).wire.get(SERVED, ()):
            return RefitRefused(f"container {ask.container_index} has its devices already")
        vendor = config.vendor(VENDOR)
        texts = _texts(seen, vendor, row)
        if isinstance(texts, RefitRefused):
            return texts
        own = tuple(one for one in row.shares if one.container_index == ask.container_index and one.vendor == VENDOR)
        refused = _not_these(view, row, ask, own, texts.waiting[ask.container_index])
        if refused:
            return RefitRefused(refused)
        if {one.uuid for one in own} <= ask.allowed:
            return RefitUnchanged(_row_text(own, vendor))
        found = _fit(view, row, ask, own)
        if isinstance(found, RefitRefused):
            return found
        _hold_both(entry, row, own, found)
        return _plan(own, found, texts, vendor, entry.at)


def refit_settle(*, uid: str, annotations: Mapping[str, str], config: DeviceConfig, at: str = "") -> tuple[str, ...]:
    """Let go of the side that the pod's annotations do not name; the uuids that the container has now.

    annotations: as they certainly are. at: a plan's, to settle that refit and no later one. Empty where nothing was
    open, or where they name neither side: then both stay held, with a Finding. Raises ledger.LedgerUnavailable.
    """
    with ledger.transaction(cause="refit_settle") as entry:
        pod = Pod.objects.filter(cluster=ledger.cluster_id(), uid=uid).first()
        row = live_view.live().refresh().pod(uid)
        mark = pod.wire.get(MARK) if pod is not None else None
        if pod is None or row is None or not isinstance(mark, dict) or at not in ("", mark["at"]):
            return ()
        key = config.vendor(VENDOR).allocated_key
        text = storable(annotations).get(key, "")
        named = _named(text, mark["container"])
        if named not in (tuple(mark["before"]), tuple(mark["after"])):
            _tell_neither(entry, pod, named)
            return ()
        if list(named) != mark.get("given", list(named)):
            return ()  # a patch that came late: `refits_settle` writes what is true
        kept = {one.uuid: one for one in row.shares if _of(one, mark["container"])}
        others = [one for one in row.shares if not _of(one, mark["container"])]
        pod_rows.shares_write(entry, pod, _in_order([*others, *(kept[uuid] for uuid in named)]))
        wire = {name: value for name, value in pod.wire.items() if name != MARK} | {key: text}
        pod_rows.pod_move(entry, pod, pod.state, wire=wire)
        usage.intervals_write(entry, pod)
        findings.finding_close(entry, kind="refit-unsettled", subject=str(pod), repair="settled")
        return named


def refit_doubt(api: ports.Api, *, uid: str, namespace: str, name: str, config: DeviceConfig) -> tuple[str, ...]:
    """Settle when it is unknown whether the annotations were written: first the pod gets a new resourceVersion, so
    that a patch still on its way must fail. Raises kube errors, ledger.LedgerUnavailable."""
    found = _renewed(api, uid, namespace, name)
    return refit_settle(uid=uid, annotations=found["metadata"].get("annotations") or {}, config=config)


def _renewed(api: ports.Api, uid: str, namespace: str, name: str) -> Mapping[str, Any]:
    stamp = f"refit-{ledger.database_time().timestamp():.6f}"
    return api.send(calls.pod_retry(namespace=namespace, name=name, uid=uid, retry_at=stamp).whole())


def refits_settle(api: ports.Api, *, config: DeviceConfig) -> int:
    """Finish refits whose process died; how many."""
    cluster = ledger.cluster_id()
    open_ = list(Pod.objects.filter(cluster=cluster, state__in=pod_rows.ON_NODE, wire__has_key=MARK))
    before = ledger.database_time() - timedelta(seconds=SETTLES_S) if open_ else None
    settled = 0
    for pod in open_:
        if before is None or datetime.fromisoformat(pod.wire[MARK]["at"]) > before:
            continue
        try:
            settled += bool(_finish(api, pod, config))
        except errors.ApiError as refusal:  # about this pod alone; the next tick reads it again
            log.warning("refit_not_settled", namespace=pod.namespace, pod=pod.name, uid=pod.uid, why=str(refusal))
    return settled


def _finish(api: ports.Api, pod: Pod, config: DeviceConfig) -> tuple[str, ...]:
    """What the container has now; first the annotations name what its agent has handed out. Raises kube errors."""
    found = _renewed(api, pod.uid, pod.namespace, pod.name)
    notes = found["metadata"].get("annotations") or {}
    changes = _corrections(pod, notes, config.vendor(VENDOR))
    if changes:
        version = str(found["metadata"]["resourceVersion"])
        call = calls.pod_annotate(
            namespace=pod.namespace, name=pod.name, uid=pod.uid, annotations=changes, resource_version=version
        )
        api.send(call)
    return refit_settle(uid=pod.uid, annotations={**notes, **changes}, config=config)


def _corrections(pod: Pod, notes: Mapping[str, str], vendor: Vendor) -> dict[str, str]:
    """Annotations that name other devices than the container was given; none where nobody said, or they are right."""
    mark, row = pod.wire[MARK], live_view.live().refresh().pod(pod.uid)
    index, given = mark["container"], mark.get("given")
    if given is None or row is None or _named(notes.get(vendor.allocated_key, ""), index) == tuple(given):
        return {}
    shares = {one.uuid: one for one in row.shares if _of(one, index)}
    right = tuple(_wire_row(shares[uuid], vendor) for uuid in given)
    found = {}
    for key in (vendor.to_allocate_key, vendor.allocated_key):
        rows = pod_devices.decode(notes.get(key, ""))
        if index < len(rows) and rows[index]:  # a row that was consumed stays empty
            found[key] = pod_devices.encode([*rows[:index], right, *rows[index + 1 :]])
    return found


# -- what may be moved ---------------------------------------------------------------------------------------------


def _not_this(view: View, row: PodRow | None, ask: RefitAsk, seen: PodSeen) -> str:
    """Why this container is not one that can be moved; empty if it is."""
    if not view.ready:
        return placements.NOT_READY
    if ask.vendor != VENDOR:
        return f"devices of {ask.vendor or 'no vendor'} are not moved, only {VENDOR}"
    if row is None:
        return "the pod is unknown"
    if (row.namespace, row.name, row.node) != (ask.namespace, ask.name, ask.node):
        return f"pod uid {row.uid} is {row.namespace}/{row.name} on node {row.node or '-'}"
    if row.state not in ON_NODE or seen.node != row.node or seen.terminal or seen.facts.deleting:
        return f"the pod is {row.state}, not waiting for its devices on the node"
    containers = row.request.containers
    if not 0 <= ask.container_index < len(containers):
        return f"container index {ask.container_index} is not from 0 to {len(containers) - 1}"
    if ask.container_name and containers[ask.container_index].name != ask.container_name:
        return f"container {ask.container_index} is {containers[ask.container_index].name}, not {ask.container_name}"
    return "" if row.aligned else "its rows cannot be attributed to containers"


def _texts(seen: PodSeen, vendor: Vendor, row: PodRow) -> _Texts | RefitRefused:
    count = len(row.request.containers)
    found = []
    for key in (vendor.to_allocate_key, vendor.allocated_key):
        try:
            rows = pod_devices.align(pod_devices.decode(seen.annotations.get(key, "")), count)
        except WireError as fault:
            return RefitRefused(f"annotation {key}: {fault}")
        if rows is None:
            return RefitRefused(f"annotation {key} does not have one row for each container")
        found.append(rows)
    return _Texts(*found)


def _not_these(
    view: View, row: PodRow, ask: RefitAsk, own: Sequence[devices.Share], waiting: Sequence[pod_devices.Row]
) -> str:
    """Why the container's devices cannot be exchanged; empty if they can."""
    if not waiting:
        return f"container {ask.container_index} has no devices left to allocate"
    if [one.uuid for one in waiting] != [one.uuid for one in own]:
        return "its annotations and the ledger name different devices"
    cut = {state.device.uuid for state in view.states[row.node].devices if state.device.mode == MIG}
    if any(one.mig or one.uuid in cut for one in own):
        return "MIG instances are not moved"
    if len({(one.memory_mib, one.core_percent) for one in own}) > 1:
        return "its devices differ in memory or cores"
    return ""


# -- where to --------------------------------------------------------------------------------------------------------


def _fit(
    view: View, row: PodRow, ask: RefitAsk, own: Sequence[devices.Share]
) -> tuple[devices.Share, ...] | RefitRefused:
    """Allowed devices of the pod's node on which the container fits, its own row given back, with the same policy and
    amounts."""
    first, container = own[0], row.request.containers[ask.container_index]
    wanted = requests.DeviceRequest(VENDOR, len(own), memory_mib=first.memory_mib, core_percent=first.core_percent)
    alone = replace(container, kind=devices.ContainerKind.APP, devices=(wanted,))
    request = requests.PodRequest((alone,), row.request.constraints)
    others = [one for one in row.shares if one not in own]
    node = view.states[row.node]
    states = [
        _without_own(state, row, others, replace(first, uuid=state.device.uuid))
        for state in node.devices
        if state.device.vendor == VENDOR and state.device.uuid in ask.allowed and state.device.mode != MIG
    ]
    blocked = node.blocked if node.blocked is Reason.NODE_ACCOUNTING_UNKNOWN else None  # its lock is the pod's own
    site = NodeState.of(node.name, states, blocked=blocked, pair_scores=node.pair_scores)
    asked = terms.terms_of(request, placements.defaults(), quota.UNLIMITED, placements.strategies())
    found = fit.fit(site, request, asked)
    if isinstance(found, Rejection):
        return RefitRefused(f"{UNMATCHED}: {found.text()}")
    new = tuple(
        replace(one, container_index=ask.container_index, container=container.name, kind=container.kind)
        for one in found.shares
    )
    return _within_quota(view, row, [*others, *new]) or new


def _without_own(state: DeviceState, row: PodRow, others: Sequence[devices.Share], trial: devices.Share) -> DeviceState:
    """The device as the fit must see it, so that adding the container's amounts gives what would really be held: its
    pod's other containers may hold theirs at another time."""
    key = state.device.key
    now, with_own = row.held.get(key, devices.NOTHING), _held(row, [*others, trial]).get(key, devices.NOTHING)
    held = devices.Held(
        state.held.slots - now.slots + max(0, with_own.slots - 1),
        state.held.memory_mib - now.memory_mib + max(0, with_own.memory_mib - trial.memory_mib),
        state.held.core_percent - now.core_percent + max(0, with_own.core_percent - trial.core_percent),
        state.held.mig,
    )
    return DeviceState(state.device, held)


def _within_quota(view: View, row: PodRow, shares: Sequence[devices.Share]) -> RefitRefused | None:
    """A limit may be about another model than the old devices'; what is charged as before was allowed before."""
    charges = quota.charges_of(_held(row, shares), {one.key: _model(view, row.node, one) for one in shares})
    if charges == row.charges:
        return None
    verdict = claims.judge(view, row.namespace, charges, without=row.id)
    if not verdict.stops or verdict.excess is None:
        return None
    return RefitRefused(f"{UNMATCHED}: {Reason.RESOURCE_QUOTA_NOT_FIT.value}: {verdict.excess.text()}")


def _model(view: View, node: str, share: devices.Share) -> str:
    found = (state.device.model for state in view.states[node].devices if state.device.key == share.key)
    return next(found, share.model)


def _held(row: PodRow, shares: Sequence[devices.Share]) -> dict[devices.DeviceKey, devices.Held]:
    if row.facts is None:
        return lifecycle.peak(shares)
    return lifecycle.held(shares, row.request.containers, row.facts)


# -- writing ---------------------------------------------------------------------------------------------------------


def _hold_both(entry: Entry, row: PodRow, own: Sequence[devices.Share], new: Sequence[devices.Share]) -> None:
    pod = Pod.objects.get(pk=row.id)
    old = {one.uuid for one in own}
    added = [one for one in new if one.uuid not in old]
    pod_rows.shares_write(entry, pod, _in_order([*row.shares, *added]))
    mark = {
        "container": own[0].container_index,
        "before": [one.uuid for one in own],
        "after": [one.uuid for one in new],
        "at": entry.at.isoformat(),
    }
    pod_rows.pod_move(entry, pod, pod.state, wire=pod.wire | {MARK: mark})


def _plan(
    own: Sequence[devices.Share], new: Sequence[devices.Share], texts: _Texts, vendor: Vendor, at: datetime
) -> RefitPlan:
    index = own[0].container_index
    row = tuple(_wire_row(one, vendor) for one in new)
    written = {
        key: pod_devices.encode([*rows[:index], row, *rows[index + 1 :]])
        for key, rows in ((vendor.to_allocate_key, texts.waiting), (vendor.allocated_key, texts.allocated))
    }
    return RefitPlan(
        tuple(one.uuid for one in own), tuple(one.uuid for one in new), _row_text(new, vendor), written, at.isoformat()
    )


def _row_text(shares: Sequence[devices.Share], vendor: Vendor) -> str:
    """One container's devices, without the end mark: `uuid,NVIDIA,MiB,cores:` for each."""
    return pod_devices.encode([[_wire_row(one, vendor) for one in shares]]).removesuffix(";")


def _wire_row(share: devices.Share, vendor: Vendor) -> pod_devices.Row:
    return pod_devices.Row(share.uuid, vendor.type_on_wire(share), share.memory_mib, share.core_percent)


def _named(text: str, index: int) -> tuple[str, ...]:
    """The uuids of a container's row; () where the text cannot be read."""
    try:
        rows = pod_devices.decode(text)
    except WireError:
        return ()
    return tuple(one.uuid for one in rows[index]) if index < len(rows) else ()


def _of(share: devices.Share, index: int) -> bool:
    return share.container_index == index and share.vendor == VENDOR


def _in_order(shares: Sequence[devices.Share]) -> list[devices.Share]:
    return sorted(shares, key=lambda one: one.container_index)


def _tell_neither(entry: Entry, pod: Pod, named: Sequence[str]) -> None:
    findings.finding_raise(
        entry,
        kind="refit-unsettled",
        subject=str(pod),
        message=f"its annotations name {list(named)}, neither the devices before nor after a refit: all are held",
        evidence={"uid": pod.uid, "refit": pod.wire[MARK]},
    )
