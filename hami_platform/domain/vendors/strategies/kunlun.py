"""How Kunlun cards are chosen: by the links between the eight cards of a board. Source of rules: HAMi v2.10.0.

A card's place is its index (HAMi takes its position in a sorted list); a node with more cards has several boards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

from hami_platform.domain import conditions, devices, reasons, requests, strategy, trial
from hami_platform.domain.vendors.strategies import passing

Reason = reasons.Reason
Fits = Callable[[trial.Trial, strategy.Scene], bool]

BOARD = 8
WING = 4
_LINKS = ((0, 4), (1, 5), (2, 6), (3, 7))
_QUADS = ((0, 1, 4, 5), (2, 3, 6, 7), (0, 2, 4, 6), (1, 3, 5, 7), (0, 3, 4, 7), (1, 2, 5, 6))
_FREE_IN_WING = {1: (1, 3, 2, 4), 2: (2, 3, 4), 4: (4,)}
"""Cards asked -> how many cards a wing should have free, best first: so that what stays free is of use."""
_SCORES = {-1: 3000.0, 0: 2000.0, 1: 1000.0, 2: 0.0}


def whole_cards() -> strategy.Strategy:
    """Cards that nobody else uses."""

    def serve(scene: strategy.Scene) -> Sequence[strategy.Grant] | reasons.Rejection:
        return _serve(scene, _idle, _all_of)

    return strategy.Strategy(serve=serve, floor=strategy.anything, score=_score)


def equal_shares() -> strategy.Strategy:
    """Cards that are idle, or shared in parts of the size that is asked."""

    def serve(scene: strategy.Scene) -> Sequence[strategy.Grant] | reasons.Rejection:
        found = _serve(scene, _same_size, strategy.demand)
        if isinstance(found, reasons.Rejection) and scene.mutex:
            busy = sum(_fits_but_for_mutex(one, scene) for one in scene.trials)
            if busy:
                return reasons.Rejection({Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT: busy}, len(scene.trials))
        return found

    return strategy.Strategy(serve=serve, floor=_any_cores)


def _any_cores(ask: requests.DeviceRequest) -> requests.DeviceRequest:
    return requests.DeviceRequest(ask.vendor, ask.count, ask.memory_mib, ask.memory_percent, passing.NO_CORES)


def _serve(scene: strategy.Scene, fits: Fits, demand: passing.Demand) -> Sequence[strategy.Grant] | reasons.Rejection:
    good = {
        one.device.index: one for one in scene.trials if fits(one, scene) and _is_wanted(one.device, scene)
    }  # fmt: skip
    for board in sorted({index // BOARD for index in good}):
        places = {index % BOARD for index in good if index // BOARD == board}
        chosen = select(places, scene.ask.count)
        if chosen:
            trials = [good[board * BOARD + place] for place in chosen]
            return [strategy.Grant(one, *demand(one.device, scene.ask)) for one in trials]
    mismatching = sum(not _is_wanted(one.device, scene) for one in scene.trials)
    if mismatching:
        return reasons.Rejection({Reason.CARD_UUID_MISMATCH: mismatching}, len(scene.trials))
    return passing.whole_node(scene, Reason.NUMA_NOT_FIT)


def _is_wanted(device: devices.Device, scene: strategy.Scene) -> bool:
    return conditions.is_wanted_uuid(device, scene.wanted)


def _idle(one: trial.Trial, scene: strategy.Scene) -> bool:
    fresh = one.slots == 0 < one.device.slots
    return fresh and conditions.standing(one.state, scene.wanted) is None and not one.device.reserved_mib


def _all_of(device: devices.Device, _ask: requests.DeviceRequest) -> tuple[int, int]:
    return device.memory_mib, device.core_percent


def _same_size(one: trial.Trial, scene: strategy.Scene) -> bool:
    return _shares_alike(one, scene) and not (scene.mutex and one.slots)


def _shares_alike(one: trial.Trial, scene: strategy.Scene) -> bool:
    memory_mib = scene.ask.memory_mib
    device = one.device
    if conditions.standing(one.state, scene.wanted) is not None or one.slots >= device.slots:
        return False
    if memory_mib + one.memory_mib > device.memory_mib - device.reserved_mib:
        return False
    return not one.slots or one.memory_mib // one.slots == memory_mib


def _fits_but_for_mutex(one: trial.Trial, scene: strategy.Scene) -> bool:
    return bool(one.slots) and _shares_alike(one, scene) and _is_wanted(one.device, scene)


def select(free: Collection[int], count: int) -> tuple[int, ...]:
    """The places of `count` cards out of those that are free on a board (0 ... 7); empty where no choice will do."""
    ordered = sorted(free)
    if count == BOARD:
        return tuple(ordered) if len(ordered) == BOARD else ()
    if count not in _FREE_IN_WING:
        return ()
    left = [place for place in ordered if place < WING]
    right = [place for place in ordered if place >= WING]
    for wanted in _FREE_IN_WING[count]:
        for wing in (left, right):
            if len(wing) == wanted:
                return tuple(wing[:count])
    return _across(set(free), count)


def _across(free: set[int], count: int) -> tuple[int, ...]:
    """Linked cards of both wings, where neither wing has enough."""
    if count == 2:
        return next((link for link in _LINKS if free.issuperset(link)), ())
    quads = [quad for quad in _QUADS if free.issuperset(quad)]
    if count != WING or not quads or len(free) > WING + 2:
        return ()
    if len(free) < WING + 2:
        return quads[0]
    return next((quad for quad in quads if _linked(free.difference(quad))), quads[-1])


def _linked(pair: set[int]) -> bool:
    a, b = sorted(pair)
    return (a, b) in _LINKS or a // WING == b // WING


def _score(outcome: strategy.Outcome) -> float:
    """Better the fewer single cards are left over in a wing, measured on what is given against what was in use."""
    word = outcome.shares[0].vendor if outcome.shares else ""
    mine = [state for state in outcome.node.devices if state.device.vendor == word]
    given = {share.uuid for share in outcome.shares}
    before = _bubble(state.device.index for state in mine if state.held.slots)
    after = _bubble(state.device.index for state in mine if state.device.uuid in given)
    return _SCORES.get(after - before, 1000.0)


def _bubble(indexes: Iterable[int]) -> int:
    wings = Counter(index // WING for index in indexes)
    if not wings:
        return 1
    return sum({0: 1, 1: 2, WING: 0}.get(wings[wing], 1) for wing in {0, 1, *wings})
