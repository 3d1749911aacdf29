"""Whether a pod fits on one node, on which devices, and if not, why: exact, and in HAMi's order.

Works on trial copies and returns values. Knows one node and one pod; which node is best is `place`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hami_platform.domain import conditions, gate, mig, nodes, quota, score, topology, trial
from hami_platform.domain.devices import ContainerKind, DeviceKey, MigUse, Share
from hami_platform.domain.nodes import MAX_CORE_PERCENT, MIG, DeviceState, NodeState, PairScores
from hami_platform.domain.reasons import Reason, Rejection
from hami_platform.domain.requests import Constraints, ContainerRequest, DeviceRequest, PodRequest

Picks = list[tuple[trial.Trial, Share]]


@dataclass(frozen=True, slots=True)
class Fitted:
    """A pod that fits: its rows in container order, devices in the policy's order, and the node score before it."""

    shares: tuple[Share, ...]
    score: float


@dataclass(frozen=True, slots=True)
class Strategy:
    """What a vendor does differently; the defaults are NVIDIA's.

    standing: tests of a device that no other share can change. choose: positions of `count` of the candidates (in order
    of preference), or None where no choice will do; without it the first that fit are taken.
    """

    standing: Callable[[DeviceState, Constraints], Reason | None] = conditions.standing
    choose: Callable[[int, Sequence[DeviceState], PairScores], tuple[int, ...] | None] | None = None


NVIDIA = Strategy()


@dataclass(frozen=True, slots=True)
class Terms:
    """Everything about a decision that does not depend on the node.

    gate None: quota does not refuse. plain: nothing but amounts and the device's own state can exclude a device.
    """

    constraints: Constraints
    policy: score.DevicePolicy
    gate: gate.Gate | None = None
    whole_is_largest: bool = False
    plain: bool = False
    strategies: Mapping[str, Strategy] = field(default_factory=dict)


def terms_of(
    request: PodRequest,
    defaults: score.Defaults,
    headroom: quota.Headroom,
    strategies: Mapping[str, Strategy] | None = None,
) -> Terms:
    """Read a request's constraints once, for all nodes."""
    policy = score.device_policy(request.constraints, defaults)
    wanted, whole = request.constraints, defaults.whole_card_as_largest_profile
    lists = (wanted.use_models, wanted.nouse_models, wanted.use_uuids, wanted.nouse_uuids, wanted.vgpu_mode)
    plain = not policy.mutex and all(part is None for part in lists)
    return Terms(wanted, policy, gate.gate_of(headroom, request), whole, plain, strategies or {})


def fit_pod(
    node: NodeState,
    request: PodRequest,
    defaults: score.Defaults = score.DEFAULTS,
    headroom: quota.Headroom = quota.UNLIMITED,
) -> Fitted | Rejection:
    """Fit a whole pod on one node. See `fit`."""
    return fit(node, request, terms_of(request, defaults, headroom))


def fit(node: NodeState, request: PodRequest, terms: Terms) -> Fitted | Rejection:
    """Fit the pod's containers one after another; the first that does not fit gives the reason.

    Sidecars and apps add up; an ordinary init container is tried beside the sidecars that are started before it.
    """
    if node.blocked is not None:
        return Rejection(whole=node.blocked)
    headroom = _binding_headroom(node, terms)
    base = [trial.Trial(state) for state in node.devices]
    sequence = trial.Sequence()
    rows: list[Share] = []
    for index, container in enumerate(request.containers):
        if container.devices:
            trials = [t.copy() for t in base] if container.kind is ContainerKind.INIT else base
            taken = _fit_container(_Place(node, terms, headroom, sequence, index, container), trials)
            if isinstance(taken, Rejection):
                return taken
            sequence.add(container.kind, taken)
            rows += taken
    return Fitted(tuple(rows), node.score)


def charges(shares: Iterable[Share]) -> tuple[quota.Charge, ...]:
    """What a pod with these rows is charged: the greatest amounts it holds on each device over its life."""
    sequence = trial.Sequence()
    rows = tuple(shares)
    for _, group in itertools.groupby(rows, key=lambda share: share.container_index):
        of_container = tuple(group)
        sequence.add(of_container[0].kind, of_container)
    models = {share.key: share.model for share in rows}
    return quota.charges_of(sequence.held(), models, sequence.largest_mib)


def _binding_headroom(node: NodeState, terms: Terms) -> quota.Headroom | None:
    """The headroom, or None where quota cannot refuse on this node."""
    if terms.gate is None:
        return None
    for ranks in node.ranks.values():
        if ranks.mig or not terms.gate.never_refuses(ranks.largest_mib):
            return terms.gate.headroom
    return None


