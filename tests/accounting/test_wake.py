"""Who is woken when something is freed: those that would be placed now, once each, best first, one per freed device."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from accounting import ledger, live_view
from accounting.models import Pod, Refusal
from accounting.services import leases, observe, wake
from tests import builders
from tests.accounting import flow, kube_objects

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]


@pytest.fixture
def freed() -> wake.Freed:
    """Follows from here on: a process that has run for a while."""
    flow.cluster()
    follower = wake.Freed()
    follower.follow(live_view.live().refresh())
    return follower


def refused(name: str, *, priority: int = 0, **amounts: int) -> dict[str, Any]:
    """A pod that was admitted, seen, and refused at filter just now."""
    pod = kube_objects.pod(name, **amounts)
    pod["spec"]["priority"] = priority
    flow.admit(pod)
    flow.show(pod)
    flow.refusal(pod)
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


def test_the_higher_priority_is_woken_first(freed: wake.Freed) -> None:
    flow.run(kube_objects.pod("holder", mem=24576))
    refused("older", mem=24576)
    refused("urgent", priority=10, mem=24576)
    observe.pods_gone(["uid-holder"])
    assert woken(freed) == ["urgent"]


def test_a_smaller_pod_behind_one_that_does_not_fit_yet_is_woken(freed: wake.Freed) -> None:
    flow.run(kube_objects.pod("big", mem=16000))
    flow.run(kube_objects.pod("small", mem=8000))
    refused("first", mem=20000)
    refused("second", mem=8000)
    observe.pods_gone(["uid-small"])
    assert woken(freed) == ["second"]


def test_a_suspended_pod_is_woken_when_it_fits_and_gets_its_claim_at_filter(freed: wake.Freed) -> None:
    pod = refused("hopeless", mem=30000)
    long_ago = ledger.database_time() - timedelta(seconds=601)
    Refusal.objects.update(never_fits=True, never_fits_since=long_ago)
    leases.leases_tick()
    assert (flow.state(pod), woken(freed)) == ("waiting", [])
    flow.observe_nodes(kube_objects.node("big", builders.device("GPU-big", memory_mib=40000)))
    assert woken(freed) == ["hopeless"]
    assert flow.filter_(pod).node == "big"
    assert flow.charged_mib() == 30000


def test_a_suspended_pod_over_its_quota_sleeps_on(freed: wake.Freed) -> None:
    refused("hopeless", mem=30000)
    Refusal.objects.update(never_fits=True, never_fits_since=ledger.database_time() - timedelta(seconds=601))
    leases.leases_tick()
    flow.limit(memory_mib=20000)
    flow.observe_nodes(kube_objects.node("big", builders.device("GPU-big", memory_mib=40000)))
    assert woken(freed) == []


def test_nobody_is_woken_before_the_ledger_was_compared(freed: wake.Freed) -> None:
    flow.run(kube_objects.pod("holder", mem=24576))
    refused("a", mem=24576)
    observe.pods_gone(["uid-holder"])
    with ledger.transaction(cause="restored") as entry:
        ledger.incarnation_draw(entry)
    assert woken(freed) == []
    with ledger.transaction(cause="compared") as entry:
        ledger.compared_set(entry)
    assert woken(freed) == ["a"]


def aged(pod: dict[str, Any], seconds: float) -> None:
    """The pod was admitted that long ago."""
    since = ledger.database_time() - timedelta(seconds=seconds)
    with ledger.transaction(cause="aged") as entry:
        row = Pod.objects.get(uid=pod["metadata"]["uid"])
        row.created_at = since
        row.save(update_fields=["created_at"])
        entry.record("pod", row.pk)


def test_a_pod_that_stands_in_kube_schedulers_queue_is_left_there(freed: wake.Freed) -> None:
    flow.run(kube_objects.pod("holder", mem=24576))
    pod = kube_objects.pod("queued", mem=24576)
    flow.admit(pod)
    flow.show(pod)
    aged(pod, wake.UNHEARD_S / 2)
    observe.pods_gone(["uid-holder"])
    assert woken(freed) == [], "it was never refused: it will be asked about"


def test_a_pod_whose_refusal_was_lost_is_woken_after_a_minute(freed: wake.Freed) -> None:
    flow.run(kube_objects.pod("holder", mem=24576))
    pod = kube_objects.pod("forgotten", mem=24576)
    flow.admit(pod)
    flow.show(pod)
    aged(pod, wake.UNHEARD_S + 1)
    observe.pods_gone(["uid-holder"])
    assert woken(freed) == ["forgotten"]


def test_a_woken_pod_that_was_not_asked_about_is_not_woken_again_for_a_minute(freed: wake.Freed) -> None:
    flow.run(kube_objects.pod("holder", mem=12000))
    flow.run(kube_objects.pod("another", mem=12000))
    refused("a", mem=12000)
    observe.pods_gone(["uid-holder"])
    assert woken(freed) == ["a"]
    Refusal.objects.update(woken_at=ledger.database_time() - timedelta(seconds=wake.ANSWER_S + 1))
    observe.pods_gone(["uid-another"])
    assert woken(freed) == [], "kube-scheduler is behind; another patch would not hasten it"
    Refusal.objects.update(woken_at=ledger.database_time() - timedelta(seconds=wake.UNHEARD_S + 1))
    assert woken(freed) == ["a"]


def test_after_a_restore_the_same_revision_is_another_text(freed: wake.Freed) -> None:
    flow.run(kube_objects.pod("holder", mem=24576))
    refused("a", mem=24576)
    observe.pods_gone(["uid-holder"])
    (before,) = wake.wake_plan(freed)
    assert before.retry_at.startswith(f"{before.revision}-")
    assert before.retry_at != replace(before, history="another").retry_at


def test_a_pod_that_may_run_on_few_nodes_is_woken_by_what_is_freed_there(freed: wake.Freed) -> None:
    flow.observe_nodes(kube_objects.node("n2"))
    flow.run(kube_objects.pod("holder", mem=24576), "n1")
    flow.run(kube_objects.pod("other", mem=12000), "n2")
    pod = kube_objects.pod("selective", mem=24576)
    flow.admit(pod)
    flow.show(pod)
    flow.refusal(pod, "n1")
    observe.pods_gone(["uid-other"])
    assert woken(freed) == [], "n2 is not for it, however free it is"
    observe.pods_gone(["uid-holder"])
    assert woken(freed) == ["selective"]
