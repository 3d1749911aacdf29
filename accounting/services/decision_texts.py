"""A decision as it is kept for people: one line, and the numbers behind it. Equal decisions have equal texts."""

from __future__ import annotations

from typing import Any, Final

from hami_platform.domain import place

NODES_KEPT: Final = 200  # of a refusal over thousands of nodes; the summary counts them all
SUMMARY_MAX: Final = 1000


def summary(decision: place.Decision) -> str:
    """The node, or how many nodes refuse for which reason."""
    if decision.placement is not None:
        return f"node {decision.placement.node}"[:SUMMARY_MAX]
    return place.summary(decision.rejections)[:SUMMARY_MAX]


def detail(decision: place.Decision | None) -> dict[str, Any]:
    """HAMi's own text for each refused node; on success also the devices that were chosen."""
    if decision is None:
        return {}
    names = sorted(decision.rejections)
    texts = {name: decision.rejections[name].text() for name in names[:NODES_KEPT]}
    found: dict[str, Any] = {"nodes": texts, "nodes_left_out": max(0, len(names) - NODES_KEPT)}
    if decision.placement is not None:
        shares = decision.placement.shares
        found["devices"] = [[one.container, one.uuid, one.memory_mib, one.core_percent] for one in shares]
    return found
