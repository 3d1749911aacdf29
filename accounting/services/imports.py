"""Takes over a pod that is bound but was not placed here: HAMi placed it, or it came past the webhook or its scheduler.

What it holds is what its annotations state; they are read for this alone, and only once the pod is bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from accounting import ledger
from accounting.ledger import Entry
from accounting.models import Node, Pod, PodState
from accounting.services import findings, pod_rows, wire_texts
from accounting.services.seen import PodSeen
from hami_platform.domain import devices
from hami_platform.domain.errors import WireError
from hami_platform.domain.vendors.base import DeviceConfig
from hami_platform.domain.view import View


@dataclass(frozen=True, slots=True)
class Stated:
    """What a pod's annotations say that it holds. unknown: why they cannot be decoded; then there are no shares."""

    shares: tuple[devices.Share, ...] = ()
    aligned: bool = True
    unknown: str = ""

    @property
    def unmanaged(self) -> bool:
        """Whether nothing is known of what the pod holds."""
        return not self.shares


def stated(seen: PodSeen, models: Mapping[devices.DeviceKey, str], config: DeviceConfig) -> Stated:
    """Read a bound pod's annotations. models: of the devices of its node."""
    try:
        shares, aligned = wire_texts.shares_from(seen.annotations, seen.request.containers, models, config)
    except WireError as fault:
        return Stated(aligned=False, unknown=str(fault))
    return Stated(shares, aligned)


def pod_import(entry: Entry, view: View, seen: PodSeen, config: DeviceConfig) -> Pod:
    """A row with the shares that the pod's annotations state. Undecodable: no shares, and its node takes no new
    device pods.

    Without any allocation annotation the pod is unmanaged: listed, with a Finding, and as it uses some devices of its
    node, the node takes no new device pods either, until it ends or its devices are known (`unmanaged`).
    """
    found = stated(seen, models_on(view, seen.node), config)
    pod = pod_rows.pod_create(
        entry,
        cluster=ledger.cluster_id(),
        state=PodState.BOUND,
        request=seen.request,
        charges=(),
        **columns(entry, seen, found, config),
    )
    pod_rows.shares_write(entry, pod, found.shares)
    tell(entry, seen, found)
    return pod


def columns(entry: Entry, seen: PodSeen, found: Stated, config: DeviceConfig) -> dict[str, Any]:
    """What the row of such a pod says of it, besides its state."""
    return {
        "namespace": seen.namespace,
        "name": seen.name,
        "owner": seen.owner,
        "uid": seen.uid,
        "node": seen.node,
        "priority": seen.priority,
        "aligned": found.aligned,
        "created_at": seen.created_at or entry.at,
        "unmanaged": found.unmanaged,
        "wire": _wire(seen, config),
    }


def state_on_node(seen: PodSeen) -> str:
    """The state of a pod that is on a node and has not ended."""
    if seen.facts.deleting:
        return PodState.RELEASING
    return PodState.RUNNING if seen.facts.phase == "Running" else PodState.BOUND


def pod_take_over(entry: Entry, view: View, pod: Pod, seen: PodSeen, config: DeviceConfig) -> None:
    """Somebody else bound a pod whose row here is unbound: it holds what its annotations state, not what was planned.

    Nothing changes where they state what this platform has reserved, or where nobody wrote any over a reservation.
    """
    wire = _wire(seen, config)
    ours = {key: pod.wire.get(key) for key in wire}
    if wire == ours and (wire or pod.shares.exists()):
        return
    found = stated(seen, models_on(view, seen.node), config)
    pod_rows.shares_write(entry, pod, found.shares)
    pod_rows.pod_move(entry, pod, pod.state, aligned=found.aligned, unmanaged=found.unmanaged, wire=wire)
    tell(entry, seen, found)


def _wire(seen: PodSeen, config: DeviceConfig) -> dict[str, str]:
    keys = [vendor.allocated_key for vendor in config.vendors]
    return {key: seen.annotations[key] for key in keys if key in seen.annotations}


def tell(entry: Entry, seen: PodSeen, found: Stated) -> None:
    """A finding for a pod of which nothing is known; its node takes no more where its annotations are unreadable."""
    if found.unknown:
        _node_unknown(entry, seen, found.unknown)
    elif found.unmanaged:
        findings.finding_raise(
            entry,
            kind="unmanaged-pod",
            subject=f"{seen.namespace}/{seen.name}",
            message=f"uses devices of node {seen.node} that nobody has accounted: while it lives the node takes no new"
            " pods with devices, unless its agent reports which they are",
            evidence={"uid": seen.uid, "node": seen.node, "scheduler": seen.scheduler_name},
        )


def models_on(view: View, node: str) -> dict[devices.DeviceKey, str]:
    """Model of each device that the node has."""
    return {one.key: one.model for one in _devices(view, node)}


def _devices(view: View, node: str) -> tuple[devices.Device, ...]:
    row = view.nodes.get(node)
    return row.devices if row is not None else ()


def _node_unknown(entry: Entry, seen: PodSeen, why: str) -> None:
    text = f"pod {seen.namespace}/{seen.name}: {why}"[:400]
    node = Node.objects.filter(cluster=ledger.cluster_id(), name=seen.node).first()
    if node is not None:
        node.accounting_unknown = text
        node.save(update_fields=["accounting_unknown"])
        entry.record("node", node.name, accounting_unknown=text)
    findings.finding_raise(
        entry, kind="undecodable-pod", subject=f"{seen.namespace}/{seen.name}", message=text, evidence={"uid": seen.uid}
    )


def unmanaged_ended(entry: Entry, pod: Pod) -> None:
    """An unmanaged pod has ended: what was found about it is over."""
    findings.finding_close(entry, kind="unmanaged-pod", subject=f"{pod.namespace}/{pod.name}", repair="it has ended")
    if not pod.aligned:
        node_known_again(entry, pod)


def node_known_again(entry: Entry, pod: Pod) -> None:
    """An undecodable pod has ended: its node takes pods again, unless another one like it is there."""
    node = Node.objects.filter(cluster=pod.cluster_id, name=pod.node).exclude(accounting_unknown="").first()
    others = Pod.objects.filter(cluster=pod.cluster_id, node=pod.node, unmanaged=True, aligned=False)
    if node is None or others.exclude(state=PodState.ENDED).exclude(pk=pod.pk).exists():
        return
    node.accounting_unknown = ""
    node.save(update_fields=["accounting_unknown"])
    entry.record("node", node.name, accounting_unknown="")
    findings.finding_close(entry, kind="undecodable-pod", subject=f"{pod.namespace}/{pod.name}", repair="gone")
