"""Pods that use devices without having been placed by this platform, once it is known which: the kubelet says so.

A pod that came past the webhook holds whole devices, since nothing limits it to a part.
"""

from __future__ import annotations

from collections.abc import Collection

from accounting import live_view
from accounting.models import Pod
from accounting.services import findings, pod_rows, usage
from hami_platform.domain import devices
from hami_platform.domain.rows import PodRow
from hami_platform.domain.view import View


def unmanaged_use_set(*, node: str, namespace: str, name: str, uuids: Collection[str], actor: str = "") -> bool:
    """These devices of the node are what the unmanaged pod of this name there uses, each of them whole; from now on
    they count as its, and the node takes pods again. A pod of ours is left as it is.

    False: the ledger does not know such a pod or device there yet, so that it should be told again.
    """
    with live_view.deciding(cause="unmanaged_use_set", actor=actor or f"agent/{node}") as (entry, view):
        row = _row(view, node, namespace, name)
        shares = _shares(view, node, uuids)
        if row is None or len(shares) != len(set(uuids)):
            return False
        if not row.unmanaged or shares == row.shares:
            return True
        pod = Pod.objects.get(pk=row.id)
        pod_rows.shares_write(entry, pod, shares)
        pod_rows.pod_move(entry, pod, pod.state, aligned=False)
        usage.intervals_write(entry, pod)
        findings.finding_close(
            entry, kind="unmanaged-pod", subject=f"{namespace}/{name}", repair=f"counted on {', '.join(sorted(uuids))}"
        )
        return True


def _row(view: View, node: str, namespace: str, name: str) -> PodRow | None:
    on_node = (view.pods[pod] for pod in view.pods_by_node.get(node, ()))
    return next((row for row in on_node if (row.namespace, row.name) == (namespace, name)), None)


def _shares(view: View, node: str, uuids: Collection[str]) -> tuple[devices.Share, ...]:
    """A share of all of each device. Of which container it is does not matter: every row counts while the pod lives."""
    known = view.nodes[node].devices if node in view.nodes else ()
    return tuple(
        devices.Share(
            container_index=0, container="", kind=devices.ContainerKind.APP, vendor=one.vendor, uuid=one.uuid,
            model=one.model, memory_mib=one.memory_mib, core_percent=one.core_percent,
        )
        for one in known
        if one.uuid in uuids
    )  # fmt: skip
