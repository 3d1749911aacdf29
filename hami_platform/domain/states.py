"""All nodes of one View as placement sees them, with what was worked out about each of them for earlier decisions.

What follows from one node alone stays true as long as that node stays the same; from one View to the next few do. So
a decision over thousands of nodes only looks again at those that changed. Knows nothing of what is worked out.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from hami_platform.domain.nodes import NodeState
from hami_platform.domain.table import Table

MEMOS_KEPT: Final = 16
"""Kinds of requests that are remembered; each takes some 100 bytes a node."""
STALE_MOST: Final = 1000
"""A memo that this many nodes have left is forgotten."""


class _Memo(NamedTuple):
    """By node name; the stale ones are of nodes as they were before."""

    values: dict[str, Any]
    stale: frozenset[str] = frozenset()


Judge = Callable[[NodeState], float | None]
"""How early a node is to be tried, least first; None for not at all."""

FEW: Final = 32
"""Up to so many nodes are put in their places one by one; more are sorted in."""
HOPELESS: Final = math.inf
STEPS_KEPT: Final = 64
"""So many changes back it is known which nodes changed."""


class Ranking:
    """Nodes in the order in which they are to be tried: (order, name), least first, and those that need not be tried.

    To be read only. `updated` gives the next one, at the cost of what changed: what did not is shared, as many of them
    are kept by whoever writes down what was decided.
    """

    __slots__ = ("hopeless", "judged", "members", "order")

    def __init__(self) -> None:
        self.judged: Mapping[str, float] = {}
        self.members: frozenset[str] = frozenset()
        self.order: list[tuple[float, str]] = []
        self.hopeless: frozenset[str] = frozenset()

    def updated(self, known: Mapping[str, NodeState], names: Iterable[str], judge: Judge) -> Ranking:
        """The ranking with these nodes judged as they are now; those that are not known are left out."""
        verdicts = {name: _verdict(known.get(name), judge) for name in names}
        if not self.members:
            return _first(verdicts)
        before = {name: self.judged.get(name) for name in verdicts}
        news = {name: verdict for name, verdict in verdicts.items() if before[name] != verdict}
        if not news:
            return self
        found = Ranking()
        judged = self.judged if isinstance(self.judged, Table) else Table(self.judged)
        found.judged = judged.replaced(news)
        joined_or_left = any(before[name] is None or verdict is None for name, verdict in news.items())
        found.members = frozenset(found.judged) if joined_or_left else self.members
        found.order = self._reordered(before, news)
        lost = {name for name, verdict in news.items() if verdict == HOPELESS}
        other = self.hopeless & news.keys()
        found.hopeless = (self.hopeless - other) | lost if other or lost else self.hopeless
        return found

    def _reordered(
        self, before: Mapping[str, float | None], news: Mapping[str, float | None]
    ) -> list[tuple[float, str]]:
        left = [(value, name) for name in news if (value := before[name]) is not None and value != HOPELESS]
        fresh = [(value, name) for name, value in news.items() if value is not None and value != HOPELESS]
        if not left and not fresh:
            return self.order
        order = list(self.order)
        for item in left:
            del order[bisect.bisect_left(order, item)]
        if len(fresh) > FEW:
            order += fresh
            order.sort()
        else:
            for item in fresh:
                bisect.insort(order, item)
        return order


def _first(verdicts: Mapping[str, float | None]) -> Ranking:
    """The ranking of nodes that are judged for the first time; often the only time: nothing is made ready for more."""
    found = Ranking()
    found.judged = judged = {name: verdict for name, verdict in verdicts.items() if verdict is not None}
    found.members = frozenset(judged)
    found.order = sorted((verdict, name) for name, verdict in judged.items() if verdict != HOPELESS)
    found.hopeless = frozenset(name for name, verdict in judged.items() if verdict == HOPELESS)
    return found


def _verdict(node: NodeState | None, judge: Judge) -> float | None:
    """HOPELESS for a node that need not be tried, None where there is none."""
    if node is None:
        return None
    value = judge(node)
    return HOPELESS if value is None else value


class _Step(NamedTuple):
    """The names that changed when some States were made, of which it is the mark."""

    names: frozenset[str] = frozenset()


class States(dict[str, NodeState]):
    """Nodes by name. To be read only: `replaced` gives the next ones."""

    __slots__ = ("_memos", "_rankings", "_steps")

    def __init__(self, states: Mapping[str, NodeState] | None = None) -> None:
        super().__init__(states or {})
        self._memos: dict[Hashable, _Memo] = {}
        self._rankings: dict[Hashable, _Ranked] = {}
        self._steps: tuple[_Step, ...] = (_Step(frozenset()),)

    def replaced(self, changed: Mapping[str, NodeState | None]) -> States:
        """These nodes with others in place; None takes a node away."""
        found = States(self)
        for name, state in changed.items():
            if state is None:
                found.pop(name, None)
            else:
                found[name] = state
        names = frozenset(changed)
        memos = {key: _Memo(memo.values, memo.stale | names) for key, memo in self._memos.items()}
        found._memos = {key: memo for key, memo in memos.items() if len(memo.stale) <= STALE_MOST}
        ranked = {key: _Ranked(one.ranking, one.stale | names) for key, one in self._rankings.items()}
        found._rankings = {key: one for key, one in ranked.items() if len(one.stale) <= STALE_MOST}
        found._steps = (*self._steps[1 - STEPS_KEPT :], _Step(names))
        return found

    def changed_since(self, before: States) -> frozenset[str] | None:
        """Nodes of which one may not be as it was there; all others are. None where that is not known."""
        mark = before._steps[-1]
        names: set[str] = set()
        for step in reversed(self._steps):
            if step is mark:
                return frozenset(names)
            names |= step.names
        return None

    def ranked(self, key: Hashable, names: Mapping[str, object], judge: Judge) -> tuple[Ranking, set[str]]:
        """(a ranking in which these nodes are, those of them that do not exist). Others may be in the ranking, too.

        What `judge` says must follow from the key and the node alone.
        """
        kept = self._rankings.get(key, _UNRANKED)
        missing = set() if kept.ranking.members.issuperset(names) else names.keys() - kept.ranking.members
        fresh = missing & self.keys() if missing else missing
        unknown = missing - fresh
        if not fresh and not kept.stale and key in self._rankings:
            return kept.ranking, unknown
        ranking = kept.ranking.updated(self, fresh | kept.stale, judge)
        others = [item for item in self._rankings.items() if item[0] != key]
        # A new dictionary: other threads may be reading the old one.
        self._rankings = dict((*others[-(MEMOS_KEPT - 1) :], (key, _Ranked(ranking))))
        return ranking, unknown | {name for name in kept.stale if name in names and name not in self}

    def memo(self, key: Hashable) -> dict[str, Any]:
        """What is known under this key about nodes as they are now, by name; the caller adds what it works out.

        A value must follow from the key and the node alone. Views of one line share a memo while its nodes are the
        same; whoever still decides on an older one may add to it, too, since nodes that differ are stale here.
        """
        memo = self._memos.get(key, _Memo({}))
        values = memo.values
        if memo.stale:
            values = dict(values)
            for name in memo.stale:
                values.pop(name, None)
        others = [item for item in self._memos.items() if item[0] != key]
        # A new dictionary: other threads may be reading the old one.
        self._memos = dict((*others[-(MEMOS_KEPT - 1) :], (key, _Memo(values))))
        return values


class _Ranked(NamedTuple):
    """The stale ones are ranked as they were before."""

    ranking: Ranking
    stale: frozenset[str] = frozenset()


_UNRANKED: Final = _Ranked(Ranking())
