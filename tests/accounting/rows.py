"""Builders of ledger rows, written as the observing services write them: nodes with devices, pods with shares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from accounting import ledger, loading
from accounting.models import Device, Namespace, Node, Pod, Share
from hami_platform.domain import devices, lifecycle, requests
from hami_platform.domain.wire import pod_facts, pod_request
from tests import builders

VENDOR = "NVIDIA"


def node(name: str = "n1", count: int = 2, **device: Any) -> Node:
    """A node whose devices are GPU-<name>-0, GPU-<name>-1, …; `device` are columns of all of them."""
    columns = {
        "vendor": VENDOR,
        "model": builders.MODEL,
        "memory_mib": 24576,
        "core_percent": 100,
        "slots": 10,
    } | device
    with ledger.transaction(cause="test") as entry:
        row = Node.objects.create(cluster_id=entry.clock.cluster_id, name=name)
        entry.record("node", name)
        for index in range(count):
            one = Device(
                cluster_id=entry.clock.cluster_id, node=row, index=index, uuid=f"GPU-{name}-{index}", **columns
            )
            one._change_reason = "test"  # type: ignore[attr-defined]
            one.save()
            entry.record("device", f"{name}/{one.vendor}/{one.uuid}")
    return row


@dataclass(frozen=True, slots=True)
class Given:
    """One container's share of one device."""

    uuid: str = "GPU-n1-0"
    memory_mib: int = 4096
    core_percent: int = 20
    kind: str = "app"
    container: str = "main"
    mig: devices.MigUse | None = None
    vendor: str = VENDOR


def pod(
    name: str = "p1",
    *,
    namespace: str = "nlp",
    state: str = "running",
    shares: Iterable[Given] = (Given(),),
    asks: requests.DeviceRequest | None = None,
    claim_charges: Iterable[list[Any]] = (),
    **columns: Any,
) -> Pod:
    """A pod with its shares, of uid uid-<name>; on n1 where its state says so. `asks` is each container's request."""
    shares = list(shares)
    names = list(dict.fromkeys((one.container, one.kind) for one in shares)) or [("main", "app")]
    names.sort(key=lambda one: one[1] == "app")  # Kubernetes counts init containers first
    asks = asks or requests.DeviceRequest(VENDOR, 1, 4096, None, 20)
    request = requests.PodRequest(
        tuple(requests.ContainerRequest(label, devices.ContainerKind(kind), (asks,)) for label, kind in names)
    )
    placed = state in {"reserved", "binding", "bound", "running", "releasing", "ended"}
    defaults: dict[str, Any] = {"uid": f"uid-{name}", "node": "n1" if placed else "", "facts": {}}
    if state in {"running", "releasing"}:
        running = {label: lifecycle.ContainerFact("running", started=True) for label, _ in names}
        defaults["facts"] = pod_facts.encode(lifecycle.PodFacts("Running", state == "releasing", True, running))
    with ledger.transaction(cause="test") as entry:
        namespace_row(namespace)
        row = Pod.objects.create(
            cluster_id=entry.clock.cluster_id,
            namespace=namespace,
            name=name,
            state=state,
            request=pod_request.encode(request),
            claim_charges=list(claim_charges),
            state_at=entry.at,
            created_at=entry.at,
            **defaults | columns,
        )
        for one in shares if placed else ():
            _share(row, one, names.index((one.container, one.kind)))
        entry.record("pod", row.pk, uid=row.uid, namespace=namespace, name=name, state=state, node=row.node)
    return row


def namespace_row(name: str, **columns: Any) -> Namespace:
    """The namespace's row, made if it is new."""
    with ledger.transaction(cause="test") as entry:
        row = Namespace.objects.filter(cluster=entry.clock.cluster_id, name=name).first()
        if row is None:
            row = Namespace(cluster_id=entry.clock.cluster_id, name=name, **columns)
            row._change_reason = "test"  # type: ignore[attr-defined]
            row.save()
            entry.record("namespace", name)
    return row


def charge(memory_mib: int = 4096, count: int = 1, core_percent: int = 20) -> list[Any]:
    """One stored claim charge."""
    return [VENDOR, count, memory_mib, core_percent, memory_mib]


def mig_profiles() -> list[dict[str, Any]]:
    """The geometries of a 40 GiB card, as the ledger stores them."""
    placements = tuple(devices.MigPlacement(start, 1) for start in range(7))
    small = devices.MigProfile("1g.5gb", 4864, 14, 1, placements)
    half = devices.MigProfile("3g.20gb", 19968, 42, 3, (devices.MigPlacement(0, 4), devices.MigPlacement(4, 4)))
    return [loading.mig_profile_json(one) for one in (small, half)]


def _share(row: Pod, one: Given, index: int) -> None:
    found = Device.objects.filter(uuid=one.uuid).first()
    Share.objects.create(
        pod=row,
        container_index=index,
        container=one.container,
        kind=one.kind,
        vendor=one.vendor,
        uuid=one.uuid,
        model=found.model if found else "",
        memory_mib=one.memory_mib,
        core_percent=one.core_percent,
        mig_profile=one.mig.profile if one.mig else "",
        mig_start=one.mig.placement.start if one.mig else None,
        mig_size=one.mig.placement.size if one.mig else None,
    )
