"""The monitor's figures under HAMi's names: what `/metrics` shows of cards, containers and MIG instances.

Made anew at every scrape from the last round, so that a series ends with its container. Names, labels and values are
HAMi v2.10.0's, so ratios are 0 to 100 and the memory controller's has no node. Knowingly different: init containers and
sidecars are shown too while they run, and a node of any name has container metrics.
Must not know: how the figures were read.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from deviceplugin import VERSION
from deviceplugin.monitor_use import CardUse, Condition, ContainerUse, Picture
from deviceplugin.region import DeviceUse

ZONE: Final = "vGPU"
HOST: Final = ("node", "device_index", "device_uuid", "device_type")
SHARE: Final = ("namespace", "pod", "container", "vdevice_index", "device_uuid")
MIG: Final = (*SHARE, "mig_uuid", "profile", "gpu_instance_id", "compute_instance_id")
BUILD: Final = ("version", "revision", "build_date", "go_version", "compiler", "platform")
OLD_HOST: Final = ("nodeid", "deviceidx", "deviceuuid", "devicetype")
OLD_SHARE: Final = ("podnamespace", "podname", "ctrname", "vdeviceid", "deviceuuid")
OLD_MEMORY: Final = (*OLD_SHARE, "context", "module", "data", "offset")
OLD_MIG: Final = (*OLD_SHARE, "instanceid")

Sample = tuple[tuple[str, ...], float | None]
OfShare = Callable[[ContainerUse, DeviceUse], float | None]


class MonitorCollector(Collector):
    """Register once. legacy: also the names of HAMi's older releases."""

    def __init__(
        self, node: str, picture: Callable[[], Picture], *, legacy: bool, now_s: Callable[[], float] = time.time
    ) -> None:
        self._node = node
        self._picture = picture
        self._legacy = legacy
        self._now_s = now_s

    def collect(self) -> Iterable[Metric]:
        """All families, empty ones too, so that a name does not come and go with its last series."""
        picture = self._picture()
        yield from self._host(picture)
        yield from self._conditions(picture)
        yield from self._shares(picture)
        yield _family("hami_mig_device_info", "A MIG instance that a container has.", MIG, self._instances(picture))
        yield _build()
        if self._legacy:
            yield from self._old(picture)

    def _host(self, picture: Picture) -> Iterator[Metric]:
        yield _family(
            "hami_host_gpu_memory_used_bytes",
            "Memory of the card in use.",
            HOST,
            ((self._card(one), one.memory_used_bytes) for one in picture.cards),
        )
        yield _family(
            "hami_host_gpu_utilization_ratio",
            "Utilisation of the card, 0 to 100.",
            HOST,
            ((self._card(one), one.core_percent) for one in picture.cards),
        )
        yield _family(
            "hami_host_gpu_memory_controller_utilization_ratio",
            "Utilisation of the card's memory controller, 0 to 100.",
            HOST[1:],
            ((self._card(one)[1:], one.memory_controller_percent) for one in picture.cards),
        )

    def _conditions(self, picture: Picture) -> Iterator[Metric]:
        """Ours: HAMi's monitor does not tell them."""
        for name, text, value in (
            ("hami_platform_card_temperature_celsius", "Temperature of the card.", lambda how: how.temperature_c),
            ("hami_platform_card_power_watts", "Power that the card draws.", lambda how: how.power_w),
            ("hami_platform_card_power_limit_watts", "Power that the card is allowed.", lambda how: how.power_limit_w),
            ("hami_platform_card_slowed", "1 while something holds its clocks down, else 0.", _slowed),
        ):
            yield _family(name, text, HOST, ((self._card(one), value(one.condition)) for one in picture.cards))

    def _shares(self, picture: Picture) -> Iterator[Metric]:
        for name, text, value in (
            ("hami_vgpu_memory_used_bytes", "Memory that the container uses.", _total),
            ("hami_vgpu_memory_limit_bytes", "Memory that its library allows; 0 is no limit.", _limit),
            ("hami_container_device_memory_bytes", "The same as hami_vgpu_memory_used_bytes.", _total),
            ("hami_container_device_utilization_ratio", "Sum over its processes, each 0 to 100.", _cores),
            ("hami_container_last_kernel_elapsed_seconds", "Since its last launch or start.", self._elapsed),
            ("hami_vgpu_memory_context_bytes", "Of its memory, contexts.", lambda _, d: d.context_bytes),
            ("hami_vgpu_memory_module_bytes", "Of its memory, modules.", lambda _, d: d.module_bytes),
            ("hami_vgpu_memory_buffer_bytes", "Of its memory, data.", lambda _, d: d.data_bytes),
        ):
            yield _family(name, text, SHARE, _by_share(picture, value))

    def _instances(self, picture: Picture) -> Iterator[Sample]:
        for one in picture.instances:
            ids = (one.uuid, one.profile, str(one.gpu_instance), str(one.compute_instance))
            yield (one.namespace, one.pod, one.container, str(one.index), one.card, *ids), 1

    def _old(self, picture: Picture) -> Iterator[Metric]:
        yield _family(
            "HostGPUMemoryUsage",
            "Memory of the card in use.",
            OLD_HOST,
            ((self._card(one), one.memory_used_bytes) for one in picture.cards),
        )
        yield _family(
            "HostCoreUtilization",
            "Utilisation of the card.",
            OLD_HOST,
            ((self._card(one), one.core_percent) for one in picture.cards),
        )
        for name, text, value in (
            ("vGPU_device_memory_usage_in_bytes", "Memory that the container uses.", _total),
            ("vGPU_device_memory_limit_in_bytes", "Memory that its library allows.", _limit),
            ("Device_utilization_desc_of_container", "Sum over its processes.", _cores),
            ("Device_last_kernel_of_container", "Seconds since its last launch.", self._elapsed),
        ):
            yield _family(name, text, OLD_SHARE, _by_share(picture, value))
        yield _family(
            "Device_memory_desc_of_container", "Memory with its parts as labels.", OLD_MEMORY, _described(picture)
        )
        yield _family("MigInfo", "A MIG instance that a container has.", OLD_MIG, self._old_instances(picture))

    def _old_instances(self, picture: Picture) -> Iterator[Sample]:
        for one in picture.instances:
            yield (one.namespace, one.pod, one.container, str(one.index), one.card, str(one.gpu_instance)), 1

    def _card(self, card: CardUse) -> tuple[str, ...]:
        """The type always begins with NVIDIA-, also where the model does."""
        return self._node, str(card.index), card.uuid, f"NVIDIA-{card.model}"

    def _elapsed(self, one: ContainerUse, _device: DeviceUse) -> float | None:
        return max(0, int(self._now_s()) - one.last_kernel_s) if one.last_kernel_s else None