def refusal(node: NodeState, ask: DeviceRequest, terms: Terms) -> Rejection | None:
    """The rejection that `fit` gives a pod whose first request is `ask`, without trying it.

    None where the short way does not know: the request can be met, or order matters (quota, NUMA groups, MIG).
    Law: an answer equals that of `fit`.
    """
    if node.blocked is not None:
        return Rejection(whole=node.blocked)
    ranks = node.ranks.get(ask.vendor)
    if ranks is None:
        return Rejection(whole=Reason.NODE_INSUFFICIENT_DEVICE)
    if ranks.mig or terms.policy.numa_bind or terms.strategies:
        return None
    if ask.count > ranks.registered:
        return Rejection(whole=Reason.NODE_INSUFFICIENT_DEVICE)
    counts = _refused_by_quota(ranks, ask, terms) if terms.gate else None
    if counts is None and _binding_headroom(node, terms) is not None:
        return None
    if counts is None and terms.plain:
        counts = nodes.refused_by_rank(ranks, ask)
    if counts is None:
        counts = _refused_by_device(node, ask, terms)
    return Rejection(counts, ranks.registered) if counts is not None else None


def _refused_by_quota(ranks: nodes.Ranks, ask: DeviceRequest, terms: Terms) -> dict[Reason, int] | None:
    """Counts where quota refuses every open device as the pod's first; memory and cores are tested after it."""
    gated, core_percent = terms.gate, min(ask.core_percent, MAX_CORE_PERCENT)
    if gated is None or not terms.plain or not ranks.kinds:
        return None
    if not all(gated.refuses_first(ask, kind, core_percent) for kind in ranks.kinds):
        return None
    return {**dict(ranks.closed), Reason.RESOURCE_QUOTA_NOT_FIT: len(ranks.memory_mib)}


def _refused_by_device(node: NodeState, ask: DeviceRequest, terms: Terms) -> dict[Reason, int] | None:
    counts: dict[Reason, int] = {}
    good = 0
    vendor, core_percent, mutex = ask.vendor, min(ask.core_percent, MAX_CORE_PERCENT), terms.policy.mutex
    for state in node.devices:
        device = state.device
        if device.vendor != vendor:
            continue
        reason = state.unusable if terms.plain else _excluded(state, terms.constraints)
        if reason is None:
            reason = conditions.amounts(state, ask.memory_on(device.memory_mib), core_percent, mutex)
        if reason is None:
            good += 1
        else:
            counts[reason] = counts.get(reason, 0) + 1
    if good >= ask.count:
        return None
    if good:
        counts[Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST] = good
    return counts


