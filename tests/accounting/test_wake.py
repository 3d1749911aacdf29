"""Who is woken when something is freed: those that would be placed now, once each, best first, one per freed device."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from accounting import ledger, live_view
from accounting.models import Pod, Refusal, Trace
from accounting.services import leases, observe, wake
from hami_platform.domain import queueing
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


def refused(name: str, *, priority: int = 0, **amounts: Any) -> dict[str, Any]:
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
    aged(pod, queueing.QUIET_S / 2)
    observe.pods_gone(["uid-holder"])
    assert woken(freed) == [], "it was never refused: it will be asked about"


def test_a_pod_whose_refusal_was_lost_is_woken_after_a_minute(freed: wake.Freed) -> None:
    flow.run(kube_objects.pod("holder", mem=24576))
    pod = kube_objects.pod("forgotten", mem=24576)
    flow.admit(pod)
    flow.show(pod)
    aged(pod, queueing.QUIET_S + 1)
    observe.pods_gone(["uid-holder"])
    assert woken(freed) == ["forgotten"]


def asked(pod: dict[str, Any], ago_s: float) -> None:
    """kube-scheduler asked about the pod so long ago, and it was placed: what the extender's writer keeps of it."""
    at = ledger.database_time() - timedelta(seconds=ago_s)
    meta = pod["metadata"]
    Trace.objects.create(
        cluster_id=ledger.cluster_id(), pod_uid=meta["uid"], namespace=meta["namespace"], pod_name=meta["name"],
        verdict="placed", first_at=at, last_at=at,
    )  # fmt: skip


def placed(name: str, *, created_s: float, ago_s: float, priority: int = 0) -> dict[str, Any]:
    """A pod that was created and asked about so long ago, and holds nothing that matters."""
    pod = kube_objects.pod(name, mem=1)
    pod["spec"]["priority"] = priority
    flow.run(pod)
    aged(pod, created_s)
    asked(pod, ago_s)
    return pod


def unasked(name: str, *, created_s: float) -> dict[str, Any]:
    """A pod that kube-scheduler has not asked about since it was created so long ago."""
    pod = kube_objects.pod(name, mem=24000)
    flow.admit(pod)
    flow.show(pod)
    aged(pod, created_s)
    return pod


def test_a_pod_in_a_long_queue_is_left_there_as_long_as_the_queue_moves(freed: wake.Freed) -> None:
    placed("older", created_s=200, ago_s=20)
    unasked("queued", created_s=100)
    assert woken(wake.Freed()) == [], "also by a process that has just started"
    Trace.objects.update(first_at=ledger.database_time() - timedelta(seconds=queueing.QUIET_S + 1))
    assert woken(freed) == ["queued"], "nothing was heard of kube-scheduler for a minute"


def test_a_pod_behind_which_others_were_asked_about_is_woken(freed: wake.Freed) -> None:
    placed("older", created_s=200, ago_s=20)
    unasked("forgotten", created_s=100)
    placed("newer and more urgent", created_s=50, ago_s=15, priority=10)
    assert woken(freed) == []
    placed("newer", created_s=50, ago_s=10)
    assert woken(freed) == ["forgotten"]


def test_a_pod_behind_which_one_was_asked_about_that_has_ended_is_woken(freed: wake.Freed) -> None:
    unasked("forgotten", created_s=100)
    newer = placed("newer", created_s=50, ago_s=10)
    observe.pods_gone([newer["metadata"]["uid"]])
    assert woken(freed) == ["forgotten"]


def test_after_a_restart_of_kube_scheduler_which_asks_in_any_order_nobody_counts_as_passed_over(
    freed: wake.Freed,
) -> None:
    unasked("queued", created_s=100)
    placed("newer", created_s=50, ago_s=20)
    placed("older", created_s=300, ago_s=10)
    assert woken(freed) == []


def test_nobody_is_left_in_a_queue_for_more_than_ten_minutes(freed: wake.Freed) -> None:
    placed("older", created_s=2000, ago_s=10)
    unasked("queued", created_s=queueing.LONGEST_S - 30)
    assert woken(freed) == []
    unasked("left", created_s=queueing.LONGEST_S + 1)
    assert woken(freed) == ["left"]


def test_refused_pods_that_are_asked_about_again_show_who_was_passed_over(freed: wake.Freed) -> None:
    again = refused("again", mem=99999)
    aged(again, 500)
    unasked("forgotten", created_s=100)
    now = ledger.database_time()
    Refusal.objects.update(at=now, since=now - timedelta(seconds=120))
    assert woken(freed) == [], "it was in the queue before the other one came"
    Refusal.objects.update(since=now - timedelta(seconds=90))
    assert woken(freed) == ["forgotten"], "it came back to the queue behind the other one"


def test_a_woken_pod_that_was_not_asked_about_is_not_woken_again_for_a_minute(freed: wake.Freed) -> None:
    flow.run(kube_objects.pod("holder", mem=12000))
    flow.run(kube_objects.pod("another", mem=12000))
    refused("a", mem=12000)
    observe.pods_gone(["uid-holder"])
    assert woken(freed) == ["a"]
    Refusal.objects.update(woken_at=ledger.database_time() - timedelta(seconds=wake.ANSWER_S + 1))
    observe.pods_gone(["uid-another"])
    assert woken(freed) == [], "kube-scheduler is behind; another patch would not hasten it"
    long_ago = ledger.database_time() - timedelta(seconds=queueing.QUIET_S + 1)
    Refusal.objects.update(at=long_ago, woken_at=long_ago)
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
