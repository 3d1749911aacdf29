"""Devices that are shared by slots alone: no memory and no cores are asked, held or tested."""

from __future__ import annotations

from hami_platform.domain import conditions
from hami_platform.domain.devices import Device
from hami_platform.domain.reasons import Reason
from hami_platform.domain.strategy import Strategy, anything


def any_room(device: Device, used: conditions.Use, *, memory_mib: int, core_percent: int) -> Reason | None:
    """There is always room beside the sharers; the slots are tested before."""
    del device, used, memory_mib, core_percent
    return None


SLOTS = Strategy(room=any_room, floor=anything)
"""Source: HAMi v2.10.0, whose fit for such vendors ends after health, type, uuid, slots and mutex."""
