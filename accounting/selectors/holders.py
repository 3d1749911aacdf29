"""Who holds what on each device, from the View. What a reader may not see is shown as an amount without a name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from accounting.selectors.access import Reach
from hami_platform.domain.devices import ContainerKind, DeviceKey, Held
from hami_platform.domain.rows import PodRow
from hami_platform.domain.view import View

PLACED = frozenset({"reserved", "binding"})


@dataclass(frozen=True, slots=True)
class Holder:
    """One holder of one device.

    kind: solid, placed (chosen, not running yet), releasing, or person. init_mib: the part of the memory that falls
    when the pod's init containers are done. key: uid or claim id of the pod, empty where it may not be named.
    """

    kind: str
    label: str
    held: Held
    key: str = ""
    namespace: str = ""
    init_mib: int = 0

    @property
    def steady_mib(self) -> int:
        """What stays after init."""
        return self.held.memory_mib - self.init_mib

    @property
    def state(self) -> str:
        """The kind in words."""
        return {"placed": "placed, not running yet", "releasing": "being released", "person": "held by a person"}.get(
            self.kind, "running"
        )


def holders_on(view: View, node: str, reach: Reach) -> dict[DeviceKey, list[Holder]]:
    """Per device of the node: pods by name, then people's holds."""
    found: dict[DeviceKey, list[Holder]] = {}
    pods = [view.pods[pod_id] for pod_id in view.pods_by_node.get(node, ())]
    for pod in sorted(pods, key=lambda row: (row.namespace, row.name, row.id)):
        for key, held in pod.held.items():
            if held:
                found.setdefault(key, []).append(_of_pod(pod, key, held, reach))
    return found


def holds_by_node(view: View) -> Mapping[str, dict[DeviceKey, list[Holder]]]:
    """People's holds in force, per node and device; one pass for the whole cluster."""
    found: dict[str, dict[DeviceKey, list[Holder]]] = {}
    for hold_id, row in sorted(view.holds.items()):
        if row.in_force:
            here = found.setdefault(row.node, {})
            here.setdefault(row.key, []).append(Holder("person", f"hold {hold_id}", row.held, key=str(hold_id)))
    return found


def init_only_mib(pod: PodRow, key: DeviceKey, held: Held) -> int:
    """MiB of `held` that fall once all ordinary init containers are done."""
    if not pod.aligned:
        return 0
    steady = sum(one.memory_mib for one in pod.shares if one.key == key and one.kind != ContainerKind.INIT)
    return max(0, held.memory_mib - steady)


def pod_key(pod: PodRow) -> str:
    """What names the pod in addresses."""
    return pod.uid or pod.claim_id


def _of_pod(pod: PodRow, key: DeviceKey, held: Held, reach: Reach) -> Holder:
    kind = "releasing" if pod.state == "releasing" else "placed" if pod.state in PLACED else "solid"
    init_mib = init_only_mib(pod, key, held)
    if not reach.sees(pod.namespace):
        return Holder(kind, "another namespace", held, init_mib=init_mib)
    return Holder(kind, f"{pod.namespace}/{pod.name}", held, pod_key(pod), pod.namespace, init_mib)
