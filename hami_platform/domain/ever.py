"""Whether a pod could run at all: on the devices that there are, if nothing ran and all were in order.

That tells "not now" from "never". Knows neither quota in use nor the pods that run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from hami_platform.domain import fit, nodes, place, quota, states
from hami_platform.domain.devices import Device
from hami_platform.domain.requests import PodRequest
from hami_platform.domain.terms import Terms, terms_of

MOST_KINDS = 256
"""Kinds of nodes that are tried one by one."""


def fits_when_empty(decision: place.Decision, request: PodRequest) -> bool:
    """Whether the pod would fit if nothing ran: on one of the candidates, all devices healthy, not cordoned and unused,
    no node locked, and no quota in use. Limits, labels, models and reserved memory stay."""
    return _fits_emptied(decision.question, request, decision.question.candidates)


def fits_anywhere_when_empty(decision: place.Decision) -> bool:
    """The same over every registered node: kube-scheduler offers a sample of them, another one at each try."""
    return _fits_emptied(decision.question, decision.question.request, decision.question.nodes)


def able(question: place.Question) -> frozenset[str]:
    """The candidates on which the pod would fit if nothing ran. Where they are of too many kinds to try, all."""
    kinds = _kinds(question.nodes, question.request)
    one_of_each = {kinds[name]: question.nodes[name] for name in question.candidates if name in kinds}
    if len(one_of_each) > MOST_KINDS:
        return frozenset(name for name in question.candidates if name in kinds)
    terms = _unused_terms(question, question.request)
    good = {
        kind
        for kind, node in one_of_each.items()
        if isinstance(fit.fit(emptied(node), question.request, terms), fit.Fitted)
    }
    return frozenset(name for name in question.candidates if kinds.get(name) in good)


def _fits_emptied(question: place.Question, request: PodRequest, names: Iterable[str]) -> bool:
    terms = _unused_terms(question, request)
    kinds = _kinds(question.nodes, request)
    one_of_each = {kinds[name]: question.nodes[name] for name in names if name in kinds}
    empty = map(emptied, one_of_each.values())
    return any(isinstance(fit.fit(node, request, terms), fit.Fitted) for node in empty)


def _unused_terms(question: place.Question, request: PodRequest) -> Terms:
    """The question's terms with all limits in force and nothing used of them."""
    return terms_of(request, question.defaults, _unused(question), question.terms.strategies)


def _unused(question: place.Question) -> quota.Headroom:
    rules = tuple((rule, quota.Amounts()) for rule, _ in question.headroom.rules)
    return quota.Headroom(rules, question.headroom.enforced)


def emptied(node: nodes.NodeState) -> nodes.NodeState:
    """The node with all of its devices in order and nothing held."""
    devices = tuple(nodes.DeviceState(_in_order(state.device)) for state in node.devices)
    return nodes.NodeState(node.name, devices, None, node.pair_scores)


def _in_order(device: Device) -> Device:
    if device.healthy and not device.cordoned:
        return device  # most are: copying them was most of what a sentence about a refusal costs
    return replace(device, healthy=True, cordoned=False)


def emptied_decision(decision: place.Decision, names: Iterable[str]) -> place.Decision:
    """The same question asked of these nodes alone, as if nothing ran on them and nothing was used of any limit."""
    question = decision.question
    nodes_ = {name: emptied(question.nodes[name]) for name in names if name in question.nodes}
    return place.place(
        nodes_,
        tuple(nodes_),
        question.request,
        headroom=_unused(question),
        defaults=question.defaults,
        strategies=question.terms.strategies,
    )


class Inventory:
    """What there is, followed from one state of the nodes to the next: whoever looks at older states than decisions do
    finds nothing kept with them, and would look at every device each time. For one thread."""

    def __init__(self) -> None:
        self._seen: states.States | None = None
        self._kinds: dict[str, object] = {}
        self._same: dict[object, object] = {}

    def of(self, known: Mapping[str, nodes.NodeState], request: PodRequest) -> frozenset[object]:
        """What there is for such requests, to be compared with what there is at another time."""
        if request.constraints.names_uuids:
            return frozenset(state.device.key for node in known.values() for state in node.devices)
        if not isinstance(known, states.States):
            return frozenset(_kinds_by_name(known).values())
        for name in self._stale(known):
            self._kinds.pop(name, None)
            if name in known:
                kind = _Kind(known[name])
                self._kinds[name] = self._same.setdefault(kind, kind)
        self._seen = known
        return frozenset(_distinct(list(self._kinds.values())))

    def _stale(self, known: states.States) -> frozenset[str]:
        """Names whose kinds may be others than is remembered. Batches come in any order: an older state is followed,
        too."""
        changed = None
        if self._seen is not None:
            changed = known.changed_since(self._seen)
            changed = self._seen.changed_since(known) if changed is None else changed
        if changed is not None:
            return changed
        self._kinds, self._same = {}, {}
        return frozenset(known)


def _kinds(known: Mapping[str, nodes.NodeState], request: PodRequest) -> Mapping[str, object]:
    """Nodes of one kind fit the same pods, and large clusters have few kinds. A request for uuids tells nodes apart."""
    return {name: name for name in known} if request.constraints.names_uuids else _kinds_by_name(known)


def _kinds_by_name(known: Mapping[str, nodes.NodeState]) -> Mapping[str, object]:
    kinds: dict[str, object] = known.memo("kind") if isinstance(known, states.States) else {}
    same: dict[object, object] = {kind: kind for kind in _distinct(list(kinds.values()))}
    for name in [name for name in known if name not in kinds]:
        kind = _Kind(known[name])
        kinds[name] = same.setdefault(kind, kind)
    return kinds


def _distinct(kinds: list[object]) -> Iterable[object]:
    """One of each object, of thousands of the same few: comparing them would take a step of Python for each."""
    return dict(zip(map(id, kinds), kinds, strict=True)).values()


class _Kind:
    """What a node has, by which nodes are told apart. Its hash is worked out once: there are thousands of nodes."""

    __slots__ = ("devices", "hash")

    def __init__(self, node: nodes.NodeState) -> None:
        self.devices = tuple(replace(state.device, uuid="", model=state.device.model.lower()) for state in node.devices)
        self.hash = hash(self.devices)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Kind) and self.devices == other.devices)
