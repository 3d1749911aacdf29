"""What a vendor's devices do differently when they are chosen: a few small functions, with the common way as default.

Values in, values out. Must not know: any one vendor, the pod beyond what `Scene` carries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from hami_platform.domain import conditions, trial, units
from hami_platform.domain.devices import Device, Share
from hami_platform.domain.nodes import MAX_CORE_PERCENT, DeviceState, NodeState, PairScores
from hami_platform.domain.reasons import Reason, Rejection
from hami_platform.domain.requests import Constraints, DeviceRequest

Choose = Callable[[int, Sequence[DeviceState], PairScores], tuple[int, ...] | None]


class Room(Protocol):
    """Whether the amounts fit beside what is used."""

    def __call__(
        self, device: Device, used: conditions.Use, *, memory_mib: int, core_percent: int
    ) -> Reason | None: ...


@dataclass(frozen=True, slots=True)
class Scene:
    """One request of one container on one node.

    trials: all of the vendor's devices there, with what is held and what the pod's containers before took; best first
    by the device policy. before: uuids of the vendor's devices that the pod's containers before were given.
    """

    node: NodeState
    ask: DeviceRequest
    wanted: Constraints
    mutex: bool
    trials: Sequence[trial.Trial]
    before: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Grant:
    """One device given, and how much of it."""

    trial: trial.Trial
    memory_mib: int
    core_percent: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """A fit on a node as it was before it, for the node score. shares: the vendor's, in container order."""

    node: NodeState
    shares: Sequence[Share]
    wanted: Constraints
    spreads: bool

    def device(self, uuid: str) -> Device | None:
        """The device of a share."""
        return next((one.device for one in self.node.devices if one.device.uuid == uuid), None)


def demand(device: Device, ask: DeviceRequest) -> tuple[int, int]:
    """(MiB, cores) that a request takes of a device: what it names, or its part of the registered memory."""
    return ask.memory_on(device.memory_mib), min(ask.core_percent, MAX_CORE_PERCENT)


def asked(ask: DeviceRequest) -> DeviceRequest:
    """Every amount that is asked must be free."""
    return ask


def anything(ask: DeviceRequest) -> DeviceRequest:
    """No amount must be free: what is free may even be negative, where a device holds more than it has."""
    return replace(ask, memory_mib=-units.INT32_MAX, memory_percent=None, core_percent=-units.INT32_MAX)


@dataclass(frozen=True, slots=True)
class Strategy:
    """How one vendor's devices are chosen; the defaults are the generic fit of HAMi v2.10.0.

    standing: tests of a device that no other share can change. demand: what is taken of a device. room: whether that is
    free. refuses: a test beside the others that may look at the pod's other devices and at the node's. choose:
    positions of `count` of the candidates (in order of preference), or None where no choice will do; without it the
    first that fit are taken. serve: replaces all of these; it gives devices or says why not.
    floor: a request that every node must have free in its order statistics; weaker than `room` where that is not what
    the amounts say. score: added to the node score. Where `neutral`, more is better whatever the node policy.
    """

    standing: Callable[[DeviceState, Constraints], Reason | None] = conditions.standing
    demand: Callable[[Device, DeviceRequest], tuple[int, int]] = demand
    room: Room = conditions.room
    refuses: Callable[[trial.Trial, Scene], Reason | None] | None = None
    choose: Choose | None = None
    serve: Callable[[Scene], Sequence[Grant] | Rejection] | None = None
    floor: Callable[[DeviceRequest], DeviceRequest] = asked
    score: Callable[[Outcome], float] | None = None
    neutral: bool = False


DEFAULT = Strategy()
Strategies = Mapping[str, Strategy]
"""Vendor word → its strategy; a word that is not there has the default one."""

NEUTRAL_WEIGHT = 10_000.0
"""Source: HAMi v2.10.0, which weighs a policy-neutral score by it, with the sign of the node policy."""


def score_of(outcome: Outcome, strategy: Strategy) -> float:
    """What the fit adds to the node score by this vendor."""
    if strategy.score is None:
        return 0.0
    value = strategy.score(outcome)
    if not strategy.neutral:
        return value
    return value * (-NEUTRAL_WEIGHT if outcome.spreads else NEUTRAL_WEIGHT)
