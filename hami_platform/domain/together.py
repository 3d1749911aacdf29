"""What all containers of a pod need together, held against the sums over a node's devices: a screen before the fit.

A necessary condition, cheap and for each amount alone. Knows neither which devices are chosen nor quota.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from hami_platform.domain import lifecycle
from hami_platform.domain.devices import ContainerKind
from hami_platform.domain.nodes import MAX_CORE_PERCENT, NodeState, Ranks
from hami_platform.domain.reasons import Reason
from hami_platform.domain.requests import DeviceRequest, PodRequest


class Sums(NamedTuple):
    """The most that a pod holds at one time of one vendor's devices, each amount for itself.

    percent: of memory that is asked by percentage. steady: shares that are held at once to the pod's end, of which
    each takes at least least_mib and least_core_percent.
    """

    vendor: str
    shares: int
    memory_mib: int
    percent: int
    core_percent: int
    steady: int
    least_mib: int
    least_core_percent: int


def sums_of(request: PodRequest, vendors: Iterable[str]) -> tuple[Sums, ...]:
    """Of each of these vendors that is asked more than once; whoever is asked once is screened by that request."""
    return tuple(sums for vendor in vendors if (sums := _sums(request, vendor)) is not None)


def lacks(node: NodeState, needs: Iterable[Sums]) -> Reason | None:
    """What the node certainly lacks for the whole pod, however the devices are chosen.

    Holds for vendors whose devices give exactly what is asked. Law: a node that `fit` accepts is never dropped.
    """
    for sums in needs:
        ranks = node.ranks.get(sums.vendor)
        if ranks is None:
            return Reason.NODE_INSUFFICIENT_DEVICE
        reason = None if ranks.mig else _lacking(ranks, sums)
        if reason is not None:
            return reason
    return None


def _sums(request: PodRequest, vendor: str) -> Sums | None:
    asks = [(c.kind, ask) for c in request.containers for ask in c.devices if ask.vendor == vendor and ask.count > 0]
    if len(asks) < 2:
        return None
    most = lifecycle.walk((kind, _vector(ask)) for kind, ask in asks)
    steady = [ask for kind, ask in asks if kind is not ContainerKind.INIT]
    least_mib = min((ask.memory_mib for ask in steady), default=0)
    least_cores = min((_cores(ask) for ask in steady), default=0)
    shares, memory_mib, percent, cores = most
    running = sum(ask.count for ask in steady)
    return Sums(vendor, shares, memory_mib, percent, cores, running, max(0, least_mib), max(0, least_cores))


def _vector(ask: DeviceRequest) -> tuple[int, int, int, int]:
    percent = (ask.memory_percent or 0) if ask.memory_mib <= 0 else 0
    return (ask.count, ask.count * max(0, ask.memory_mib), ask.count * percent, ask.count * max(0, _cores(ask)))


def _cores(ask: DeviceRequest) -> int:
    return min(ask.core_percent, MAX_CORE_PERCENT)


def _lacking(ranks: Ranks, sums: Sums) -> Reason | None:
    if sums.shares > ranks.free_slots:
        return Reason.CARD_TIME_SLICING_EXHAUSTED
    if _short(ranks.memory_mib, sums.memory_mib, sums.least_mib, sums.steady):
        return Reason.CARD_INSUFFICIENT_MEMORY
    # Each share's part is rounded down to whole MiB.
    if sums.percent and sums.percent * ranks.smallest_mib > 100 * (_positive(ranks.memory_mib) + sums.shares):
        return Reason.CARD_INSUFFICIENT_MEMORY
    if _short(ranks.core_percent, sums.core_percent, sums.least_core_percent, sums.steady):
        return Reason.CARD_INSUFFICIENT_CORE
    return None


def _short(free: tuple[int, ...], needed: int, least: int, shares: int) -> bool:
    """Whether the amounts, sorted, are less than what is needed, or hold too few of the least parts."""
    if needed <= 0 or (free and free[-1] >= needed):  # one device has it all
        return False
    return _positive(free) < needed or (least > 0 and sum(map(_parts_of(least), free)) < shares)


def _parts_of(least: int) -> Callable[[int], int]:
    return lambda amount: amount // least if amount > 0 else 0


def _positive(amounts: tuple[int, ...]) -> int:
    """Their sum. What is less than nothing takes nothing from the others."""
    if not amounts or amounts[0] >= 0:
        return sum(amounts)
    return sum(amount for amount in amounts if amount > 0)
