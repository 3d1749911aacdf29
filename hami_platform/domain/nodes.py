"""A node as placement sees it: its devices, what is held on each, and an order-statistic screen.

Knows nothing of pods other than what a container asks for, and nothing of quota.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hami_platform.domain.devices import NOTHING, Device, DeviceKey, Held
from hami_platform.domain.reasons import Reason
from hami_platform.domain.requests import DeviceRequest, PodRequest

MIG = "mig"
"""Device.mode of a card that is cut into MIG instances."""

MAX_CORE_PERCENT = 100
"""A request for more is read as a request for 100 (HAMi v2.10.0, NVIDIA fit)."""


@dataclass(frozen=True, slots=True)
class DeviceState:
    """A device and all that is held on it now (pods and people's holds together)."""

    device: Device
    held: Held = NOTHING

    @property
    def free_memory_mib(self) -> int:
        """May be negative: a re-inflated init container or a human change can exceed the card."""
        return self.device.memory_mib - self.device.reserved_mib - self.held.memory_mib

    @property
    def free_core_percent(self) -> int:
        return self.device.core_percent - self.held.core_percent

    @property
    def free_slots(self) -> int:
        return self.device.slots - self.held.slots

    @property
    def over_used(self) -> bool:
        """Whether more is held than there is."""
        return min(self.free_memory_mib, self.free_core_percent, self.free_slots) < 0

    @property
    def unusable(self) -> Reason | None:
        """Why the device takes no new share at all. Holders whose place on a MIG card is unknown make it unusable: any
        new instance could collide with theirs."""
        device, held = self.device, self.held
        if not device.healthy:
            return Reason.CARD_NOT_HEALTH
        cut = device.mode == MIG
        if (cut or held.mig) and held and bool(held.mig) != cut:
            return Reason.CARD_NOT_HEALTH
        return Reason.CARD_CORDONED if device.cordoned else None


PairScores = Mapping[tuple[str, str], int]
"""(uuid, uuid) → topology score; missing reads as 0 (HAMi annotation hami.io/node-nvidia-score)."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Order statistics of one vendor's devices that can take one more share: each tuple is sorted, least first.

    percent: the greatest share of the registered memory that a percentage request could still get. registered counts
    all of the vendor's devices, closed those that can take no share, by reason. mig: some device is cut into instances,
    so that one may serve a request for several. kinds: (model, registered MiB) of the open devices. coreless: those of
    them that are shared without any cores held, so that their free cores do not show the sharers. spare_slots: the
    least that an open device has; free_slots: all of theirs.
    """

    registered: int
    closed: tuple[tuple[Reason, int], ...]
    memory_mib: tuple[int, ...]
    percent: tuple[int, ...]
    core_percent: tuple[int, ...]
    mig: bool = False
    kinds: tuple[tuple[str, int], ...] = ()
    coreless: int = 0
    spare_slots: int = 0
    free_slots: int = 0

    @property
    def smallest_mib(self) -> int:
        """The least registered memory of a device that is open."""
        return min((memory_mib for _, memory_mib in self.kinds), default=0)

    @property
    def largest_mib(self) -> int:
        """The greatest registered memory of a device that is open."""
        return max((memory_mib for _, memory_mib in self.kinds), default=0)


@dataclass(frozen=True, slots=True)
class NodeState:
    """An immutable picture of one node. Devices are in (vendor, index, uuid) order: build it with `NodeState.of`.

    blocked: a reason that takes the whole node out for new device pods (lock too old, accounting unknown).
    score and ranks are derived from the devices; score is the node score before the next pod, 0…30.
    """

    name: str
    devices: tuple[DeviceState, ...] = ()
    blocked: Reason | None = None
    pair_scores: PairScores = field(default_factory=dict)
    score: float = field(init=False, compare=False, repr=False)
    ranks: Mapping[str, Ranks] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "score", _score(self.devices))
        object.__setattr__(self, "ranks", {} if self.blocked else _ranks(self.devices))

    @classmethod
    def of(
        cls,
        name: str,
        devices: Iterable[DeviceState],
        *,
        blocked: Reason | None = None,
        pair_scores: PairScores | None = None,
    ) -> NodeState:
        """A node from its devices in any order."""
        ordered = tuple(sorted(devices, key=_position))
        return cls(name, ordered, blocked, {} if pair_scores is None else pair_scores)

    def plus(self, held: Mapping[DeviceKey, Held]) -> NodeState:
        """This node with more held on it; devices that it does not have are ignored."""
        devices = tuple(
            DeviceState(state.device, state.held + held[state.device.key]) if state.device.key in held else state
            for state in self.devices
        )
        return NodeState(self.name, devices, self.blocked, self.pair_scores)


def screen(node: NodeState, request: PodRequest) -> Reason | None:
    """A necessary condition in O(1) per container: None keeps the node, a Reason drops it.

    Law: a node that `fit` accepts is never dropped here. The reason is a hint; the exact counts come from `fit`.
    """
    if node.blocked is not None:
        return node.blocked
    for ask in needs(request):
        reason = lacks(node, ask)
        if reason is not None:
            return reason
    return None


def needs(request: PodRequest) -> tuple[DeviceRequest, ...]:
    """The distinct device requests of a pod: each alone must fit, whatever the others take."""
    return tuple(dict.fromkeys(ask for c in request.containers for ask in c.devices if ask.count > 0))


