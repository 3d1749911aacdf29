"""All nodes of one View as placement sees them, with what was worked out about each of them for earlier decisions.

What follows from one node alone stays true as long as that node stays the same; from one View to the next few do. So
a decision over thousands of nodes only looks again at those that changed. Knows nothing of what is worked out.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
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


class States(dict[str, NodeState]):
    """Nodes by name. To be read only: `replaced` gives the next ones."""

    __slots__ = ("_memos",)

    def __init__(self, states: Mapping[str, NodeState] | None = None) -> None:
        super().__init__(states or {})
        self._memos: dict[Hashable, _Memo] = {}

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
        return found

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
