"""How AWS Neuron devices are chosen: several as a block of whole devices, one by the cores that are free on it.

Cores in use are a bit mask (bit 0 is the first core), on the wire and in what is held. Source of rules: HAMi v2.10.0;
unlike it, blocks go by index, and the uuids that a pod names hold for blocks too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hami_platform.domain import conditions, reasons, strategy, trial
from hami_platform.domain.vendors.strategies import passing

Reason = reasons.Reason

TYPE = "AWSNodeType"
"""Device fact: the node's instance type."""
_ANY_BLOCK = ("inf", "Inf")
_BLOCKS = (1, 4, 8, 16)
"""Sizes of blocks where the instance type is not of Inferentia; they start at multiples of their size."""
WHOLE = 100
"""memory_percent of a request for whole devices, which have no memory; None in one for cores."""


def _serve(scene: strategy.Scene) -> Sequence[strategy.Grant] | reasons.Rejection:
    return _block(scene) if scene.ask.count > 1 else _one(scene)


def _block(scene: strategy.Scene) -> Sequence[strategy.Grant] | reasons.Rejection:
    idle = {one.device.index: one for one in scene.trials if _is_idle(one, scene)}
    count = scene.ask.count
    anywhere = any(word in str(scene.trials[0].device.fact(TYPE) or "") for word in _ANY_BLOCK)
    if anywhere or count in _BLOCKS:
        for start in sorted(idle):
            wanted = range(start, start + count)
            if (anywhere or start % count == 0) and all(index in idle for index in wanted):
                return [_all_of(idle[index]) for index in wanted]
    return passing.whole_node(scene, Reason.NUMA_NOT_FIT)


def _is_idle(one: trial.Trial, scene: strategy.Scene) -> bool:
    usable = conditions.standing(one.state, scene.wanted) is None
    return usable and one.slots == 0 < one.device.slots and conditions.is_wanted_uuid(one.device, scene.wanted)


def _all_of(one: trial.Trial) -> strategy.Grant:
    return strategy.Grant(one, one.device.memory_mib, one.device.core_percent)


def _one(scene: strategy.Scene) -> Sequence[strategy.Grant] | reasons.Rejection:
    counts: Counter[Reason] = Counter()
    for one in scene.trials:
        free = one.device.core_percent & ~one.core_percent
        whole = scene.ask.memory_percent == WHOLE
        cores = one.device.core_percent.bit_count() if whole else scene.ask.core_percent
        reason = passing.before_room(one, scene)
        if reason is None and free.bit_count() >= cores:
            return [strategy.Grant(one, 0, lowest(free, cores))]
        counts[reason or Reason.CARD_INSUFFICIENT_CORE] += 1
    return reasons.Rejection(counts, len(scene.trials))


def lowest(mask: int, count: int) -> int:
    """The lowest `count` bits that are set in a mask."""
    found = 0
    for _ in range(count):
        bit = mask & -mask
        found, mask = found | bit, mask & ~bit
    return found


NEURON = strategy.Strategy(serve=_serve, floor=strategy.anything)