def _build() -> GaugeMetricFamily:
    """HAMi's labels; those of Go say what stands in Go's place."""
    family = GaugeMetricFamily("hami_build_info", "What runs here.", labels=BUILD)
    where = f"{platform.system().lower()}/{platform.machine()}"
    family.add_metric((VERSION, "", "", "", platform.python_implementation(), where), 1)
    return family


def _total(_one: ContainerUse, device: DeviceUse) -> float:
    return device.total_bytes


def _limit(_one: ContainerUse, device: DeviceUse) -> float:
    return device.limit_bytes


def _cores(_one: ContainerUse, device: DeviceUse) -> float:
    return device.core_percent


def _slowed(how: Condition) -> float | None:
    return None if how.slowed is None else float(bool(how.slowed))


def _share(one: ContainerUse, device: DeviceUse) -> tuple[str, ...]:
    return one.namespace, one.pod, one.container, str(device.index), device.uuid


def _by_share(picture: Picture, value: OfShare) -> Iterator[Sample]:
    return ((_share(one, device), value(one, device)) for one in picture.containers for device in one.devices)


def _described(picture: Picture) -> Iterator[Sample]:
    for one in picture.containers:
        for d in one.devices:
            rest = max(0, d.total_bytes - d.context_bytes - d.module_bytes - d.data_bytes)
            parts = (d.context_bytes, d.module_bytes, d.data_bytes, rest)
            yield (*_share(one, d), *(str(part) for part in parts)), d.total_bytes


def _family(name: str, text: str, labels: tuple[str, ...], samples: Iterable[Sample]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=(*labels, "zone"))
    for values, amount in samples:
        if amount is not None:
            family.add_metric((*values, ZONE), amount)
    return family
