"""How parts of Enflame cards (DRS) are chosen: the least profile that a node offers, then a card with room for it.

Source of rules: HAMi v2.10.0. A card that is given in parts of k slices takes one slot of it; memory and cores decide.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hami_platform.domain import devices, reasons, requests, strategy
from hami_platform.domain.vendors.strategies import passing

Reason = reasons.Reason

PROFILES = "profiles"
"""Device fact: the node's profiles, a JSON object of name -> id."""
MOST_SLICES = "maxSlice"
BY_AMOUNT = -1
"""memory_percent of a request by memory (in its own unit) and cores; None in one for a number of slices."""
GIB = 1024
_NAME = re.compile(r"([1-9][0-9]{0,5})g\.([1-9][0-9]{0,5})gb", re.IGNORECASE)


@dataclass(frozen=True, slots=True, order=True)
class Profile:
    """A part that cards can be cut into. name and id are as the node says them."""

    slices: int
    gib: int
    name: str
    id: str

    def core_percent(self, most_slices: int) -> int:
        """Its part of a card's cores, rounded up."""
        return -(-self.slices * 100 // most_slices)


def profiles(names: Mapping[str, str]) -> tuple[Profile, ...]:
    """The profiles of these names that can be read, least first."""
    found = ((_NAME.fullmatch(name), name, ident) for name, ident in names.items())
    return tuple(sorted(Profile(int(m[1]), int(m[2]), name, ident) for m, name, ident in found if m))


def profile_for(device: devices.Device, ask: requests.DeviceRequest) -> Profile | None:
    """The least profile on a device's node that serves a request."""
    offered = profiles(json.loads(str(device.fact(PROFILES) or "{}")))
    most_slices = int(device.fact(MOST_SLICES) or 1)
    if ask.memory_percent != BY_AMOUNT:
        return next((one for one in offered if one.slices == ask.memory_mib), None)
    gib = _gib(ask.memory_mib, offered)
    return next((one for one in offered if one.gib >= gib and one.core_percent(most_slices) >= ask.core_percent), None)


def _gib(amount: int, offered: Iterable[Profile]) -> int:
    """Memory is in GiB, or in MiB where it is more than twice the greatest profile: what HAMi guesses."""
    greatest = max((one.gib for one in offered), default=0)
    return -(-amount // GIB) if amount > 2 * greatest else amount


def _serve(scene: strategy.Scene) -> Sequence[strategy.Grant] | reasons.Rejection:
    fit: list[strategy.Grant] = []
    counts: Counter[Reason] = Counter()
    chosen = [(one, profile_for(one.device, scene.ask)) for one in scene.trials]
    if not any(profile for _, profile in chosen):
        return passing.whole_node(scene, Reason.MODE_NOT_FIT)
    for one, profile in chosen:
        reason = passing.before_room(one, scene) or (None if profile else Reason.MODE_NOT_FIT)
        if profile is None or reason is not None:
            counts[reason or Reason.MODE_NOT_FIT] += 1
            continue
        device = one.device
        memory_mib, core_percent = profile.gib * GIB, profile.core_percent(int(device.fact(MOST_SLICES) or 1))
        if device.memory_mib - device.reserved_mib - one.memory_mib < memory_mib:
            counts[Reason.CARD_INSUFFICIENT_MEMORY] += 1
        elif device.core_percent - one.core_percent < core_percent:
            counts[Reason.CARD_INSUFFICIENT_CORE] += 1
        else:
            fit.append(strategy.Grant(one, memory_mib, core_percent))
    count = scene.ask.count
    return fit[:count] if len(fit) >= count else passing.too_few(scene, len(fit), counts)


DRS = strategy.Strategy(serve=_serve, floor=strategy.anything)
