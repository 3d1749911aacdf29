"""Who is woken when something is freed: those that would be placed now, once each, best first, one per freed device."""

from __future__ import annotations

import pytest

from accounting import ledger, live_view
from accounting.models import Refusal
from accounting.services import observe, wake
from tests.accounting import flow, kube_objects

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]


@pytest.fixture
def freed() -> wake.Freed:
    """Follows from here on: a process that has run for a while."""
    flow.cluster()
    follower = wake.Freed()
    follower.follow(live_view.live().refresh())
    return follower


def refused(name: str, **amounts: int) -> dict[str, object]:
    """A pod that was admitted, seen, and refused at filter just now."""
    pod = kube_objects.pod(name, **amounts)
    flow.admit(pod)
    flow.show(pod)
    answer = flow.filter_(pod)
    assert answer.node == ""
    now = ledger.database_time()
    Refusal.objects.create(
        cluster_id=ledger.cluster_id(), pod_uid=f"uid-{name}", at=now, since=now, revision=answer.revision
    )
    return pod


def woken(freed: wake.Freed) -> list[str]:
    return [one.name for one in wake.wake_plan(freed)]


def test_one_freed_device_wakes_one_pod_the_oldest_first(freed: wake.Freed) -> None:
    flow.run(kube_objects.pod("holder", mem=24576))
    refused("a", mem=24576)
    refused("b", mem=24576)
    assert woken(freed) == []
    observe.pods_gone(["uid-holder"])
    assert woken(freed) == ["a"]
    assert woken(freed) == [], "not again for the same freeing"


def test_nobody_is_woken_by_what_frees_nothing(freed: wake.Freed) -> None:
    flow.run(kube_objects.pod("holder", mem=24576))
    refused("a", mem=24576)
    flow.admit(kube_objects.pod("other", namespace="cv", mem=100))
    assert woken(freed) == []


def test_a_raised_quota_wakes_gated_pods_with_their_claim(freed: wake.Freed) -> None:
    flow.limit(memory_mib=4000, mode="wait")
    assert flow.admit(kube_objects.pod("first", mem=4000)).claim_id
    pod = kube_objects.pod("second", mem=4000, gated=True)
    answer = flow.admit(pod)
    assert (answer.granted, answer.gated) == (True, True)
    flow.show(pod)
    assert (flow.state(pod), woken(freed)) == ("waiting", [])
    flow.limit(memory_mib=8000, mode="wait")
    plan = wake.wake_plan(freed)
    assert [(one.name, one.ungate) for one in plan] == [("second", True)]
    assert flow.state(pod) == "claimed"
    flow.view_is_true()


def test_two_processes_do_not_wake_the_same_pod_twice(freed: wake.Freed) -> None:
    other = wake.Freed()
    other.follow(live_view.live().refresh())
    flow.run(kube_objects.pod("holder", mem=24576))
    refused("a", mem=24576)
    observe.pods_gone(["uid-holder"])
    assert woken(freed) + woken(other) == ["a"]
