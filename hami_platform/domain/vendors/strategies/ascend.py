"""How Ascend NPUs are chosen: soft split only where the node offers it, networks kept together, 910C in pairs.

Source of rules and the node score: HAMi v2.10.0. Where it leaves an order open, the least network comes first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hami_platform.domain import conditions, devices, reasons, requests, strategy
from hami_platform.domain.vendors.strategies import groups, passing

Reason = reasons.Reason
Grants = list[strategy.Grant]

MODE = "huawei.com/vnpu-mode"
SOFT = "hami-core"
"""The pod's mode (annotation MODE) that splits an NPU by software; every other is a split by template."""
OFFERS_SOFT = "hamiVnpuCore"
"""Device fact: whether its node offers soft split."""
NETWORK = "NetworkID"
"""Device fact: the network (HCCS ring) that an NPU is in, as its plugin registers it."""
SOFT_CORES = 100
NETWORK_WEIGHT = 10


def of(*, networks: bool, pairs: bool) -> strategy.Strategy:
    """The strategy of one chip. networks: its NPUs may lie in networks. pairs: two NPUs are one module."""

    def serve(scene: strategy.Scene) -> Sequence[strategy.Grant] | reasons.Rejection:
        return _serve(scene, networks=networks, pairs=pairs)

    return strategy.Strategy(serve=serve, floor=_floor, score=_score if networks else None)


def _floor(ask: requests.DeviceRequest) -> requests.DeviceRequest:
    """Soft split counts 100 cores on every NPU, whatever is registered."""
    return replace(ask, core_percent=passing.NO_CORES)


def _serve(scene: strategy.Scene, *, networks: bool, pairs: bool) -> Sequence[strategy.Grant] | reasons.Rejection:
    soft = scene.wanted.note(MODE) == SOFT
    if soft and not all(one.device.fact(OFFERS_SOFT) for one in scene.trials):
        return passing.whole_node(scene, Reason.MODE_NOT_FIT)
    fit, counts = passing.passing(scene, room=_soft_room if soft else conditions.room)
    count = scene.ask.count
    if pairs and count > 1:
        return _in_pairs(fit, count, counts)
    if len(fit) < count:
        return passing.too_few(scene, len(fit), counts)
    if networks and count > 1 and _networked([one.device for one in scene.trials]):
        return _together(fit, count)
    return fit[:count]


def _together(fit: Grants, count: int) -> Grants:
    """Out of as few networks as can be. Where all that fit are taken, they stay in order."""
    if len(fit) == count:
        return fit
    chosen = groups.largest_first(count, [one.trial.device.fact(NETWORK) for one in fit])
    return [fit[i] for i in chosen or range(count)]


def _soft_room(
    device: devices.Device, used: conditions.Use, *, memory_mib: int, core_percent: int
) -> reasons.Reason | None:
    whole = replace(device, core_percent=SOFT_CORES)
    return conditions.room(whole, used, memory_mib=memory_mib, core_percent=core_percent)


def _networked(found: Sequence[devices.Device]) -> bool:
    return all(one.fact(NETWORK) is not None for one in found)


def _in_pairs(fit: Grants, count: int, counts: Counter[Reason]) -> Grants | reasons.Rejection:
    """Whole modules, in the order in which they are met. HAMi counts a refusal against the number asked."""
    modules: dict[int, Grants] = {}
    for one in fit:
        modules.setdefault(one.trial.device.index // 2, []).append(one)
    whole = [one for module in modules.values() if len(module) == 2 for one in module]
    chosen = whole[: count + count % 2]
    if len(chosen) == count:
        return chosen
    return reasons.Rejection({**counts, Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST: len(chosen)}, count)


def _score(outcome: strategy.Outcome) -> float:
    """Per container the part of its NPUs that lie in one network; 0 for the pod where an NPU is in none."""
    return NETWORK_WEIGHT * groups.together(outcome, lambda device: device.fact(NETWORK))
