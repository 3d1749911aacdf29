"""How many statements the hot paths take. More is a decision: change the figure with the code that needs it.

PostgreSQL takes the lock and the time in one message, and all that a placement writes in another; SQLite takes them
singly.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounting import ledger, live_view
from hami_platform import env
from tests.accounting import flow, kube_objects

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]

CASES = ("refresh", "fold", "claim", "place", "place a claim", "refuse", "wait for quota")
COUNTS = {
    "sqlite": dict(zip(CASES, (1, 2, 6, 8, 7, 1, 1), strict=True)),
    "postgresql": dict(zip(CASES, (1, 2, 3, 3, 2, 1, 1), strict=True)),
}
CONTROL = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")


def statements(action: Callable[[], object]) -> list[str]:
    """What the action sends, transaction control left out."""
    with CaptureQueriesContext(connection) as caught:
        action()
    return [one["sql"] for one in caught.captured_queries if not one["sql"].startswith(CONTROL)]


def check(case: str, action: Callable[[], object], *, fresh: bool = True) -> None:
    if fresh:
        live_view.live().refresh()
    sent = statements(action)
    expected = COUNTS[connection.vendor][case]
    assert len(sent) == expected, f"{case}: {len(sent)} instead of {expected}:\n" + "\n".join(sent)


@pytest.fixture(autouse=True)
def warm() -> None:
    """What costs only once: the cluster's key (not kept inside a test's transaction), the namespace's row."""
    flow.cluster()
    ledger._clusters[env.current().cluster] = ledger.cluster_id()
    flow.run(kube_objects.pod("first", mem=100))


def test_a_refresh_without_news_is_one_statement() -> None:
    check("refresh", lambda: live_view.live().refresh())


def test_a_pod_is_folded_with_its_shares_by_one_statement_more() -> None:
    flow.filter_(kube_objects.pod(mem=100), "n1")
    check("fold", lambda: live_view.live().refresh(), fresh=False)


def test_a_claim() -> None:
    check("claim", lambda: flow.admit(kube_objects.pod(mem=100)))


def test_placing_a_pod_that_came_without_a_claim() -> None:
    check("place", lambda: flow.filter_(kube_objects.pod(mem=100), "n1"))


def test_placing_a_pod_with_its_claim() -> None:
    pod = kube_objects.pod(mem=100)
    flow.admit(pod)
    check("place a claim", lambda: flow.filter_(pod, "n1"))


def test_refusing_a_pod_takes_no_lock() -> None:
    pod = kube_objects.pod(mem=99999)
    assert not flow.filter_(pod, "n1").node
    check("refuse", lambda: flow.filter_(pod, "n1"))
    check("refuse", lambda: flow.filter_(pod, "n1", "n2"))


def test_a_pod_that_waits_for_quota_takes_no_lock() -> None:
    flow.limit(memory_mib=0)
    pod = kube_objects.pod(mem=100)
    assert flow.filter_(pod, "n1").quota
    check("wait for quota", lambda: flow.filter_(pod, "n1"))
    assert flow.filter_(pod, "n1").quota
    flow.limit(memory_mib=1000)
    assert flow.filter_(pod, "n1").node == "n1"


def test_who_looks_again_and_again_beside_others_asks_nothing() -> None:
    live = live_view.live()
    live.refresh()
    flow.admit(kube_objects.pod(mem=100))
    assert statements(lambda: live.within(60)) == []
    before = live.within(60).clock.revision
    assert live.within(-1).clock.revision > before
