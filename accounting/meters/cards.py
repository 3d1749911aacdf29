"""What every device has and what is held of it, under HAMi's names. Names, labels, units: HAMi v2.10.0, cmd/scheduler.

Ratios of cores are 0…100, of memory 0…1, as there. Held is what pods hold and what people reserved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from accounting.services import device_config
from hami_platform import env, metrics
from hami_platform.domain.devices import Device, Held
from hami_platform.domain.vendors.base import DeviceConfig
from hami_platform.domain.view import View

MIB: Final = 1 << 20
ZONE: Final = 'zone="vGPU"'
WHOLE: Final = 100

Number = int | float


@dataclass(slots=True)
class Card:
    """A device under its labels. cores, cores_held: percent, also where the vendor counts units."""

    names: tuple[str, str, str, str]
    device: Device
    held: Held
    cores: int
    cores_held: int
    new: str = field(init=False)
    """Its labels, made once for all of its samples."""

    def __post_init__(self) -> None:
        self.new = self.named(NEW)

    def named(self, keys: tuple[str, ...]) -> str:
        """(node, uuid, index, type) under these keys, or the first of them."""
        return ",".join(f'{key}="{value}"' for key, value in zip(keys, self.names, strict=False))


NEW: Final = ("node", "device_uuid", "device_index", "device_type")
OLD: Final = ("nodeid", "deviceuuid", "deviceidx", "devicetype")


@dataclass(frozen=True, slots=True)
class _Figure:
    """One metric. more: labels beside those of the device, (new key, old key, value). old_keys: its labels before."""

    name: str
    old_name: str
    text: str
    value: Callable[[Card], Number | None]
    old_value: Callable[[Card], Number | None] | None = None
    more: tuple[tuple[str, str, Callable[[Card], object]], ...] = ()
    old_keys: tuple[str, ...] = OLD


_CORES: Final = ("device_cores", "devicecores", lambda one: one.device.core_percent)
_LIMIT: Final = ("device_memory_limit", "devicememorylimit", lambda one: one.device.memory_mib)

FIGURES: Final = (
    _Figure(
        "hami_gpu_memory_limit_bytes", "GPUDeviceMemoryLimit", "Registered memory of a device.",
        lambda one: one.device.memory_mib * MIB,
    ),
    _Figure(
        "hami_gpu_core_limit_ratio", "GPUDeviceCoreLimit", "Registered cores of a device, in percent.",
        lambda one: one.cores, lambda one: one.device.core_percent,
    ),
    _Figure(
        "hami_gpu_shared_count", "GPUDeviceSharedNum", "Shares of a device that are held.",
        lambda one: one.held.slots,
    ),
    _Figure(
        "hami_gpu_core_allocated_ratio", "GPUDeviceCoreAllocated", "Cores of a device that are held, in percent.",
        lambda one: one.cores_held, lambda one: one.held.core_percent,
    ),
    _Figure(
        "hami_node_gpu_memory_allocated_ratio", "nodeGPUMemoryPercentage", "Held part of a device's memory, 0 to 1.",
        lambda one: one.held.memory_mib / one.device.memory_mib if one.device.memory_mib else None,
        old_keys=OLD[:3],
    ),
    _Figure(
        "hami_gpu_memory_allocated_bytes", "GPUDeviceMemoryAllocated", "Memory of a device that is held.",
        lambda one: one.held.memory_mib * MIB, more=(_CORES,),
    ),
    _Figure(
        "hami_node_gpu_overview", "nodeGPUOverview", "Memory of a device that is held, beside what it has.",
        lambda one: one.held.memory_mib * MIB, more=(_CORES, _LIMIT),
    ),
)  # fmt: skip


def hami(view: View) -> Iterator[str]:
    """Every device of the inventory; of retired nodes none (H57)."""
    cards = list(_cards(view, device_config.device_config()))
    for one in FIGURES:
        yield from metrics.family(one.name, one.text, _samples(one, cards))
    if env.current().legacy_metrics:
        for one in FIGURES:
            yield from metrics.family(one.old_name, one.text, _samples_before(one, cards))


def percent(config: DeviceConfig, device: Device, core_percent: int) -> int:
    """Cores of a device in percent of it, rounded up where its vendor counts units."""
    counted = any(vendor.core_units for vendor in config.vendors if vendor.word == device.vendor)
    if not counted or not device.core_percent:
        return core_percent
    return math.ceil(core_percent * WHOLE / device.core_percent)


def _cards(view: View, config: DeviceConfig) -> Iterator[Card]:
    """In order of node and device. What two vendors say of one card is one series, or the whole answer were refused."""
    units = {vendor.word for vendor in config.vendors if vendor.core_units}
    for name in sorted(view.states):
        node, found = metrics.escaped(name), dict[tuple[str, str, str, str], Card]()
        for state in view.states[name].devices:
            device, held = state.device, state.held
            names = (node, metrics.escaped(device.uuid), str(device.index), metrics.escaped(device.model))
            if names in found:
                held += found[names].held
            cores, cores_held = device.core_percent, held.core_percent
            if device.vendor in units:
                cores, cores_held = percent(config, device, cores), percent(config, device, cores_held)
            found[names] = Card(names, device, held, cores, cores_held)
        yield from found.values()


def _samples(figure: _Figure, cards: list[Card]) -> Iterator[tuple[str, Number]]:
    more, value = figure.more, figure.value
    for one in cards:
        found = value(one)
        if found is not None:
            of = "".join(f',{key}="{label(one)}"' for key, _, label in more) if more else ""
            yield f"{one.new}{of},{ZONE}", found


def _samples_before(figure: _Figure, cards: list[Card]) -> Iterator[tuple[str, Number]]:
    for one in cards:
        value = (figure.old_value or figure.value)(one)
        if value is not None:
            more = "".join(f',{key}="{label(one)}"' for _, key, label in figure.more)
            yield f"{one.named(figure.old_keys)}{more},{ZONE}", value
