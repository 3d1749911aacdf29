"""One container on one node: which devices serve its requests, in the policy's order.

Works on trial devices, which it changes when a request is met. Knows nothing of the pod but what `Site` carries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hami_platform.domain import conditions, mig, quota, score, strategy, topology, trial
from hami_platform.domain.devices import DeviceKey, MigUse, Share
from hami_platform.domain.nodes import MIG, NodeState
from hami_platform.domain.reasons import Reason, Rejection
from hami_platform.domain.requests import ContainerRequest, DeviceRequest
from hami_platform.domain.terms import Terms

Picks = list[tuple[trial.Trial, Share]]


@dataclass(frozen=True, slots=True)
class Site:
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


def fit_container(site: Site, trials: list[trial.Trial]) -> list[Share] | Rejection:
    """The container's rows, taken from the trials, or why the first request that fails does."""
    rows: list[Share] = []
    for ask in site.container.devices:
        if ask.count > 0:
            walk = _Walk(site, ask, rows)
            picks = walk.run(trials)
            if isinstance(picks, Rejection):
                return picks
            for t, share in walk.in_order(picks):
                t.take(share)
                rows.append(share)
    return rows


class _Walk:
    """One pass over a vendor's devices for one request of one container.

    Devices are tried in the policy's order. A MIG device is tried until it rejects, any other once. Where a choice has
    to be made (topology), all that fit are collected first. With numa-bind each NUMA group is a try of its own.
    """

    def __init__(self, site: Site, ask: DeviceRequest, earlier: list[Share]) -> None:
        self.site = site
        self.ask = ask
        self.earlier = earlier
        terms = site.terms.of(ask.vendor)
        self.wanted = terms.wanted
        self.policy = terms.policy
        self.strategy = terms.strategy
        self.scene: strategy.Scene | None = None
        self.collects = self.policy.topology or self.strategy.choose is not None
        self.counts: dict[Reason, int] = {}
        self.picks: Picks = []
        self.complete: list[Picks] = []

    def run(self, trials: list[trial.Trial]) -> Picks | Rejection:
        devices = [t for t in trials if t.device.vendor == self.ask.vendor]
        if self.ask.count > len(devices) and not self._instances_allowed(devices):
            return Rejection(whole=Reason.NODE_INSUFFICIENT_DEVICE)
        if self.strategy.serve is not None:
            return self._served(self.strategy.serve(self._scene(devices)), len(devices))
        if self.strategy.refuses is not None:
            self.scene = self._scene(devices)
        if self._is_direct(devices):
            return self._first_that_fit(devices)
        return self._best_of_all(devices) or self._tried(devices) or Rejection(self.counts, len(devices))

    def _best_of_all(self, devices: list[trial.Trial]) -> Picks | None:
        """The choice from all that fit, if the quota allows it: what is only collected to choose from takes none."""
        if not self.collects or self.site.headroom is None:
            return None
        free = _Walk(replace(self.site, headroom=None), self.ask, self.earlier)
        free.scene = self.scene
        picks = free._tried(devices)
        if picks is None or self.site.quota_refuses((*self.earlier, *(share for _, share in picks))):
            return None
        return picks

    def _tried(self, devices: list[trial.Trial]) -> Picks | None:
        """What the devices give, tried in order; None, and the reasons counted, where that is too little."""
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
        return self._choice()

    def in_order(self, picks: Picks) -> Picks:
        """The picks as they are recorded: a vendor's own choice as it was made, others in the policy's order."""
        if self.strategy.serve is not None or self.strategy.choose is not None:
            return picks
        return sorted(picks, key=lambda pick: self.policy_key(pick[0]), reverse=True)

    def _scene(self, devices: list[trial.Trial]) -> strategy.Scene:
        vendor = self.ask.vendor
        before = frozenset(uuid for word, uuid in self.site.sequence.peak if word == vendor)
        ordered = self._ordered(devices)
        return strategy.Scene(self.site.node, self.ask, self.wanted, self.policy.mutex, ordered, before)

    def _served(self, found: Sequence[strategy.Grant] | Rejection, candidates: int) -> Picks | Rejection:
        """What the vendor's own way gives, held to the quota like everything else."""
        if isinstance(found, Rejection):
            return found
        picks = [(one.trial, self.site.share(one.trial, one.memory_mib, one.core_percent)) for one in found]
        if self.site.quota_refuses((*self.earlier, *(share for _, share in picks))):
            return Rejection({Reason.RESOURCE_QUOTA_NOT_FIT: len(picks)}, candidates)
        return picks

    def _is_direct(self, devices: list[trial.Trial]) -> bool:
        """Whether each device passes or fails for itself, whatever was taken before it."""
        if self.collects or self.policy.numa_bind or self.site.headroom is not None:
            return False
        return not any(t.device.mode == MIG for t in devices)

    def _first_that_fit(self, devices: list[trial.Trial]) -> Picks | Rejection:
        """Test every device, then order only those that fit: most of the cost of a walk is the order."""
        good: list[trial.Trial] = []
        for t in devices:
            reason = self.strategy.standing(t.state, self.wanted) or self._refuses(t)
            if reason is None:
                good.append(t)
            else:
                self._count(reason)
        if len(good) >= self.ask.count:
            return [(t, self._share(t)) for t in self._ordered(good)[: self.ask.count]]
        if good:
            self._count(Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST, len(good))
        return Rejection(self.counts, len(devices))

    def _refuses(self, t: trial.Trial) -> Reason | None:
        """The tests after the standing ones, where quota and instances play no part."""
        if not conditions.is_wanted_uuid(t.device, self.wanted):
            return Reason.CARD_UUID_MISMATCH
        reason = conditions.sharing(t.device, t.slots, mutex=self.policy.mutex)
        if reason is not None:
            return reason
        return self._has_room(t, *self.strategy.demand(t.device, self.ask))

    def _has_room(self, t: trial.Trial, memory_mib: int, core_percent: int) -> Reason | None:
        reason = self.strategy.room(t.device, t, memory_mib=memory_mib, core_percent=core_percent)
        if reason is None and self.scene is not None and self.strategy.refuses is not None:
            return self.strategy.refuses(t, self.scene)
        return reason

    def _share(self, t: trial.Trial) -> Share:
        return self.site.share(t, *self.strategy.demand(t.device, self.ask))

    def _instances_allowed(self, devices: list[trial.Trial]) -> bool:
        """Whether more devices may be asked than there are, because one card can give several instances."""
        mode = self.wanted.vgpu_mode
        return (mode is None or MIG in mode) and any(t.device.mode == MIG for t in devices)

    def policy_key(self, t: trial.Trial, *, preferred: bool = False) -> score.Key:
        """Sort key of a device before the request is taken from it; the greatest is tried first."""
        value = score.device_score(t.device, (t.slots, t.core_percent, t.memory_mib), self.ask, self.wanted.weights)
        return score.try_key(self.policy, t.device, score=value, used_slots=t.slots, preferred=preferred)

    def _ordered(self, devices: list[trial.Trial]) -> list[trial.Trial]:
        has_slack = self.site.sequence.has_slack
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
        share, memory_mib, core_percent = self._offer(t)
        asked = share or self.site.share(t, memory_mib, core_percent)
        if self.site.quota_refuses((*self.earlier, *(taken for _, taken in self.picks), asked)):
            return Reason.RESOURCE_QUOTA_NOT_FIT
        reason = self._has_room(t, memory_mib, core_percent)
        return reason or share or Reason.CARD_MIG_TOPOLOGY_INFEASIBLE

    def _offer(self, t: trial.Trial) -> tuple[Share | None, int, int]:
        """The row that the device would give (None: no MIG placement is free), and the amounts asked of it."""
        memory_mib, core_percent = self.strategy.demand(t.device, self.ask)
        if t.device.mode != MIG:
            return self.site.share(t, memory_mib, core_percent), memory_mib, core_percent
        memory_mib = mig.memory_asked(t.device, self.ask, whole_is_largest=self.site.terms.whole_is_largest)
        mine = [share for other, share in self.picks if other is t]
        if t.slots + len(mine) >= t.device.slots:
            return None, memory_mib, core_percent
        found = mig.instance(t.device, memory_mib, (*t.mig, *(share.mig for share in mine if share.mig)))
        if found is None:
            return None, memory_mib, core_percent
        profile, placement = found
        use = MigUse(profile.name, placement)
        return self.site.share(t, profile.memory_mib, profile.core_percent, use), memory_mib, core_percent

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
        pairs = self.site.node.pair_scores
        if self.strategy.choose is not None:
            return self.strategy.choose(self.ask.count, [t.state for t, _ in picks], pairs), 0
        return topology.best_subset(self.ask.count, [t.device.uuid for t, _ in picks], pairs)

    def _count(self, reason: Reason, times: int = 1) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + times
