"""What arrives late or twice: a question about a pod that is gone, a pod that changed between admission and now.

| late | then |
|---|---|
| `/filter` about a pod that has ended | an error; no device is held for it |
| containers that a webhook after ours put in front | the pod's inits still give back what they held |
| a constraint that was changed after admission | the wake judges by it |
| the clock of the process that refused (an hour behind) | ages count by the database's |
| a list of many new pods | one transaction each few milliseconds |
| a create that lost against another of the same name | its pod competes for quota like any other |
"""

from __future__ import annotations

import time
from collections import deque
from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from accounting import live_view
from accounting.models import Refusal
from accounting.services import bindings, leases, observe, seen
from tests.accounting import flow, kube_objects
from tests.scheduler_ext.world import World, container
from tests.scheduler_ext.world import pod as new_pod

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.ledger]


def test_a_filter_about_a_pod_that_has_ended_holds_nothing() -> None:
    flow.cluster()
    pod = kube_objects.pod(mem=1000)
    assert flow.filter_(pod).node == "n1"
    observe.pods_gone([pod["metadata"]["uid"]])
    assert flow.filter_(pod).error == "the pod has ended"
    assert flow.used_mib() == 0
    assert flow.state(pod) is None


def test_an_init_container_that_another_webhook_put_in_front_keeps_no_device_held() -> None:
    flow.cluster()
    pod = kube_objects.pod("p", kube_objects.container(mem=1000), inits=[kube_objects.container("fetch", mem=5000)])
    assert flow.admit(pod).granted
    pod["spec"]["initContainers"].insert(0, {"name": "mesh-init", "image": "i"})
    assert flow.filter_(pod).node == "n1"
    assert flow.used_mib() == 5000
    plan = flow.bind(pod)
    assert isinstance(plan, bindings.BindingPlan)
    pod["spec"]["nodeName"] = "n1"
    pod["metadata"]["annotations"] |= plan.annotations
    pod["metadata"]["resourceVersion"] = "99999"
    over = [{"name": name, **kube_objects.terminated()} for name in ("mesh-init", "fetch")]
    running = [{"name": "main", **kube_objects.running()}]
    pod["status"] = {"phase": "Running", "initContainerStatuses": over, "containerStatuses": running}
    flow.show(pod)
    assert flow.used_mib() == flow.charged_mib() == 1000
    flow.view_is_true()


def test_a_constraint_changed_after_admission_is_the_one_that_counts() -> None:
    flow.cluster()
    pod = kube_objects.pod(mem=1000, version=5)
    assert flow.admit(pod).granted
    flow.show(pod)
    changed = kube_objects.pod(mem=1000, version=7, annotations={"nvidia.com/use-gputype": "H100"})
    assert flow.show(changed) == 1
    flow.show(pod | {"metadata": pod["metadata"] | {"resourceVersion": "6"}})
    row = live_view.live().refresh().pod("uid-p1")
    assert row is not None
    assert row.request.constraints.use_models == ("H100",)
    assert flow.show(changed) == 0
    flow.view_is_true()


def test_of_two_creates_under_one_name_only_one_holds_quota() -> None:
    flow.cluster()
    flow.limit(memory_mib=1000)
    first, second = (kube_objects.pod("p", mem=1000, uid=uid) for uid in ("u1", "u2"))
    assert flow.admit(first).granted
    assert flow.admit(second).granted
    flow.show(first)
    flow.show(second)
    assert (flow.state(first), flow.state(second)) == ("waiting", "claimed")
    assert flow.charged_mib() == 1000
    flow.view_is_true()


def test_a_process_whose_clock_is_behind_suspends_no_claim(world: World) -> None:
    """A pod that can never run keeps its claim for ten minutes by the database's clock, whatever a process's says."""
    made = world.create(new_pod("huge", container(gpu=1, gpumem=90000)))
    with time_machine.travel(timezone.now() - timedelta(hours=1)):
        world.filter(made)
        world.flush()
    assert Refusal.objects.get().never_fits
    leases.leases_tick()
    assert flow.state(made) == "claimed"


def test_a_list_of_many_pods_leaves_the_clock_to_others_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    flow.cluster()
    before = live_view.live().refresh().clock.revision
    monkeypatch.setattr(observe, "HOLD_S", 0.0)
    monkeypatch.setattr(observe, "SHARE", 0.0)
    pods = [kube_objects.pod(f"p{number}", mem=10) for number in range(20)]
    between: list[int] = []
    found = [seen.from_object(pod, flow.CONFIG) for pod in pods]
    done = observe.pods_observe(found, config=flow.CONFIG, between=lambda: between.append(1))
    assert done == len(between) == 20
    assert live_view.live().refresh().clock.revision == before + 20
    flow.view_is_true()


def test_who_waited_long_for_the_clock_may_do_more_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observe, "HOLD_S", 0.0)
    pods = [seen.from_object(kube_objects.pod(f"p{number}"), flow.CONFIG) for number in range(20)]
    now = time.monotonic()
    assert len(list(observe._turn(deque(pods), [], now + 100))) == 1
    assert len(list(observe._turn(deque(pods), [], now - 100))) == 20
