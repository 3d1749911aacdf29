"""On which node a pod goes: screen all, fit the best-scored until one fits, and say why the others do not.

The one entry point of a decision. Knows values only: no clock, no store, no wire.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass
from typing import NamedTuple

from hami_platform.domain import fit, nodes, quota, refusal, score, several, states, together
from hami_platform.domain.devices import Share
from hami_platform.domain.reasons import Reason, Rejection
from hami_platform.domain.requests import DeviceRequest, PodRequest
from hami_platform.domain.strategy import DEFAULT, Strategies
from hami_platform.domain.terms import Terms, binding_headroom, terms_of

Defaults = score.Defaults


@dataclass(frozen=True, slots=True)
class Placement:
    """A node, the pod's rows on it, and the node's score before the pod."""

    node: str
    shares: tuple[Share, ...]
    score: float


class Rejections(Mapping[str, Rejection]):
    """Why each node was refused, by name. Exact counts are made when they are asked for, and kept."""

    def __init__(self, question: Question, names: Iterable[str], known: dict[str, Rejection]) -> None:
        self._question = question
        self._known = known
        self._names = names if isinstance(names, dict) else dict.fromkeys(names)

    def __getitem__(self, name: str) -> Rejection:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._known:
            self._known[name] = self._question.rejection(name)
        return self._known[name]

    def values(self) -> ValuesView[Rejection]:
        """All rejections, made at once: iterating one by one costs as much again."""
        return dict(zip(self._names, self._all(), strict=True)).values()

    def _all(self) -> list[Rejection]:
        try:
            return list(map(self._known.__getitem__, self._names))
        except KeyError:
            self._make()
            return list(map(self._known.__getitem__, self._names))

    def _make(self) -> None:
        known, rejection = self._known, self._question.rejection
        same: dict[tuple[object, ...], Rejection] = {}  # thousands of nodes refuse in a few ways
        for name in [name for name in self._names if name not in known]:
            found = rejection(name)
            kind = (found.whole, found.candidates, tuple(found.counts.items()))
            known[name] = same.setdefault(kind, found)

    @functools.cached_property
    def dominant(self) -> tuple[tuple[Reason, int], ...]:
        """How many nodes each dominant reason refuses, most frequent first. Counted once: several ask for it."""
        return _dominant_reasons(self._all())

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names


class _Untried(NamedTuple):
    """What of an order of nodes was not tried. A reference, since orders are long and seldom looked at again."""

    order: Sequence[tuple[float, str]]
    start: int


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to "where does this pod go".

    placement None: nowhere. rejections: every candidate that is known not to fit; when a node was chosen, those that
    were not tried are neither in it nor in fitting. fitting: (node, score), best first; all that fit with fit_all, else
    the chosen one. question: what was asked, for the other placements and for explanations.
    """

    placement: Placement | None
    rejections: Rejections
    fitting: tuple[tuple[str, float], ...]
    question: Question
    rest: tuple[tuple[float, str], ...] = ()
    untried: _Untried | None = None

    @property
    def alternatives(self) -> Iterator[Placement]:
        """Further placements, next best first, each fitted when it is asked for (for a retry after a stale choice)."""
        candidates = frozenset(self.question.candidates)
        untried = self.untried.order[self.untried.start :] if self.untried else ()
        for _, name in sorted((*self.rest, *(item for item in untried if item[1] in candidates))):
            found = self.question.fit(name)
            if isinstance(found, fit.Fitted):
                yield Placement(name, found.shares, found.score)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What is asked of the nodes: the same for every node of one decision. steps: of a pod of several requests."""

    nodes: Mapping[str, nodes.NodeState]
    candidates: tuple[str, ...]
    request: PodRequest
    headroom: quota.Headroom
    defaults: Defaults
    terms: Terms
    first_ask: DeviceRequest | None
    steps: several.Steps | None = None

    def fit(self, name: str) -> fit.Fitted | Rejection:
        """Fit the pod on one node; an unknown node is a rejection."""
        node = self.nodes.get(name)
        if node is None:
            return Rejection(whole=Reason.NODE_UNREGISTERED)
        return _short_refusal(self, node) or fit.fit(node, self.request, self.terms)

    def rejected(self) -> dict[str, Rejection]:
        """Rejections that are known already, by node. All of them follow from the node and what is asked."""
        if not isinstance(self.nodes, states.States):
            return {}
        terms = (self.headroom, self.defaults, tuple((word, own.strategy) for word, own in self.terms.vendors.items()))
        return self.nodes.memo(("rejected", self.request, terms))

    def rejection(self, name: str) -> Rejection:
        """Why a node that the screen dropped does not fit, with exact counts."""
        found = self.fit(name)
        if isinstance(found, fit.Fitted):
            raise AssertionError(f"the screen dropped {name}, which fits")
        return found


def _short_refusal(question: Question, node: nodes.NodeState) -> Rejection | None:
    """Without trying, where that way knows."""
    if question.first_ask is None:
        return None
    if question.steps is not None and binding_headroom(node, question.terms) is None:
        return several.refusal_of(node, question.steps)
    return refusal.refusal_of(node, question.first_ask, question.terms)


def _first_ask(request: PodRequest) -> DeviceRequest | None:
    """The request that is met first, on what the node holds now."""
    asks = (ask for container in request.containers for ask in container.devices if ask.count > 0)
    return next(asks, None)


def place(
    known: Mapping[str, nodes.NodeState],
    candidates: Sequence[str],
    request: PodRequest,
    *,
    headroom: quota.Headroom,
    defaults: Defaults = score.DEFAULTS,
    fit_all: bool = False,
    strategies: Strategies | None = None,
) -> Decision:
    """The best node of `candidates` on which the pod fits.

    Binpack takes the highest node score, spread the lowest, ties go to the first name. fit_all: try every node
    (simulations, reasons), not only until one fits.

    Law: equals a brute force over all candidates, ties included.
    """
    terms = terms_of(request, defaults, headroom, strategies)
    names = dict.fromkeys(candidates)
    steps = several.steps_of(request, terms)
    question = Question(known, tuple(names), request, headroom, defaults, terms, _first_ask(request), steps)
    ranking, gone = _ranked(question, names)
    rejected = question.rejected()
    found, refused, tried = _tried(question, names, ranking.order, rejected, all_=fit_all or terms.scored)
    if terms.scored:
        found.sort(key=lambda one: one[:2])
    placement = Placement(found[0][1], found[0][2].shares, found[0][2].score) if found else None
    dropped = _dropped(names, gone, ranking.hopeless)
    rejected.update(refused)
    rejections = Rejections(question, (*dropped, *refused) if refused else dropped, rejected)
    fitting = tuple((name, answer.score) for _, name, answer in found)
    rest = tuple((order, name) for order, name, _ in found[1:])
    return Decision(placement, rejections, fitting, question, rest, _Untried(ranking.order, tried))


def _dropped(names: Mapping[str, None], unknown: set[str], hopeless: frozenset[str]) -> Iterable[str]:
    """The candidates that need not be tried, in their order."""
    if hopeless.issuperset(names):
        return names
    gone = unknown | (names.keys() & hopeless)
    return [name for name in names if name in gone] if gone else []


_Found = list[tuple[float, str, fit.Fitted]]


def _tried(
    question: Question,
    names: Mapping[str, None],
    order: Sequence[tuple[float, str]],
    rejected: Mapping[str, Rejection],
    *,
    all_: bool,
) -> tuple[_Found, dict[str, Rejection], int]:
    """(those that fit, why others do not, how much of the order was tried): until one fits, or all.

    rejected: of nodes that were found not to fit before. Where vendors score what was chosen, the best node is known
    only when all are fitted.
    """
    sign = 1.0 if question.terms.spreads else -1.0
    found: _Found = []
    refused: dict[str, Rejection] = {}
    for tried, (_, name) in enumerate(order, start=1):
        if name not in names:
            continue
        answer = rejected.get(name) or question.fit(name)
        if isinstance(answer, Rejection):
            refused[name] = answer
            continue
        found.append((sign * answer.score, name, answer))
        if not all_:
            return found, refused, tried
    return found, refused, len(order)


def _ranked(question: Question, names: Mapping[str, None]) -> tuple[states.Ranking, set[str]]:
    """(the nodes that may fit, best first, and those that certainly do not; candidates that do not exist)."""
    known = question.nodes
    asks = question.terms.floors(question.request)
    usual = [word for word, own in question.terms.vendors.items() if own.strategy is DEFAULT]
    sums = together.sums_of(question.request, usual)
    sign = 1.0 if question.terms.spreads else -1.0

    def judge(node: nodes.NodeState) -> float | None:
        hopeless = _lacking(node, asks) or (sums and together.lacks(node, sums))
        return None if hopeless else sign * node.score

    if isinstance(known, states.States):
        return known.ranked((asks, sums, sign), names, judge)
    return states.Ranking().updated(known, names, judge), names.keys() - known.keys()


def _lacking(node: nodes.NodeState, asks: tuple[DeviceRequest, ...]) -> bool:
    lacks = nodes.lacks
    if node.blocked is not None:
        return True
    for ask in asks:  # noqa: SIM110  a generator per node would cost as much as all the rest
        if lacks(node, ask) is not None:
            return True
    return False


def dominant_text(rejections: Mapping[str, Rejection]) -> str:
    """The one word for a whole refusal: the most frequent of the nodes' dominant reasons, ties by name; "" for none.

    Constant while the state is the same in kind, so that kube-scheduler does not wake the pod by a changed message.
    """
    reasons = dominant_reasons(rejections)
    return reasons[0][0].value if reasons else ""


def summary(rejections: Mapping[str, Rejection]) -> str:
    """`0/3 nodes: 2 CardInsufficientMemory, 1 CardTypeMismatch`: each node counts once, under its dominant reason."""
    words = ", ".join(f"{count} {reason.value}" for reason, count in dominant_reasons(rejections))
    return f"0/{len(rejections)} nodes: {words}" if words else "0/0 nodes"


def dominant_reasons(rejections: Mapping[str, Rejection]) -> tuple[tuple[Reason, int], ...]:
    """How many nodes each dominant reason refuses, most frequent first, ties by name."""
    return rejections.dominant if isinstance(rejections, Rejections) else _dominant_reasons(rejections.values())


def _dominant_reasons(rejections: Iterable[Rejection]) -> tuple[tuple[Reason, int], ...]:
    found = list(rejections)
    by_id = dict(zip(map(id, found), found, strict=True))
    counts: Counter[Reason] = Counter()
    for key, times in Counter(map(id, found)).items():  # few objects stand for many nodes
        rejection = by_id[key]
        counts[rejection.whole or _dominant(rejection)] += times
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0].value)))


def _dominant(rejection: Rejection) -> Reason:
    return next(iter(rejection.counts)) if len(rejection.counts) == 1 else rejection.dominant()
