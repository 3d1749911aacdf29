"""The answers that probe.py gives, each through the product's View, models and services.

Must not know: tests. A question that a person could not answer from the console has no place here.
"""

from __future__ import annotations

from typing import Any

from accounting import ledger, live_view
from accounting.models import Finding, NodeLock, Pod, Refusal, Trace
from accounting.services import asked, namespaces, quotas
from accounting.services.device_config import device_config
from hami_platform.domain import quota
from hami_platform.domain.rows import PodRow
from hami_platform.domain.view import View
from hami_platform.domain.wire import pod_devices

Row = dict[str, Any]
ACTOR = "acceptance-test"
ALLOCATED = "hami.io/vgpu-devices-allocated"


def pod(namespace: str, name: str) -> Row | None:
    """The newest row of a name, ended ones too."""
    found = Pod.objects.filter(cluster=ledger.cluster_id(), namespace=namespace, name=name).order_by("-pk").first()
    return None if found is None else _row(found, live_view.live().refresh())


def pods(namespace: str) -> list[Row]:
    """Every row of the namespace that has not ended."""
    view = live_view.live().refresh()
    live = Pod.objects.filter(cluster=ledger.cluster_id(), namespace=namespace).exclude(state="ended")
    return [_row(each, view) for each in live.order_by("name", "pk")]


def _row(found: Pod, view: View) -> Row:
    live: PodRow | None = view.pods.get(found.pk)
    shares = found.shares.order_by("container_index", "pk")
    columns = ("container_index", "container", "kind", "uuid", "memory_mib", "core_percent")
    return {
        "uid": found.uid,
        "name": found.name,
        "state": found.state,
        "node": found.node,
        "gated": found.gated,
        "refusal": _refusal(found.uid),
        "wire": found.wire,
        "shares": list(shares.values(*columns)),
        "held": {uuid: _held(held) for (_, uuid), held in live.held.items()} if live else {},
        "charged_mib": sum(charge.amounts.memory_mib for charge in live.charges) if live else 0,
    }


def _refusal(uid: str) -> str:
    last = Refusal.objects.filter(cluster=ledger.cluster_id(), pod_uid=uid).first()
    return last.summary if last else ""


def _held(held: Any) -> dict[str, int]:
    return {"slots": held.slots, "memory_mib": held.memory_mib, "core_percent": held.core_percent}


def devices() -> dict[str, dict[str, int]]:
    """Device uuid → what is held on it."""
    states = live_view.live().refresh().states.values()
    return {one.device.uuid: _held(one.held) for state in states for one in state.devices}


def used_mib(namespace: str) -> int:
    """MiB that the namespace is charged."""
    view = live_view.live().refresh()
    mine = [row for row in view.pods.values() if row.namespace == namespace]
    return sum(charge.amounts.memory_mib for row in mine for charge in row.charges)


def quota_set(namespace: str, mode: str | None, limits: dict[str, int | None]) -> None:
    """Set the namespace's default quota and, where given, its mode."""
    if mode is not None:
        namespaces.namespace_save(name=namespace, mode=mode, actor=ACTOR, reason="acceptance test")
    quotas.quota_set(namespace=namespace, limits=quota.Limits(**limits), actor=ACTOR, reason="acceptance test")


def traces(namespace: str, name: str) -> list[Row]:
    """Stored decisions of `/filter` about a pod, newest first."""
    found = Trace.objects.filter(
        cluster=ledger.cluster_id(), namespace=namespace, pod_name=name, verdict__in=asked.ASKED
    )
    return list(found.values("verdict", "reason", "summary", "times"))  # type: ignore[arg-type]


def agents() -> dict[str, str]:
    """Node → version of our agent on it, empty where HAMi's plugin serves."""
    return {name: row.agent for name, row in live_view.live().refresh().nodes.items()}


def findings(kind: str) -> dict[str, str]:
    """Open findings of a kind: subject → message."""
    rows = Finding.objects.filter(cluster=ledger.cluster_id(), kind=kind, repaired_at=None)
    return dict(rows.values_list("subject", "message"))


def locks() -> dict[str, str]:
    """Node → uid of the pod that may allocate there."""
    return dict(NodeLock.objects.filter(cluster=ledger.cluster_id()).values_list("node", "pod_uid"))


def decoded(annotations: dict[str, str]) -> list[Row]:
    """The allocated annotation as rows of container and device."""
    containers = pod_devices.decode(annotations[ALLOCATED])
    return [
        {
            "container_index": index,
            "uuid": row.uuid,
            "memory_mib": row.memory_mib,
            "core_percent": row.core_percent,
        }
        for index, rows in enumerate(containers)
        for row in rows
    ]


def managed_resources() -> list[str]:
    """Every extended resource that a vendor declares."""
    return list(device_config().resource_names)


ANSWERS = {
    answer.__name__: answer
    for answer in (agents, findings, pod, pods, devices, used_mib, quota_set, traces, locks, decoded, managed_resources)
}
