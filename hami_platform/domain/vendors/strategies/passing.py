"""The tests of HAMi's generic fit, device by device, for strategies that choose among all that pass.

Must not know: which vendor, or how is chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hami_platform.domain import conditions, devices, reasons, requests, strategy, trial, units

Reason = reasons.Reason
Demand = Callable[[devices.Device, requests.DeviceRequest], tuple[int, int]]

NO_CORES = -units.INT32_MAX
"""A floor that every node has, whatever its devices register and hold: for cores that are not what is registered."""


def passing(
    scene: strategy.Scene, *, room: strategy.Room = conditions.room, demand: Demand = strategy.demand
) -> tuple[list[strategy.Grant], Counter[Reason]]:
    """(what each device that passes would give, best first; how many devices each reason refuses)."""
    found: list[strategy.Grant] = []
    counts: Counter[Reason] = Counter()
    for one in scene.trials:
        memory_mib, core_percent = demand(one.device, scene.ask)
        reason = before_room(one, scene) or room(one.device, one, memory_mib=memory_mib, core_percent=core_percent)
        if reason is None:
            found.append(strategy.Grant(one, memory_mib, core_percent))
        else:
            counts[reason] += 1
    return found, counts


def before_room(one: trial.Trial, scene: strategy.Scene) -> Reason | None:
    """The tests that come before the amounts: health, model, uuid, slots, exclusive use."""
    reason = conditions.standing(one.state, scene.wanted)
    if reason is not None:
        return reason
    if not conditions.is_wanted_uuid(one.device, scene.wanted):
        return Reason.CARD_UUID_MISMATCH
    return conditions.sharing(one.device, one.slots, mutex=scene.mutex)


def too_few(scene: strategy.Scene, fit: int, counts: Counter[Reason]) -> reasons.Rejection:
    """The rejection where fewer devices fit than are asked."""
    if fit:
        counts = counts + Counter({Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST: fit})
    return reasons.Rejection(counts, len(scene.trials))


def whole_node(scene: strategy.Scene, reason: Reason) -> reasons.Rejection:
    """A rejection that HAMi counts once, whatever the number of devices."""
    return reasons.Rejection({reason: 1}, len(scene.trials))
