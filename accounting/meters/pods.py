"""What every pod holds of every device, under HAMi's names, and how many pods stand where.

One series for each pod and device, as HAMi has since it sums containers up: container_index is always 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from accounting.meters import cards
from accounting.services import device_config
from hami_platform import env, metrics
from hami_platform.domain import devices
from hami_platform.domain.devices import Device
from hami_platform.domain.view import View

NEW = ("namespace", "node", "pod", "container_index", "device_uuid")
SHARE = ("namespace", "node", "pod", "pod_uid", "device_uuid")
OLD = ("podnamespace", "nodename", "podname", "containeridx", "deviceuuid")

Held = dict[tuple[str, str, str, str, str], tuple[int, int, int]]
"""Label values → MiB, cores in percent, cores as the vendor counts them."""


def hami(view: View) -> Iterator[str]:
    """Memory and cores of each pod on each device. A pod that ended has no series."""
    held = _held(view)
    yield from _family("hami_vgpu_memory_allocated_bytes", "Memory of a device that a pod holds.", NEW, held, _bytes)
    yield from _family(
        "hami_vgpu_core_allocated_ratio", "Cores of a device that a pod holds, in percent.", NEW, held, _cores
    )
    if env.current().legacy_metrics:
        yield from _family("vGPUMemoryAllocated", "Memory of a device that a pod holds.", OLD, held, _bytes)
        yield from _family("vGPUCoreAllocated", "Cores of a device that a pod holds.", OLD, held, _raw_cores)


def by_state(view: View) -> Iterator[str]:
    """Pods of each namespace by state; ended ones are not in the View."""
    found = Counter((pod.namespace, pod.state) for pod in view.pods.values())
    samples = [(metrics.labels(namespace=name, state=state), number) for (name, state), number in sorted(found.items())]
    yield from metrics.family("hami_platform_pods", "Pods that ask for devices or hold some.", samples)


def shares(view: View) -> Iterator[str]:
    """What each pod holds of each device, per hundred of it, by uid: two pods of one name are told apart."""
    yield from metrics.family(
        "hami_platform_pod_device_share_ratio",
        "Part of a device that a pod holds, in percent: the larger of its parts of memory and cores.",
        list(_shares(view)),
    )


def _shares(view: View) -> Iterator[tuple[str, int]]:
    for pod in view.pods.values():
        for (vendor, uuid), held in pod.held.items():
            device = _device(view, pod.node, vendor, uuid) if held else None
            if device is not None:
                names = map(metrics.escaped, (pod.namespace, pod.node, pod.name, pod.uid, uuid))
                yield ",".join(f'{key}="{one}"' for key, one in zip(SHARE, names, strict=True)), _percent(device, held)


def _percent(device: Device, held: devices.Held) -> int:
    """As `cost.share_of`, without its fractions: a scrape asks for every pod."""
    memory = held.memory_mib / device.memory_mib if device.memory_mib else 0.0
    cores = held.core_percent / device.core_percent if device.core_percent else 0.0
    return round(100 * min(1.0, max(memory, cores) or 1.0))


def _family(
    name: str, text: str, keys: tuple[str, ...], held: Held, value: Callable[[tuple[int, int, int]], int]
) -> Iterator[str]:
    def samples() -> Iterator[tuple[str, int]]:
        for names, amounts in held.items():
            of = ",".join(f'{key}="{one}"' for key, one in zip(keys, names, strict=True))
            yield f"{of},{cards.ZONE}", value(amounts)

    return metrics.family(name, text, samples())


def _bytes(amounts: tuple[int, int, int]) -> int:
    return amounts[0] * cards.MIB


def _cores(amounts: tuple[int, int, int]) -> int:
    return amounts[1]


def _raw_cores(amounts: tuple[int, int, int]) -> int:
    return amounts[2]


def _held(view: View) -> Held:
    """By label values. Pods of one name at once (the old one is being deleted) are one series, or none were shown."""
    config = device_config.device_config()
    units = {vendor.word for vendor in config.vendors if vendor.core_units}
    found: Held = {}
    for pod in view.pods.values():
        for (vendor, uuid), held in pod.held.items():
            namespace, node, name = map(metrics.escaped, (pod.namespace, pod.node, pod.name))
            names = (namespace, node, name, "0", metrics.escaped(uuid))
            device = _device(view, pod.node, vendor, uuid) if vendor in units else None
            cores = cards.percent(config, device, held.core_percent) if device else held.core_percent
            before = found.get(names, (0, 0, 0))
            found[names] = (before[0] + held.memory_mib, before[1] + cores, before[2] + held.core_percent)
    return found


def _device(view: View, node: str, vendor: str, uuid: str) -> Device | None:
    """None where the node does not offer it now: then its units stay units, as in HAMi."""
    state = view.states.get(node)
    devices = (one.device for one in state.devices) if state is not None else ()
    return next((one for one in devices if one.key == (vendor, uuid)), None)
