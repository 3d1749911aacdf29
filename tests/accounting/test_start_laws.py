"""A start is equal to a life: what a new ledger takes over at once, by bulk statements, it would have written one by
one as it came; for any nodes and pods that an API server may show, whatever the size of its transactions."""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from accounting.models import Device, Finding, LateUsage, Node, NodeLiveness, Pod, Registration, Share, UsageInterval
from accounting.services import mass_import, nodes, observe, pace, reconcile, seen
from accounting.services.node_seen import from_object as node_from
from tests.accounting import flow
from tests.accounting.test_reconcile_laws import a_database_of_its_own, node_lists, pod_lists

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]
Object = dict[str, Any]

MODELS: dict[Any, tuple[str, ...]] = {
    Node: ("name",),
    NodeLiveness: ("node__name",),
    Device: ("node__name", "vendor", "uuid"),
    Registration: ("node", "vendor", "uuid", "ended_at"),
    Pod: ("uid",),
    Share: ("pod__uid", "container_index", "uuid"),
    UsageInterval: ("pod_uid", "vendor", "uuid"),
    Finding: ("kind", "subject"),
}
OURS = ("id", "cluster_id", "node_id", "pod_id", "state_at", "first_seen_at", "found_at", "last_seen_at", "started_at")
"""Keys, and the times of the transactions."""


def rows() -> list[Any]:
    """All that was written, by what it is about."""
    found: list[Any] = []
    for model, order in MODELS.items():
        # What was offered for a moment, before its uuid came on another node, too, is not offered by either at a start.
        known = model.objects.filter(ended_at=None) if model is Registration else model.objects
        by_key = known.order_by(*order)
        for key, row in zip(by_key.values_list(*order), by_key.values(), strict=True):
            found.append((model.__name__, key, {name: value for name, value in row.items() if name not in OURS}))
    return [*found, LateUsage.objects.exists()]


def start(node_list: list[Object], pod_list: list[Object], *, at_once: int) -> list[Any]:
    """What is in a new ledger after it saw these, so many at a time."""
    with a_database_of_its_own(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(pace.Pace, "size", lambda *_, **__: at_once)
        patch.setattr(mass_import, "MANY", 1 if at_once > 1 else 1000)
        nodes.nodes_observe([node_from(one, flow.CONFIG) for one in node_list], config=flow.CONFIG)
        observe.pods_observe([seen.from_object(one, flow.CONFIG) for one in pod_list], config=flow.CONFIG)
        reconcile.compared()
        flow.view_is_true()
        return rows()


@hypothesis.given(node_lists(), pod_lists(), st.sampled_from([2, 100]))
@hypothesis.settings(max_examples=15, suppress_health_check=list(hypothesis.HealthCheck))
def test_taken_over_at_once_or_one_by_one_the_ledger_is_the_same(
    node_list: list[Object], pod_list: list[Object], at_once: int
) -> None:
    assert start(node_list, pod_list, at_once=at_once) == start(node_list, pod_list, at_once=1)