def refused_by_rank(ranks: Ranks, ask: DeviceRequest) -> dict[Reason, int] | None:
    """How many devices each reason refuses, as far as order statistics tell; None where they do not, or the pod fits.

    Exact for a request without constraints on a vendor's devices without MIG: memory is tested first, then cores, so
    the counts are known where all devices fare alike in one of the two.
    """
    count = len(ranks.memory_mib)
    absolute = ask.memory_mib > 0 or ask.memory_percent is None
    needed, free = (ask.memory_mib, ranks.memory_mib) if absolute else (ask.memory_percent or 0, ranks.percent)
    short = bisect.bisect_left(free, needed)
    counts = dict(ranks.closed)
    if short:
        counts[Reason.CARD_INSUFFICIENT_MEMORY] = short
    if short == count:
        return counts
    core_percent = min(ask.core_percent, MAX_CORE_PERCENT)
    lacking = bisect.bisect_left(ranks.core_percent, core_percent)
    if lacking:
        if short:
            return None
        counts[Reason.CARD_INSUFFICIENT_CORE] = lacking
    good = count - short - lacking
    if good:
        if good >= ask.count or not _cores_tell(ranks, core_percent):
            return None
        counts[Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST] = good
    return counts


def _cores_tell(ranks: Ranks, core_percent: int) -> bool:
    """Whether a device with enough free cores also passes the tests for whole devices and for devices without cores."""
    if core_percent == 0:
        return ranks.core_percent[0] > 0
    return core_percent < MAX_CORE_PERCENT or ranks.coreless == 0


def lacks(node: NodeState, ask: DeviceRequest) -> Reason | None:
    """What the node certainly lacks for one request, however the devices are chosen."""
    ranks = node.ranks.get(ask.vendor)
    if ranks is None:
        return Reason.NODE_INSUFFICIENT_DEVICE
    if ranks.mig:
        return None
    count = ask.count
    if count > ranks.registered:
        return Reason.NODE_INSUFFICIENT_DEVICE
    if count > len(ranks.memory_mib):
        return Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST
    if ranks.memory_mib[-count] < ask.memory_mib:
        return Reason.CARD_INSUFFICIENT_MEMORY
    if ask.memory_mib <= 0 and ask.memory_percent is not None and ranks.percent[-count] < ask.memory_percent:
        return Reason.CARD_INSUFFICIENT_MEMORY
    if ranks.core_percent[-count] < min(ask.core_percent, MAX_CORE_PERCENT):
        return Reason.CARD_INSUFFICIENT_CORE
    return None


def _position(state: DeviceState) -> tuple[str, int, str]:
    return (state.device.vendor, state.device.index, state.device.uuid)


def _score(devices: Iterable[DeviceState]) -> float:
    """10 × (used ÷ slots + cores ÷ total cores + memory ÷ total memory) over all devices; 0 if a total is 0.

    Source: HAMi v2.10.0 node policy. Unhealthy and cordoned devices count; parts are of the registered memory.
    """
    slots = used = cores = core_total = memory = memory_total = 0
    for state in devices:
        device, held = state.device, state.held
        slots += device.slots
        core_total += device.core_percent
        memory_total += device.memory_mib
        used += held.slots
        cores += held.core_percent
        memory += held.memory_mib
    if not (slots and core_total and memory_total):
        return 0.0
    return 10 * (used / slots + cores / core_total + memory / memory_total)


def _ranks(devices: tuple[DeviceState, ...]) -> dict[str, Ranks]:
    """Per vendor; devices come grouped by vendor."""
    groups: dict[str, list[DeviceState]] = {}
    for state in devices:
        groups.setdefault(state.device.vendor, []).append(state)
    return {vendor: _vendor_ranks(group) for vendor, group in groups.items()}


def _vendor_ranks(group: list[DeviceState]) -> Ranks:
    memory: list[int] = []
    percent: list[int] = []
    cores: list[int] = []
    closed: dict[Reason, int] = {}
    kinds: set[tuple[str, int]] = set()
    slots: list[int] = []
    coreless = 0
    mig = False
    for state in group:
        device, held = state.device, state.held
        mig = mig or device.mode == MIG
        reason = state.unusable
        if reason is None and device.slots <= held.slots:
            reason = Reason.CARD_TIME_SLICING_EXHAUSTED
        if reason is not None:
            closed[reason] = closed.get(reason, 0) + 1
            continue
        free_mib = device.memory_mib - device.reserved_mib - held.memory_mib
        memory.append(free_mib)
        percent.append(_greatest_percent(free_mib, device.memory_mib))
        cores.append(device.core_percent - held.core_percent)
        slots.append(device.slots - held.slots)
        kinds.add((device.model, device.memory_mib))
        coreless += held.slots > 0 and held.core_percent == 0
    memory.sort()
    percent.sort()
    cores.sort()
    statistics = (tuple(memory), tuple(percent), tuple(cores))
    spare = (min(slots, default=0), sum(slots))
    return Ranks(len(group), tuple(closed.items()), *statistics, mig, tuple(kinds), coreless, *spare)


def _greatest_percent(free_mib: int, total_mib: int) -> int:
    """The greatest p for which total × p // 100 <= free; on a card without memory every p, as it asks for 0."""
    if total_mib <= 0:
        return 100 if free_mib >= 0 else -1
    return (100 * (free_mib + 1) - 1) // total_mib
