"""The MIG instances in use, under HAMi's names: where each lies, and who it is once the plugin has made it."""

from __future__ import annotations

from collections.abc import Iterator

from accounting.meters import cards
from accounting.models import Pod
from accounting.services import wire_texts
from hami_platform import env, metrics
from hami_platform.domain.devices import DeviceKey, MigUse
from hami_platform.domain.errors import WireError
from hami_platform.domain.view import View
from hami_platform.domain.wire import mig_allocations

Place = tuple[str, DeviceKey, MigUse]
Made = dict[tuple[str, MigUse], mig_allocations.Runtime]


def hami(view: View) -> Iterator[str]:
    """1 for each instance that a pod holds. HAMi leaves out those that its plugin has not made yet; here they have no
    ids. The old name, which is made of an id, has them only then."""
    held = dict(_held(view))
    made = _made(set(held.values())) if held else {}
    index = _indexes(view, {node for node, _, _ in held})
    samples, before = [], []
    for (node, key, use), pod in held.items():
        runtime = made.get(pod, {}).get((key[1], use))
        of_card = {"uuid": key[1], "index": index.get((node, key), "")}
        samples.append((_labels(node, of_card, use, runtime), 1))
        if runtime is not None:
            name = f"{use.profile}-{runtime.gpu_instance}"
            old = metrics.labels(nodeid=node, deviceuuid=key[1], deviceidx=of_card["index"], migname=name)
            before.append((f"{old},{cards.ZONE}", 1))
    text = "A MIG instance that a pod holds: its place and identity."
    yield from metrics.family("hami_node_gpu_mig_instance_info", text, samples)
    if env.current().legacy_metrics:
        yield from metrics.family("nodeGPUMigInstance", text, before)


def _held(view: View) -> Iterator[tuple[Place, int]]:
    for pod in view.pods.values():
        for key, held in pod.held.items():
            for use in held.mig:
                yield (pod.node, key, use), pod.id


def _made(pods: set[int]) -> dict[int, Made]:
    """Pod → (card, place) → what its plugin made there, as its annotation was last seen."""
    found: dict[int, Made] = {}
    for pod, wire in Pod.objects.filter(pk__in=pods).values_list("pk", "wire").order_by():
        try:
            known = mig_allocations.decode(wire.get(wire_texts.MIG, ""))
        except WireError:
            continue  # nothing is known of it
        found[pod] = {(one.gpu_uuid, one.use): one.runtime for one in known if one.runtime is not None}
    return found


def _indexes(view: View, nodes: set[str]) -> dict[tuple[str, DeviceKey], str]:
    states = ((name, view.states[name]) for name in nodes if name in view.states)
    return {(name, one.device.key): str(one.device.index) for name, state in states for one in state.devices}


def _labels(node: str, card: dict[str, str], use: MigUse, runtime: mig_allocations.Runtime | None) -> str:
    ids = ("", "", "") if runtime is None else (runtime.mig_uuid, runtime.gpu_instance, runtime.compute_instance)
    of = metrics.labels(
        node=node, device_uuid=card["uuid"], device_index=card["index"], mig_uuid=ids[0], profile=use.profile,
        gpu_instance_id=ids[1], compute_instance_id=ids[2], placement_start=use.placement.start,
        placement_size=use.placement.size,
    )  # fmt: skip
    return f"{of},{cards.ZONE}"
