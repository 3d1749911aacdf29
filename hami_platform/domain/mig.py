"""Which MIG instance a request gets on a card, and where. Knows nothing of pods or nodes."""

from __future__ import annotations

from collections.abc import Iterable

from hami_platform.domain.devices import Device, MigPlacement, MigProfile, MigUse
from hami_platform.domain.requests import DeviceRequest

_HIGHEST_START_FIRST = ("1g.", "3g.")
"""Profiles that start from the far end, so that 2g and 4g keep their few placements (HAMi v2.10.0)."""


def memory_asked(device: Device, request: DeviceRequest, *, whole_is_largest: bool = False) -> int:
    """MiB that a profile must offer. whole_is_largest: 100 % means the largest profile, although none has all of the
    card's memory."""
    asked = request.memory_on(device.memory_mib)
    if not whole_is_largest or request.memory_mib > 0 or request.memory_percent != 100:
        return asked
    return max((profile.memory_mib for profile in device.mig_profiles), default=asked)


def instance(device: Device, memory_mib: int, occupied: Iterable[MigUse]) -> tuple[MigProfile, MigPlacement] | None:
    """The smallest profile of at least memory_mib that has a free placement, and that placement."""
    taken = [use.placement for use in occupied]
    for profile in sorted(device.mig_profiles, key=lambda p: (p.memory_mib, p.slice_count)):
        if profile.memory_mib >= memory_mib:
            placement = _free(profile, taken)
            if placement is not None:
                return profile, placement
    return None


def overlap(a: MigPlacement, b: MigPlacement) -> bool:
    """Whether two half-open ranges of memory slices have a slice in common."""
    return a.start < b.start + b.size and b.start < a.start + a.size


def _free(profile: MigProfile, taken: list[MigPlacement]) -> MigPlacement | None:
    last_first = profile.name.startswith(_HIGHEST_START_FIRST)
    for placement in sorted(profile.placements, reverse=last_first):
        if not any(overlap(placement, other) for other in taken):
            return placement
    return None
