"""What each device of a node has free, what a pod needs of it, and what stands between: the numbers of an explanation.

Reads states; decides nothing. `near` finds the nodes on which the least is missing. Knows no quota but as a reason.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from hami_platform.domain import conditions, mig, place, quota, trial, walk
from hami_platform.domain.devices import ContainerKind, Held
from hami_platform.domain.nodes import MAX_CORE_PERCENT, MIG, NodeState, needs
from hami_platform.domain.reasons import Reason, Rejection
from hami_platform.domain.requests import DeviceRequest
from hami_platform.domain.terms import Terms, VendorTerms, binding_headroom
from hami_platform.domain.view import View

FAR = 100.0
"""Distance of a node that can never serve the pod."""
_CUT = 0.5
"""What is free on a card that is cut into instances is not free in one piece."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds what of a device: a pod by its row's id, or a person's hold by its id."""

    held: Held
    pod: int | None = None
    hold: int | None = None


@dataclass(frozen=True, slots=True)
class Card:
    """One device and one request for it. reason None: this device would do. free amounts may be negative.

    chosen: the decision takes it. Amounts as the pod finds them, earlier containers of its own counted.
    """

    uuid: str
    vendor: str
    index: int
    model: str
    reason: Reason | None
    memory_mib: int
    free_mib: int
    need_mib: int
    core_percent: int
    free_core_percent: int
    need_core_percent: int
    slots: int
    free_slots: int
    reserved_mib: int = 0
    chosen: bool = False
    holders: tuple[Holder, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeLine:
    """One node. reason None: the pod fits. text: HAMi's list. count: devices needed by the request that fails."""

    node: str
    reason: Reason | None
    text: str
    count: int
    cards: tuple[Card, ...] = ()

    @property
    def good(self) -> int:
        """Devices that would do."""
        return sum(card.reason is None for card in self.cards)


def line(view: View, decision: place.Decision, name: str) -> NodeLine:
    """The arithmetic of one candidate."""
    question = decision.question
    node = question.nodes.get(name)
    found = question.fit(name)
    if node is None:
        return NodeLine(name, Reason.NODE_UNREGISTERED, Reason.NODE_UNREGISTERED.value, 0)
    ask, trials = _stops_at(node, question)
    chosen = _chosen(decision, name)
    holders = _holders(view, name)
    cards = tuple(
        _card(one, ask, question.terms, one.device.uuid in chosen, holders.get(one.device.key, ()))
        for one in trials
        if ask is not None and one.device.vendor == ask.vendor
    )
    count = ask.count if ask is not None else 0
    if isinstance(found, Rejection):
        return NodeLine(name, found.dominant(), found.text(), count, cards)
    return NodeLine(name, None, "", count, cards)


def near(decision: place.Decision, names: Iterable[str], most: int, able: frozenset[str]) -> list[str]:
    """At most `most` of the names, those first on which the least is missing; ties by name. O(1) for each node.

    able: nodes that could serve the pod if nothing ran; the others come last.
    """
    names = list(names)
    asks = needs(decision.question.request)
    known = decision.question.nodes
    ranked = ((0.0 if name in able else FAR) + _missing(known.get(name), asks) for name in names)
    return [name for _, name in heapq.nsmallest(most, zip(ranked, names, strict=True))]


def _missing(node: NodeState | None, asks: tuple[DeviceRequest, ...]) -> float:
    """How far the node is from the asks, each for itself: whole devices, and parts of what is asked."""
    if node is None:
        return FAR
    if node.blocked is not None:
        return 1.0
    return sum(_missing_for(node, ask) for ask in asks)


def _missing_for(node: NodeState, ask: DeviceRequest) -> float:
    ranks = node.ranks.get(ask.vendor)
    if ranks is None:
        return FAR
    count = len(ranks.memory_mib)
    closed = max(0, ask.count - count)
    if count == 0:
        return 2.0 * closed
    rank = -min(ask.count, count)
    memory_mib = ask.memory_mib
    short = max(0, memory_mib - ranks.memory_mib[rank]) / memory_mib if memory_mib > 0 else 0.0
    if memory_mib <= 0 and ask.memory_percent:
        short = max(0, ask.memory_percent - ranks.percent[rank]) / 100
    cores = max(0, min(ask.core_percent, MAX_CORE_PERCENT) - ranks.core_percent[rank]) / 100
    return 2.0 * closed + short + cores + (_CUT if ranks.mig else 0.0)


def _chosen(decision: place.Decision, name: str) -> frozenset[str]:
    placement = decision.placement
    if placement is None or placement.node != name:
        return frozenset()
    return frozenset(share.uuid for share in placement.shares)


def _stops_at(node: NodeState, question: place.Question) -> tuple[DeviceRequest | None, list[trial.Trial]]:
    """The first request that cannot be met, with the devices as it finds them; the first of all where all can be."""
    first: tuple[DeviceRequest | None, list[trial.Trial]] | None = None
    terms = question.terms
    base = [trial.Trial(state) for state in node.devices]
    sequence = trial.Sequence()
    headroom = binding_headroom(node, terms)
    for index, container in enumerate(question.request.containers):
        trials = [t.copy() for t in base] if container.kind is ContainerKind.INIT else base
        rows = []
        for ask in (ask for ask in container.devices if ask.count > 0):
            before = [t.copy() for t in trials]
            first = first or (ask, before)
            site = walk.Site(node, terms, headroom, sequence, index, replace(container, devices=(ask,)))
            taken = walk.fit_container(site, trials)
            if isinstance(taken, Rejection):
                return ask, before
            rows += taken
        if rows:
            sequence.add(container.kind, rows)
    return first or (None, base)


def _card(t: trial.Trial, ask: DeviceRequest, terms: Terms, chosen: bool, holders: tuple[Holder, ...]) -> Card:
    device, own = t.device, terms.of(ask.vendor)
    memory_mib, core_percent = own.strategy.demand(device, ask)
    if device.mode == MIG:
        memory_mib = mig.memory_asked(device, ask, whole_is_largest=terms.whole_is_largest)
    return Card(
        uuid=device.uuid,
        vendor=device.vendor,
        index=device.index,
        model=device.model,
        reason=_refuses(t, ask, own, terms, (memory_mib, core_percent)),
        memory_mib=device.memory_mib,
        free_mib=device.memory_mib - device.reserved_mib - t.memory_mib,
        need_mib=memory_mib,
        core_percent=device.core_percent,
        free_core_percent=device.core_percent - t.core_percent,
        need_core_percent=core_percent,
        slots=device.slots,
        free_slots=device.slots - t.slots,
        reserved_mib=device.reserved_mib,
        chosen=chosen,
        holders=holders,
    )


def _refuses(
    t: trial.Trial, ask: DeviceRequest, own: VendorTerms, terms: Terms, need: tuple[int, int]
) -> Reason | None:
    """What is wrong with this device alone, in HAMi's order but for quota, which comes last."""
    device = t.device
    memory_mib, core_percent = need
    reason = own.strategy.standing(t.state, own.wanted)
    if reason is None and not conditions.is_wanted_uuid(device, own.wanted):
        reason = Reason.CARD_UUID_MISMATCH
    reason = reason or conditions.sharing(device, t.slots, mutex=own.policy.mutex)
    reason = reason or own.strategy.room(device, t, memory_mib=memory_mib, core_percent=core_percent)
    if reason is None and device.mode == MIG:
        return _refuses_instance(t, memory_mib, terms)
    if reason is None and terms.gate is not None:
        kind = (device.model, device.memory_mib)
        cores = min(ask.core_percent, MAX_CORE_PERCENT)
        reason = Reason.RESOURCE_QUOTA_NOT_FIT if terms.gate.refuses_first(ask, kind, cores) else None
    return reason


def _refuses_instance(t: trial.Trial, memory_mib: int, terms: Terms) -> Reason | None:
    """Of a card in MIG mode: what the instance that it would give takes can be more than what is asked."""
    found = mig.instance(t.device, memory_mib, t.mig)
    if found is None:
        return Reason.CARD_MIG_TOPOLOGY_INFEASIBLE
    profile = found[0]
    amounts = quota.Amounts(1, profile.memory_mib, profile.core_percent)
    charge = quota.Charge(t.device.vendor, t.device.model, amounts, profile.memory_mib)
    refused = terms.gate is not None and quota.excess(terms.gate.headroom, (charge,)) is not None
    return Reason.RESOURCE_QUOTA_NOT_FIT if refused else None


def _holders(view: View, node: str) -> Mapping[tuple[str, str], tuple[Holder, ...]]:
    """Who holds what on each device of the node: pods by id, then people's holds."""
    found: dict[tuple[str, str], list[Holder]] = {}
    for pod_id in sorted(view.pods_by_node.get(node, ())):
        for key, held in view.pods[pod_id].held.items():
            if held:
                found.setdefault(key, []).append(Holder(held, pod=pod_id))
    for hold_id, hold in view.holds.items():
        if hold.in_force and hold.node == node:
            found.setdefault(hold.key, []).append(Holder(hold.held, hold=hold_id))
    return {key: tuple(some) for key, some in found.items()}
