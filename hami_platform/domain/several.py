"""Why a node refuses a pod of several requests, without trying it: the counts that `fit` would give.

First by order statistics, where it does not matter which devices the requests before take; then by taking them on plain
numbers. For devices that need nothing but amounts, not for instances. Knows no quota: where one binds, it is not asked.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from hami_platform.domain import score
from hami_platform.domain.devices import ContainerKind, Device
from hami_platform.domain.nodes import MAX_CORE_PERCENT, NodeState, Ranks
from hami_platform.domain.reasons import Reason, Rejection
from hami_platform.domain.requests import ContainerRequest, DeviceRequest, PodRequest
from hami_platform.domain.strategy import DEFAULT
from hami_platform.domain.terms import Terms, VendorTerms


@dataclass(frozen=True, slots=True)
class Taken:
    """What some requests for one vendor take of one device at most, if all of them take the same one.

    devices: the most that one of them takes. whole, bare: whether one takes all cores, or none.
    """

    requests: int = 0
    devices: int = 0
    memory_mib: int = 0
    percent: int = 0
    core_percent: int = 0
    whole: bool = False
    bare: bool = False

    def plus(self, ask: DeviceRequest) -> Taken:
        """With one more request."""
        cores = _cores(ask)
        absolute = ask.memory_mib > 0
        return Taken(
            self.requests + 1,
            max(self.devices, ask.count),
            self.memory_mib + (ask.memory_mib if absolute else 0),
            self.percent + (0 if absolute else ask.memory_percent or 0),
            self.core_percent + cores,
            self.whole or cores == MAX_CORE_PERCENT,
            self.bare or cores == 0,
        )

    def most_mib(self, ranks: Ranks) -> int:
        """At most so much memory."""
        return self.memory_mib + (ranks.largest_mib * self.percent // 100 if self.percent else 0)


NOTHING_TAKEN = Taken()


@dataclass(frozen=True, slots=True)
class Step:
    """One request of a pod. before: what the pod's requests before it take of the same vendor; after: with it."""

    ask: DeviceRequest
    own: VendorTerms
    before: Taken
    after: Taken


@dataclass(frozen=True, slots=True)
class Steps:
    """All requests of a pod in the order in which they are met, by container. returns: some are given back."""

    containers: tuple[tuple[ContainerKind, tuple[Step, ...]], ...]
    returns: bool

    @property
    def all(self) -> Iterator[Step]:
        """One after another."""
        return itertools.chain.from_iterable(steps for _, steps in self.containers)


def steps_of(request: PodRequest, terms: Terms) -> Steps | None:
    """None for a pod with fewer than two requests, or with one that needs more than amounts."""
    asks = sum(ask.count > 0 for container in request.containers for ask in container.devices)
    if asks < 2 or not all(map(_is_simple, terms.vendors.values())):
        return None
    taken: dict[str, Taken] = {}
    found = tuple((one.kind, tuple(_steps(one, terms, taken))) for one in request.containers)
    containers = tuple((kind, steps) for kind, steps in found if steps)
    return Steps(containers, any(kind is ContainerKind.INIT for kind, _ in containers))


def _steps(container: ContainerRequest, terms: Terms, taken: dict[str, Taken]) -> Iterator[Step]:
    for ask in container.devices:
        if ask.count > 0:
            before = taken.get(ask.vendor, NOTHING_TAKEN)
            taken[ask.vendor] = after = before.plus(ask)
            yield Step(ask, terms.of(ask.vendor), before, after)


def _is_simple(own: VendorTerms) -> bool:
    return own.plain and own.strategy is DEFAULT and not own.policy.numa_bind and not own.policy.topology


def refusal_of(node: NodeState, steps: Steps) -> Rejection | None:
    """The rejection that `fit` gives the pod; None where it fits, or where this way does not know.

    Law: an answer equals that of `fit`.
    """
    if node.blocked is not None:
        return Rejection(whole=node.blocked)
    for step in steps.all:
        ranks = node.ranks.get(step.ask.vendor)
        if ranks is None or (step.ask.count > ranks.registered and not ranks.mig):
            return Rejection(whole=Reason.NODE_INSUFFICIENT_DEVICE)
        if ranks.mig:
            return None
        counts = _refused_by_rank(ranks, step)
        if counts is not None:
            return Rejection(counts, ranks.registered)
        if not _is_met(ranks, step.after):
            return _refused_when_taken(node, steps)
    return None


def _refused_by_rank(ranks: Ranks, step: Step) -> dict[Reason, int] | None:
    """The counts, where every open device refuses for the same reason whatever was taken before."""
    ask, before, count = step.ask, step.before, len(ranks.memory_mib)
    if ranks.spare_slots <= before.requests:
        return None
    absolute = ask.memory_mib > 0 or ask.memory_percent is None
    needed, free = (ask.memory_mib, ranks.memory_mib) if absolute else (ask.memory_percent or 0, ranks.percent)
    short = bisect.bisect_left(free, needed)
    if short == count:
        return {**dict(ranks.closed), Reason.CARD_INSUFFICIENT_MEMORY: count}
    if short or ranks.core_percent[-1] >= _cores(ask):
        return None
    if absolute and ranks.memory_mib[0] - before.most_mib(ranks) >= needed:
        return {**dict(ranks.closed), Reason.CARD_INSUFFICIENT_CORE: count}
    return None