def _excluded(state: DeviceState, wanted: Constraints) -> Reason | None:
    reason = conditions.standing(state, wanted)
    return reason or (None if conditions.is_wanted_uuid(state.device, wanted) else Reason.CARD_UUID_MISMATCH)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the pod, and on which node, a container is being fitted."""

    node: NodeState
    terms: Terms
    headroom: quota.Headroom | None
    sequence: trial.Sequence
    index: int
    container: ContainerRequest

    def share(self, t: trial.Trial, memory_mib: int, core_percent: int, use: MigUse | None = None) -> Share:
        device, container = t.device, self.container
        return Share(
            self.index,
            container.name,
            container.kind,
            device.vendor,
            device.uuid,
            memory_mib,
            core_percent,
            use,
            device.model,
        )

    def quota_refuses(self, taken: Iterable[Share]) -> bool:
        """Whether the pod with these shares of the container would break a quota."""
        if self.headroom is None:
            return False
        after = self.sequence.with_shares(self.container.kind, taken)
        return (
            quota.excess(self.headroom, quota.charges_of(after.held(), self._models(), after.largest_mib)) is not None
        )

    def _models(self) -> dict[DeviceKey, str]:
        return {state.device.key: state.device.model for state in self.node.devices}


def _fit_container(place: _Place, trials: list[trial.Trial]) -> list[Share] | Rejection:
    rows: list[Share] = []
    for ask in place.container.devices:
        if ask.count > 0:
            walk = _Walk(place, ask, rows)
            picks = walk.run(trials)
            if isinstance(picks, Rejection):
                return picks
            for t, share in sorted(picks, key=lambda pick: walk.policy_key(pick[0]), reverse=True):
                t.take(share)
                rows.append(share)
    return rows


class _Walk:
    """One pass over a vendor's devices for one request of one container.

    Devices are tried in the policy's order. A MIG device is tried until it rejects, any other once. Where a choice has
    to be made (topology), all that fit are collected first. With numa-bind each NUMA group is a try of its own.
    """

    def __init__(self, place: _Place, ask: DeviceRequest, earlier: list[Share]) -> None:
        self.place = place
        self.ask = ask
        self.earlier = earlier
        self.wanted = place.terms.constraints
        self.policy = place.terms.policy
        self.strategy = place.terms.strategies.get(ask.vendor, NVIDIA)
        self.core_percent = min(ask.core_percent, MAX_CORE_PERCENT)
        self.collects = self.policy.topology or self.strategy.choose is not None
        self.counts: dict[Reason, int] = {}
        self.picks: Picks = []
        self.complete: list[Picks] = []

    def run(self, trials: list[trial.Trial]) -> Picks | Rejection:
        devices = [t for t in trials if t.device.vendor == self.ask.vendor]
        if self.ask.count > len(devices) and not self._instances_allowed(devices):
            return Rejection(whole=Reason.NODE_INSUFFICIENT_DEVICE)
        numa: int | None = None
        for t in self._ordered(devices):
            reason = self.strategy.standing(t.state, self.wanted)
            if reason is not None:
                self._count(reason)
                continue
            if self.policy.numa_bind and numa is not None and numa != t.device.numa:
                self._close_group(Reason.NUMA_NOT_FIT)
            numa = t.device.numa
            if self._visit(t):
                return self.picks
        self._close_group(Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST)
        return self._choice() or Rejection(self.counts, len(devices))

    def _instances_allowed(self, devices: list[trial.Trial]) -> bool:
        """Whether more devices may be asked than there are, because one card can give several instances."""
        mode = self.wanted.vgpu_mode
        return (mode is None or MIG in mode) and any(t.device.mode == MIG for t in devices)

    def policy_key(self, t: trial.Trial, *, preferred: bool = False) -> score.Key:
        """Sort key of a device before the request is taken from it; the greatest is tried first."""
        value = score.device_score(t.device, (t.slots, t.core_percent, t.memory_mib), self.ask, self.wanted.weights)
        return score.try_key(self.policy, t.device, score=value, used_slots=t.slots, preferred=preferred)

    def _ordered(self, devices: list[trial.Trial]) -> list[trial.Trial]:
        has_slack = self.place.sequence.has_slack
        return sorted(devices, key=lambda t: self.policy_key(t, preferred=has_slack(t.device.key)), reverse=True)

    def _visit(self, t: trial.Trial) -> bool:
        """Take what one device gives. True: the request is complete."""
        while True:
            share = self._try(t)
            if isinstance(share, Reason):
                self._count(share)
                return False
            self.picks.append((t, share))
            if not self.collects and len(self.picks) == self.ask.count:
                return True
            if t.device.mode != MIG:
                return False

    def _try(self, t: trial.Trial) -> Share | Reason:
        device = t.device
        if not conditions.is_wanted_uuid(device, self.wanted):
            return Reason.CARD_UUID_MISMATCH
        reason = conditions.sharing(device, t.slots, mutex=self.policy.mutex)
        if reason is not None:
            return reason
        if device.mode != MIG and self.place.headroom is None:
            memory_mib = self.ask.memory_on(device.memory_mib)
            reason = conditions.room(device, t, memory_mib=memory_mib, core_percent=self.core_percent)
            return reason or self.place.share(t, memory_mib, self.core_percent)
        share, memory_mib = self._offer(t)
        asked = share or self.place.share(t, memory_mib, self.core_percent)
        if self.place.quota_refuses((*self.earlier, *(taken for _, taken in self.picks), asked)):
            return Reason.RESOURCE_QUOTA_NOT_FIT
        reason = conditions.room(device, t, memory_mib=memory_mib, core_percent=self.core_percent)
        return reason or share or Reason.CARD_MIG_TOPOLOGY_INFEASIBLE

    def _offer(self, t: trial.Trial) -> tuple[Share | None, int]:
        """The row that the device would give (None: no MIG placement is free), and the memory that was asked of it."""
        if t.device.mode != MIG:
            memory_mib = self.ask.memory_on(t.device.memory_mib)
            return self.place.share(t, memory_mib, self.core_percent), memory_mib
        memory_mib = mig.memory_asked(t.device, self.ask, whole_is_largest=self.place.terms.whole_is_largest)
        mine = [share for other, share in self.picks if other is t]
        if t.slots + len(mine) >= t.device.slots:
            return None, memory_mib
        found = mig.instance(t.device, memory_mib, (*t.mig, *(share.mig for share in mine if share.mig)))
        if found is None:
            return None, memory_mib
        profile, placement = found
        use = MigUse(profile.name, placement)
        return self.place.share(t, profile.memory_mib, profile.core_percent, use), memory_mib

    def _close_group(self, reason: Reason) -> None:
        """End of the devices, or of a NUMA group: keep what can be chosen from, or count what was taken in vain."""
        if self.collects and len(self.picks) >= self.ask.count:
            self.complete.append(self.picks)
        elif self.picks:
            self._count(reason, len(self.picks))
        self.picks = []

    def _choice(self) -> Picks | None:
        """The best choice over the groups; ties go to the group that was tried first."""
        best: Picks | None = None
        best_value = 0
        for picks in self.complete:
            chosen, value = self._choose(picks)
            if chosen is not None and (best is None or value > best_value):
                best, best_value = [picks[i] for i in chosen], value
        if best is None and self.complete:
            self._count(Reason.CARD_NOT_FOUND_CUSTOM_FILTER_RULE, len(self.complete[-1]))
        return best

    def _choose(self, picks: Picks) -> tuple[tuple[int, ...] | None, int]:
        pairs = self.place.node.pair_scores
        if self.strategy.choose is not None:
            return self.strategy.choose(self.ask.count, [t.state for t, _ in picks], pairs), 0
        return topology.best_subset(self.ask.count, [t.device.uuid for t, _ in picks], pairs)

    def _count(self, reason: Reason, times: int = 1) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + times
