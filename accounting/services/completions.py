"""What a node's agent says once a container has its devices: the lock may fall, and these are its devices.

The agent's word is the truth about which cards a container was given: it is what runs. Where the ledger says otherwise,
as when a refit was given up by the agent and its patch still landed, both sides are held until the comparison has
written the truth into the pod's annotations (`refits.refits_settle`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from accounting import ledger, live_view
from accounting.ledger import Entry
from accounting.models import Pod, PodState
from accounting.services import findings, pod_rows, refits
from hami_platform.domain import devices
from hami_platform.domain.nodes import MIG
from hami_platform.domain.rows import PodRow
from hami_platform.domain.wire import pod_request

KIND = "handed-out-otherwise"


def completion_report(*, uid: str, container: str, node: str, devices: Sequence[str] = ()) -> bool:
    """The agent has served a container's Allocate. The lock falls with the last container that asks for devices.

    devices: uuids of the cards that it was given; none: an older agent. False: the ledger knows no such pod on that
    node; the agent need not repeat the report.
    """
    with ledger.transaction(cause="completion_report", actor=f"agent/{node}") as entry:
        pod = Pod.objects.filter(cluster=ledger.cluster_id(), uid=uid, node=node).exclude(state=PodState.ENDED).first()
        if pod is None:
            return False
        served = sorted({*pod.wire.get(refits.SERVED, ()), container})
        asking = {one.name for one in pod_request.decode(pod.request).containers if one.devices}
        wire = {**pod.wire, refits.SERVED: served}
        if devices:
            wire |= _given(entry, pod, container, list(devices))
        pod_rows.pod_move(entry, pod, pod.state, wire=wire)
        if asking <= set(served):
            pod_rows.lock_drop(entry, pod)
        return True


def _given(entry: Entry, pod: Pod, container: str, given: list[str]) -> dict[str, object]:
    """The mark of an open refit, if one is open or must be because the ledger names other devices."""
    row = live_view.live().refresh().pod(pod.uid)
    own = [one for one in row.shares if one.container == container and one.vendor == refits.VENDOR] if row else []
    if row is None or not own or any(one.mig for one in own):
        return {}
    mark, index = pod.wire.get(refits.MARK), own[0].container_index
    mine = isinstance(mark, dict) and mark["container"] == index
    before = mark["before"] if mine else [one.uuid for one in own]
    if not mine and sorted(before) == sorted(given):
        return {}
    new = _added(row, own, given)
    if new is None or len(before) != len(given) or (mark and not mine):
        _tell(entry, pod, container, before, given)
        return {}
    if new:
        pod_rows.shares_write(entry, pod, sorted([*row.shares, *new], key=lambda one: one.container_index))
    after = mark["after"] if mine and sorted(given) in (sorted(before), sorted(mark["after"])) else given
    side = next(list(one) for one in (before, after) if sorted(one) == sorted(given))
    at = entry.at.isoformat()
    return {refits.MARK: {"container": index, "before": before, "after": after, "at": at, "given": side}}


def _added(row: PodRow, own: Sequence[devices.Share], given: Sequence[str]) -> list[devices.Share] | None:
    """Shares of given devices that the container does not hold yet; None where one is no whole card of its node."""
    cards = {
        state.device.uuid: state.device
        for state in live_view.live().refresh().states[row.node].devices
        if state.device.vendor == refits.VENDOR and state.device.mode != MIG
    }
    missing = [uuid for uuid in given if uuid not in {one.uuid for one in own}]
    if any(uuid not in cards for uuid in missing):
        return None
    return [replace(own[0], uuid=uuid, model=cards[uuid].model) for uuid in missing]


def _tell(entry: Entry, pod: Pod, container: str, before: Sequence[str], given: Sequence[str]) -> None:
    findings.finding_raise(
        entry,
        kind=KIND,
        subject=str(pod),
        message=f"container {container} was given {', '.join(given)}, and the ledger says {', '.join(before)}",
        evidence={"uid": pod.uid, "container": container, "given": list(given), "before": list(before)},
    )