def _is_met(ranks: Ranks, taken: Taken) -> bool:
    """Whether these requests are all met, one after another, whichever devices each of them takes: as many devices as
    the greatest of them needs have room for all of them together."""
    if taken.requests > ranks.spare_slots or (taken.whole and (taken.requests > 1 or ranks.coreless)):
        return False
    short = bisect.bisect_left(ranks.memory_mib, taken.most_mib(ranks))
    lacking = bisect.bisect_left(ranks.core_percent, taken.core_percent + taken.bare)
    return len(ranks.memory_mib) - short - lacking >= taken.devices


class _Device:
    """A device that is open, what is used of it, and the most that was since the pod's first container.

    slack: the pod held more of it in an earlier phase, so that it is preferred.
    """

    __slots__ = ("core_percent", "device", "memory_mib", "peak", "slack", "slots")

    def __init__(self, device: Device, slots: int, memory_mib: int, core_percent: int) -> None:
        self.device = device
        self.slots = slots
        self.memory_mib = memory_mib
        self.core_percent = core_percent
        self.peak = (slots, memory_mib, core_percent)
        self.slack = False

    def copy(self) -> _Device:
        twin = _Device(self.device, self.slots, self.memory_mib, self.core_percent)
        twin.slack = self.slack
        return twin

    def ends(self, after: _Device) -> None:
        """A container is over that left the device as `after`, which is the same one but for an ordinary init."""
        slots, memory_mib, core_percent = self.peak
        used = (self.slots, self.memory_mib, self.core_percent)
        self.peak = (max(slots, after.slots), max(memory_mib, after.memory_mib), max(core_percent, after.core_percent))
        self.slack = self.peak != used


def _refused_when_taken(node: NodeState, steps: Steps) -> Rejection | None:
    base = _open_devices(node)
    for kind, own in steps.containers:
        devices = [one.copy() for one in base] if kind is ContainerKind.INIT else base
        for step in own:
            ranks = node.ranks.get(step.ask.vendor)
            if ranks is None or step.ask.count > ranks.registered:
                return Rejection(whole=Reason.NODE_INSUFFICIENT_DEVICE)
            if ranks.mig:
                return None
            counts = _taken(devices, step, dict(ranks.closed))
            if counts is not None:
                return Rejection(counts, ranks.registered)
        if steps.returns:
            for one, after in zip(base, devices, strict=True):
                one.ends(after)
    return None


def _open_devices(node: NodeState) -> list[_Device]:
    found = []
    for state in node.devices:
        device, held = state.device, state.held
        if held.slots < device.slots and state.unusable is None:
            found.append(_Device(device, held.slots, held.memory_mib, held.core_percent))
    return found


def _taken(devices: list[_Device], step: Step, counts: dict[Reason, int]) -> dict[Reason, int] | None:
    """Takes what is asked; where that is not there, how many devices each reason refuses, those in counts included."""
    ask, cores = step.ask, _cores(step.ask)
    good = []
    for one in devices:
        device = one.device
        if device.vendor != ask.vendor:
            continue
        reason = _refuses(one, device, ask.memory_on(device.memory_mib), cores)
        if reason is None:
            good.append(one)
        else:
            counts[reason] = counts.get(reason, 0) + 1
    if len(good) < ask.count:
        return {**counts, Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST: len(good)} if good else counts
    if len(good) > ask.count:
        good.sort(key=lambda one: _key(one, step), reverse=True)
    for one in good[: ask.count]:
        one.slots += 1
        one.memory_mib += ask.memory_on(one.device.memory_mib)
        one.core_percent += cores
    return None


def _refuses(one: _Device, device: Device, memory_mib: int, core_percent: int) -> Reason | None:
    """`conditions.sharing` and `room`, in one step for a hot loop."""
    slots = one.slots
    if device.slots <= slots:
        return Reason.CARD_TIME_SLICING_EXHAUSTED
    if device.memory_mib - device.reserved_mib - one.memory_mib < memory_mib:
        return Reason.CARD_INSUFFICIENT_MEMORY
    total, cores = device.core_percent, one.core_percent
    if total - cores < core_percent:
        return Reason.CARD_INSUFFICIENT_CORE
    if core_percent == MAX_CORE_PERCENT == total and slots > 0:
        return Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT
    return Reason.CARD_COMPUTE_UNITS_EXHAUSTED if core_percent == 0 and cores == total != 0 else None


def _key(one: _Device, step: Step) -> score.Key:
    device, own = one.device, step.own
    value = score.device_score(device, (one.slots, one.core_percent, one.memory_mib), step.ask, own.wanted.weights)
    return score.try_key(own.policy, device, score=value, used_slots=one.slots, preferred=one.slack)


def _cores(ask: DeviceRequest) -> int:
    return min(ask.core_percent, MAX_CORE_PERCENT)
