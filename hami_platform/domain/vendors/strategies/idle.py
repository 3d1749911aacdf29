"""Whole cards for one holder: a card that anybody uses is refused. Source: HAMi v2.10.0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hami_platform.domain import conditions, reasons, strategy
from hami_platform.domain.vendors.strategies import passing


def _serve(scene: strategy.Scene) -> Sequence[strategy.Grant] | reasons.Rejection:
    found: list[strategy.Grant] = []
    counts: Counter[reasons.Reason] = Counter()
    for one in scene.trials:
        reason = conditions.standing(one.state, scene.wanted)
        if reason is None and (one.slots or not one.device.slots):
            reason = reasons.Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT
        if reason is None:
            found.append(strategy.Grant(one, one.device.memory_mib, one.device.core_percent))
        else:
            counts[reason] += 1
    count = scene.ask.count
    return found[:count] if len(found) >= count else passing.too_few(scene, len(found), counts)


IDLE = strategy.Strategy(serve=_serve, floor=strategy.anything)
