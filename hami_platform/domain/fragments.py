"""How much of what is free could really be asked for: the largest request that fits a device, and how often one fits.

Counts what HAMi's generic conditions and MIG geometry allow; a vendor's special rules may allow less. It must not know
quota, pods or nodes beyond whether one takes device pods at all.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from hami_platform.domain import conditions, mig
from hami_platform.domain.devices import Device, MigUse
from hami_platform.domain.nodes import MIG, DeviceState, NodeState
from hami_platform.domain.reasons import Reason

BUCKETS = 5
"""Devices by how much of their memory is free: nothing, then four quarters."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One device's worth of a request."""

    memory_mib: int
    core_percent: int = 0


class Room(NamedTuple):
    """What an open device has room for: the most memory of one request, how often the ask, and why not once more."""

    largest_mib: int
    fits: int
    reason: Reason | None


@dataclass(slots=True)
class Fragments:
    """All devices of one model. free_mib: not held, also where it cannot be had. largest_mib: of a request for one
    device and no cores. whole: devices that nobody holds, and whole_on_node the most of them on one node. fits: how
    often the ask fits; unusable_mib: free and of no use for it, by reason. free_by_quarter: number of devices with
    nothing free, then up to a quarter, and so on."""

    vendor: str
    model: str
    ask: Ask
    devices: int = 0
    memory_mib: int = 0
    free_mib: int = 0
    largest_mib: int = 0
    largest_on: tuple[str, str] = ("", "")
    whole: int = 0
    whole_on_node: int = 0
    whole_node: str = ""
    fits: int = 0
    unusable_mib: dict[Reason, int] = field(default_factory=dict)
    free_by_quarter: list[int] = field(default_factory=lambda: [0] * BUCKETS)

    @property
    def lost_mib(self) -> int:
        """Free and of no use for the ask."""
        return sum(self.unusable_mib.values())

    @property
    def kind(self) -> tuple[str, str]:
        return self.vendor, self.model


def fragments(nodes: Iterable[NodeState], asks: dict[tuple[str, str], Ask]) -> list[Fragments]:
    """Every model by name. asks: by (vendor, model); a quarter of a device where there is none."""
    found: dict[tuple[str, str], Fragments] = {}
    rooms: dict[Hashable, Room] = {}
    for node in nodes:
        whole: dict[tuple[str, str], int] = {}
        for state in node.devices:
            device = state.device
            kind = device.vendor, device.model
            if kind not in found:
                found[kind] = Fragments(*kind, asks.get(kind) or quarter(device))
            _add(found[kind], node, state, rooms)
            if not state.held and closed(node, state) is None:
                whole[kind] = whole.get(kind, 0) + 1
        for kind, count in whole.items():
            one = found[kind]
            one.whole += count
            if count > one.whole_on_node:
                one.whole_on_node, one.whole_node = count, node.name
    return [found[kind] for kind in sorted(found)]


def quarter(device: Device) -> Ask:
    """A quarter of a device's memory and no cores."""
    return Ask(max(1, device.memory_mib // 4))


def closed(node: NodeState, state: DeviceState) -> Reason | None:
    """Why the device takes no new share of any size."""
    return node.blocked or state.unusable


def largest_mib(state: DeviceState) -> int:
    """The most memory that one request without cores could get of an open device; 0: none at all."""
    if state.device.mode == MIG:
        fitting = [one for one in state.device.mig_profiles if mig_free(state, one.memory_mib)]
        return max((one.memory_mib for one in fitting), default=0)
    if conditions.amounts(state, 0, 0, False) is not None:
        return 0
    return max(0, state.free_memory_mib)


def mig_free(state: DeviceState, memory_mib: int) -> bool:
    """Whether an instance of at least so much can be made."""
    return mig.instance(state.device, memory_mib, state.held.mig) is not None


def times(state: DeviceState, ask: Ask) -> tuple[int, Reason | None]:
    """How often the ask fits an open device, one after another; and what keeps it from fitting once more."""
    if state.device.mode == MIG:
        return _instances(state, ask)
    count = _count(state, ask)
    held = state.held
    after = replace(
        held,
        slots=held.slots + count,
        memory_mib=held.memory_mib + count * ask.memory_mib,
        core_percent=held.core_percent + count * ask.core_percent,
    )
    return count, conditions.amounts(replace(state, held=after), ask.memory_mib, ask.core_percent, False)


def _count(state: DeviceState, ask: Ask) -> int:
    if conditions.amounts(state, ask.memory_mib, ask.core_percent, False) is not None:
        return 0
    counts = [state.free_slots]
    if ask.memory_mib:
        counts.append(state.free_memory_mib // ask.memory_mib)
    if ask.core_percent:
        counts.append(state.free_core_percent // ask.core_percent)
    return max(0, min(counts))


def _instances(state: DeviceState, ask: Ask) -> tuple[int, Reason | None]:
    taken: list[MigUse] = list(state.held.mig)
    for count in range(state.free_slots):
        found = mig.instance(state.device, ask.memory_mib, taken)
        if found is None:
            return count, Reason.CARD_INSUFFICIENT_MEMORY
        taken.append(MigUse(found[0].name, found[1]))
    return max(0, state.free_slots), Reason.CARD_TIME_SLICING_EXHAUSTED


def _add(one: Fragments, node: NodeState, state: DeviceState, rooms: dict[Hashable, Room]) -> None:
    device, free_mib = state.device, max(0, state.free_memory_mib)
    one.devices += 1
    one.memory_mib += device.memory_mib
    one.free_mib += free_mib
    one.free_by_quarter[_bucket(free_mib, device.memory_mib)] += 1
    reason = closed(node, state)
    if reason is None:
        largest, count, reason = _room(state, one.ask, rooms)
        if largest > one.largest_mib:
            one.largest_mib, one.largest_on = largest, (node.name, device.uuid)
        one.fits += count
        free_mib = max(0, free_mib - count * one.ask.memory_mib)
    if free_mib and reason is not None:
        one.unusable_mib[reason] = one.unusable_mib.get(reason, 0) + free_mib


def _room(state: DeviceState, ask: Ask, rooms: dict[Hashable, Room]) -> Room:
    """Worked out once for devices that have and hold the same: there are tens of thousands of a few kinds."""
    device, held = state.device, state.held
    total = (device.memory_mib, device.reserved_mib, device.core_percent, device.slots, device.mode == MIG)
    key = (ask, total, device.mig_profiles, held.slots, held.memory_mib, held.core_percent, held.mig)
    found = rooms.get(key)
    if found is None:
        found = rooms[key] = Room(largest_mib(state), *times(state, ask))
    return found


def _bucket(free_mib: int, memory_mib: int) -> int:
    """0: nothing free; then the quarter that the free part ends in."""
    return min(BUCKETS - 1, -(-free_mib * (BUCKETS - 1) // memory_mib)) if memory_mib else 0
