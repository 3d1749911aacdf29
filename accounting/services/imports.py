"""Takes over a pod that is bound already but that the ledger does not know: HAMi placed it, or it came past the
webhook."""

from __future__ import annotations

from accounting import ledger
from accounting.ledger import Entry
from accounting.models import Node, Pod, PodState
from accounting.services import findings, pod_rows, wire_texts
from accounting.services.seen import PodSeen
from hami_platform.domain import devices
from hami_platform.domain.errors import WireError
from hami_platform.domain.vendors.base import DeviceConfig
from hami_platform.domain.view import View


def pod_import(entry: Entry, view: View, seen: PodSeen, config: DeviceConfig) -> Pod:
    """A row with the shares that the pod's annotations state. Undecodable: no shares, and its node takes no new
    device pods.

    Without any allocation annotation the pod is unmanaged: listed, with a Finding, holding nothing that we know of.
    """
    models = {(d.vendor, d.uuid): d.model for d in _devices(view, seen.node)}
    unknown = ""
    try:
        shares, aligned = wire_texts.shares_from(seen.annotations, seen.request.containers, models, config)
    except WireError as fault:
        shares, aligned, unknown = (), False, str(fault)
    pod = pod_rows.pod_create(
        entry,
        cluster=ledger.cluster_id(),
        state=PodState.BOUND,
        request=seen.request,
        charges=(),
        namespace=seen.namespace,
        name=seen.name,
        owner=seen.owner,
        uid=seen.uid,
        node=seen.node,
        priority=seen.priority,
        aligned=aligned,
        created_at=seen.created_at or entry.at,
        unmanaged=not shares,
        wire={
            key: seen.annotations[key] for v in config.vendors for key in (v.allocated_key,) if key in seen.annotations
        },
    )
    pod_rows.shares_write(pod, shares)
    if unknown:
        _node_unknown(entry, seen, unknown)
    elif not shares:
        findings.finding_raise(
            entry,
            kind="unmanaged-pod",
            subject=f"{seen.namespace}/{seen.name}",
            message=f"asks for devices on node {seen.node} but was not placed by this platform",
            evidence={"uid": seen.uid},
        )
    return pod


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
