"""Nodes at which pods stand in line to be bound. Must not know: why they were placed there.

A node takes one pod at a time from bind to allocation. Packing sends every pod of a burst to the same node, where each
waits for all before it, while others stand idle. So a node with a line is passed over while others would do.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from hami_platform.domain.rows import HOLDS_PEAK
from hami_platform.domain.view import View

LINE: Final = 4
"""Pods between reservation and allocation, the one that has the lock included, from which on a node has a line."""


def crowded(view: View) -> frozenset[str]:
    """Nodes with a line. One whose lock nobody holds has none."""
    return frozenset(node for node in view.locks if _has_line(view, node))


def uncrowded(view: View, candidates: Sequence[str]) -> Sequence[str]:
    """The candidates without those that have a line; the same object where none has."""
    passed_over = crowded(view)
    if not passed_over or passed_over.isdisjoint(candidates):
        return candidates
    return [name for name in candidates if name not in passed_over]


def _has_line(view: View, node: str) -> bool:
    holder = view.locks[node].pod_uid  # bound already, perhaps, and not yet allocated
    rows = (view.pods[one] for one in view.pods_by_node.get(node, ()))
    behind = (row for row in rows if row.state in HOLDS_PEAK and row.uid != holder)
    return len(list(islice(behind, LINE - 1))) == LINE - 1
