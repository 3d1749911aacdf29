"""The tests that one device must pass for one request, apart from quota and MIG geometry.

Their order is that of HAMi v2.10.0 for NVIDIA. Pure predicates: nothing here knows of other devices, pods or nodes.
"""

from __future__ import annotations

from typing import Protocol

from hami_platform.domain.devices import Device
from hami_platform.domain.nodes import MAX_CORE_PERCENT, DeviceState
from hami_platform.domain.reasons import Reason
from hami_platform.domain.requests import Constraints


def amounts(state: DeviceState, memory_mib: int, core_percent: int, mutex: bool) -> Reason | None:
    """`sharing` and `room` on what is held, in one step for hot loops; a law holds it to them."""
    device, held = state.device, state.held
    slots = held.slots
    if device.slots <= slots:
        return Reason.CARD_TIME_SLICING_EXHAUSTED
    if mutex and slots > 0:
        return Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT
    if device.memory_mib - device.reserved_mib - held.memory_mib < memory_mib:
        return Reason.CARD_INSUFFICIENT_MEMORY
    total, cores = device.core_percent, held.core_percent
    if total - cores < core_percent:
        return Reason.CARD_INSUFFICIENT_CORE
    if core_percent == MAX_CORE_PERCENT == total and slots > 0:
        return Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT
    return Reason.CARD_COMPUTE_UNITS_EXHAUSTED if core_percent == 0 and cores == total != 0 else None


class Use(Protocol):
    """Amounts in use on a device: what is held, or held and tried."""

    @property
    def slots(self) -> int: ...
    @property
    def memory_mib(self) -> int: ...
    @property
    def core_percent(self) -> int: ...


def standing(state: DeviceState, wanted: Constraints) -> Reason | None:
    """Tests that no other share can change: health, cordon, model and mode."""
    reason = state.unusable
    if reason is not None:
        return reason
    return None if is_wanted_type(state.device, wanted) else Reason.CARD_TYPE_MISMATCH


def is_wanted_type(device: Device, wanted: Constraints) -> bool:
    """Model lists hold substrings, without regard to case. The mode must be part of vgpu_mode; an empty mode is."""
    if wanted.vgpu_mode is not None and device.mode not in wanted.vgpu_mode:
        return False
    if wanted.use_models is None and wanted.nouse_models is None:
        return True
    model = device.model.lower()
    if wanted.use_models is not None and not any(part.lower() in model for part in wanted.use_models):
        return False
    return not any(part.lower() in model for part in wanted.nouse_models or ())


def is_wanted_uuid(device: Device, wanted: Constraints) -> bool:
    """UUID lists are exact."""
    if wanted.use_uuids is not None and device.uuid not in wanted.use_uuids:
        return False
    return not (wanted.nouse_uuids and device.uuid in wanted.nouse_uuids)


def sharing(device: Device, used_slots: int, *, mutex: bool) -> Reason | None:
    """Whether one more sharer may come at all."""
    if device.slots <= used_slots:
        return Reason.CARD_TIME_SLICING_EXHAUSTED
    return Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT if mutex and used_slots > 0 else None


def room(device: Device, used: Use, *, memory_mib: int, core_percent: int) -> Reason | None:
    """Whether the amounts fit beside what is used.

    All cores of a card of 100 mean the whole card; where the cores are gone, nothing without cores comes in either.
    """
    total = device.core_percent
    if device.memory_mib - device.reserved_mib - used.memory_mib < memory_mib:
        return Reason.CARD_INSUFFICIENT_MEMORY
    if total - used.core_percent < core_percent:
        return Reason.CARD_INSUFFICIENT_CORE
    if core_percent == MAX_CORE_PERCENT == total and used.slots > 0:
        return Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT
    if core_percent == 0 and used.core_percent == total != 0:
        return Reason.CARD_COMPUTE_UNITS_EXHAUSTED
    return None
