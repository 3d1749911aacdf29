"""Why a pod has no node, in words and numbers, and whether it ever could have one.

Reads a decision; takes none. Knows no clock and no page: texts are plain sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from hami_platform.domain import fit, nodes, place, quota, states
from hami_platform.domain.devices import Held
from hami_platform.domain.reasons import Reason, Rejection
from hami_platform.domain.requests import PodRequest
from hami_platform.domain.terms import terms_of


class Verdict(StrEnum):
    """What a refusal means for the one who waits."""

    FITS = "fits"
    NO_FIT_NOW = "no_fit_now"
    NEVER_FITS = "never_fits"


@dataclass(frozen=True, slots=True)
class NodeDetail:
    """One refused node: its dominant reason and HAMi's list of counts."""

    node: str
    dominant: Reason
    text: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer to "why is my pod pending".

    headline: `0/3 nodes: 2 CardInsufficientMemory, 1 CardTypeMismatch`, or the chosen node. reasons: nodes per dominant
    reason, most frequent first. nodes: one per refused candidate, by name. excess: the limit that refuses, where quota
    does.
    """

    verdict: Verdict
    headline: str
    reasons: tuple[tuple[Reason, int], ...] = ()
    nodes: tuple[NodeDetail, ...] = ()
    excess: quota.Excess | None = None


def explain(decision: place.Decision, request: PodRequest) -> Explanation:
    """Explain a decision about `request`. Looks at every candidate: for pages and events, not for the hot path."""
    if decision.placement is not None:
        return Explanation(Verdict.FITS, f"fits on {decision.placement.node}")
    rejections = decision.rejections
    details = tuple(
        NodeDetail(name, rejection.dominant(), rejection.text()) for name, rejection in sorted(rejections.items())
    )
    return Explanation(
        Verdict.NO_FIT_NOW if fits_when_empty(decision, request) else Verdict.NEVER_FITS,
        place.summary(rejections),
        place.dominant_reasons(rejections),
        details,
        _excess(decision, request, rejections),
    )


def fits_when_empty(decision: place.Decision, request: PodRequest) -> bool:
    """Whether the pod would fit if nothing ran: on one of the candidates, all devices healthy, not cordoned and unused,
    no node locked, and no quota in use. Limits, labels, models and reserved memory stay."""
    return _fits_emptied(decision.question, request, decision.question.candidates)


def fits_anywhere_when_empty(decision: place.Decision) -> bool:
    """The same over every registered node: kube-scheduler offers a sample of them, another one at each try."""
    return _fits_emptied(decision.question, decision.question.request, decision.question.nodes)


def _fits_emptied(question: place.Question, request: PodRequest, names: Iterable[str]) -> bool:
    unused = quota.Headroom(
        tuple((rule, quota.Amounts()) for rule, _ in question.headroom.rules), question.headroom.enforced
    )
    terms = terms_of(request, question.defaults, unused, question.terms.strategies)
    kinds = _kinds(question.nodes, request)
    one_of_each = {kinds[name]: question.nodes[name] for name in names if name in kinds}
    empty = map(emptied, one_of_each.values())
    return any(isinstance(fit.fit(node, request, terms), fit.Fitted) for node in empty)


def emptied(node: nodes.NodeState) -> nodes.NodeState:
    """The node with all of its devices in order and nothing held."""
    devices = tuple(
        nodes.DeviceState(replace(state.device, healthy=True, cordoned=False), Held()) for state in node.devices
    )
    return nodes.NodeState(node.name, devices, None, node.pair_scores)


def inventory(known: Mapping[str, nodes.NodeState], request: PodRequest) -> frozenset[object]:
    """What there is for such requests, to be compared with what there is at another time."""
    if request.constraints.names_uuids:
        return frozenset(state.device.key for node in known.values() for state in node.devices)
    return frozenset(list(_kinds_by_name(known).values()))


def _kinds(known: Mapping[str, nodes.NodeState], request: PodRequest) -> Mapping[str, object]:
    """Nodes of one kind fit the same pods, and large clusters have few kinds. A request for uuids tells nodes apart."""
    return {name: name for name in known} if request.constraints.names_uuids else _kinds_by_name(known)


def _kinds_by_name(known: Mapping[str, nodes.NodeState]) -> Mapping[str, object]:
    kinds: dict[str, object] = known.memo("kind") if isinstance(known, states.States) else {}
    same: dict[object, object] = {kind: kind for kind in {id(one): one for one in list(kinds.values())}.values()}
    for name in [name for name in known if name not in kinds]:
        kind = _Kind(known[name])
        kinds[name] = same.setdefault(kind, kind)
    return kinds


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


def _excess(decision: place.Decision, request: PodRequest, rejections: Mapping[str, Rejection]) -> quota.Excess | None:
    """The limit that stands in the way of a node on which the pod would fit but for quota."""
    question = decision.question
    free = terms_of(request, question.defaults, quota.UNLIMITED, question.terms.strategies)
    for name in sorted(rejections):
        if Reason.RESOURCE_QUOTA_NOT_FIT in rejections[name].counts:
            node = question.nodes[name]
            fitted = fit.fit(node, request, free)
            if isinstance(fitted, fit.Fitted):
                return quota.excess(question.headroom, fit.charges(fitted.shares))
    return None
