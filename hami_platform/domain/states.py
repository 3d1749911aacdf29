"""All nodes of one View as placement sees them, with what was worked out about each of them for earlier decisions.

What follows from one node alone stays true as long as that node stays the same; from one View to the next few do. So
a decision over thousands of nodes only looks again at those that changed. Knows nothing of what is worked out.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from hami_platform.domain.nodes import NodeState

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


class Ranking:
    """Nodes in the order in which they are to be tried: (order, name), least first, and those that need not be tried.

    To be read only. `updated` gives the next one, at the cost of what changed and of copying references.
    """

    __slots__ = ("hopeless", "judged", "order")

    def __init__(self) -> None:
        self.judged: dict[str, float | None] = {}
        self.order: list[tuple[float, str]] = []
        self.hopeless: set[str] = set()

    def updated(self, known: Mapping[str, NodeState], names: Iterable[str], judge: Judge) -> Ranking:
        """The ranking with these nodes judged as they are now; those that are not known are left out."""
        found = Ranking()
        found.judged, found.order, found.hopeless = dict(self.judged), list(self.order), set(self.hopeless)
        fresh = []
        for name in names:
            found._forget(name)
            node = known.get(name)
            if node is not None:
                found.judged[name] = value = judge(node)
                if value is None:
                    found.hopeless.add(name)
                else:
                    fresh.append((value, name))
        found._insert(fresh)
        return found

    def _forget(self, name: str) -> None:
        value = self.judged.pop(name, None)
        if value is None:
            self.hopeless.discard(name)
        else:
            del self.order[bisect.bisect_left(self.order, (value, name))]

    def _insert(self, fresh: list[tuple[float, str]]) -> None:
        if len(fresh) > FEW:
            self.order += fresh
            self.order.sort()
        else:
            for item in fresh:
                bisect.insort(self.order, item)


class States(dict[str, NodeState]):
    """Nodes by name. To be read only: `replaced` gives the next ones."""

    __slots__ = ("_memos", "_rankings")

    def __init__(self, states: Mapping[str, NodeState] | None = None) -> None:
        super().__init__(states or {})
        self._memos: dict[Hashable, _Memo] = {}
        self._rankings: dict[Hashable, _Ranked] = {}

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
        return found

    def ranked(self, key: Hashable, names: Mapping[str, object], judge: Judge) -> tuple[Ranking, set[str]]:
        """(a ranking in which these nodes are, those of them that do not exist). Others may be in the ranking, too.

        What `judge` says must follow from the key and the node alone.
        """
        kept = self._rankings.get(key, _UNRANKED)
        missing = names.keys() - kept.ranking.judged.keys()
        fresh = missing & self.keys() if missing else missing
        unknown = missing - fresh
        if not fresh and not kept.stale and key in self._rankings:
            return kept.ranking, unknown
        ranking = kept.ranking.updated(self, fresh | kept.stale, judge)
        others = [item for item in self._rankings.items() if item[0] != key]
        # A new dictionary: other threads may be reading the old one.
        self._rankings = dict((*others[-(MEMOS_KEPT - 1) :], (key, _Ranked(ranking))))
        return ranking, unknown | (names.keys() & kept.stale) - self.keys()

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
