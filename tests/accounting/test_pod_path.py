"""A pod from admission to its end: what it holds at each step, and what is left after it (nothing)."""

from __future__ import annotations

import pytest

from accounting.models import Journal, NodeLock, Pod, Share
from accounting.services import bindings, observe
from hami_platform.domain.wire import pod_devices
from tests import builders
from tests.accounting import flow, kube_objects

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]


def test_a_pod_holds_its_claim_then_its_device_then_nothing() -> None:
    flow.cluster()
    pod = kube_objects.pod(mem=8000)
    flow.admit(pod)
    assert (flow.charged_mib(), flow.used_mib()) == (8000, 0)
    assert flow.filter_(pod).node == "n1"
    assert (flow.charged_mib(), flow.used_mib()) == (8000, 8000)
    assert isinstance(flow.bind(pod), bindings.BindingPlan)
    bindings.binding_bound(uid="uid-p1", node="n1")
    flow.show(kube_objects.pod(mem=8000, node="n1", phase="Running", statuses={"main": kube_objects.running()}))
    assert (flow.state(pod), flow.used_mib()) == ("running", 8000)
    observe.pods_gone(["uid-p1"])
    assert (flow.state(pod), flow.charged_mib(), flow.used_mib()) == (None, 0, 0)
    flow.view_is_true()


def test_a_bare_gpu_takes_the_whole_device() -> None:
    flow.cluster()
    pod = kube_objects.pod(gpu=1, cores=100)
    flow.run(pod)
    assert flow.used_mib() == 24576
    other = kube_objects.pod("p2", mem=1)
    flow.admit(other)
    assert flow.filter_(other).node == ""


def test_the_binding_carries_what_the_ledger_holds() -> None:
    flow.cluster()
    pod = kube_objects.pod(mem=8000, cores=30)
    flow.admit(pod)
    flow.filter_(pod)
    plan = flow.bind(pod)
    assert isinstance(plan, bindings.BindingPlan)
    rows = pod_devices.decode(plan.annotations["hami.io/vgpu-devices-allocated"])
    share = Share.objects.get()
    assert rows == (((share.uuid, share.vendor, share.memory_mib, share.core_percent),),)
    assert plan.annotations["hami.io/vgpu-node"] == "n1"


def test_h25_three_pods_of_4000_in_10000_two_are_admitted() -> None:
    flow.cluster()
    flow.limit(memory_mib=10000)
    answers = [flow.admit(kube_objects.pod(f"p{i}", mem=4000)) for i in range(3)]
    assert [one.granted for one in answers] == [True, True, False]
    assert "needs 4000, free 2000 of 10000" in answers[2].message
    assert flow.charged_mib() == 8000


def test_h15_an_init_container_s_peak_over_the_quota_is_denied() -> None:
    flow.cluster(kube_objects.node("n1", builders.device("GPU-n1", memory_mib=40960)))
    flow.limit(memory_mib=24576)
    inits = [kube_objects.container("load", mem=30720)]
    answer = flow.admit(kube_objects.pod("p1", kube_objects.container(mem=4096), inits=inits))
    assert not answer.granted
    assert "needs 30720, free 24576 of 24576" in answer.message


def test_h26_a_conflict_at_bind_leaves_the_claim_once() -> None:
    flow.cluster()
    pod = kube_objects.pod(mem=3000)
    flow.admit(pod)
    flow.filter_(pod)
    plan = flow.bind(pod)
    assert isinstance(plan, bindings.BindingPlan)
    bindings.binding_returned(uid=plan.uid, attempt=plan.attempt)
    assert (flow.used_mib(), flow.charged_mib(), flow.state(pod)) == (0, 3000, "claimed")
    assert flow.filter_(pod).node == "n1"
    assert flow.charged_mib() == 3000
    assert not NodeLock.objects.exists()


def test_h27_five_filters_of_one_pod_hold_once() -> None:
    flow.cluster(kube_objects.node("n1"), kube_objects.node("n2"))
    pod = kube_objects.pod(mem=3000)
    flow.admit(pod)
    for _ in range(5):
        assert flow.filter_(pod).node
    assert flow.used_mib("GPU-n1") + flow.used_mib("GPU-n2") == 3000
    assert flow.charged_mib() == 3000


def test_h28_pod_not_found_at_bind_releases_at_once() -> None:
    flow.cluster()
    pod = kube_objects.pod(mem=8000)
    flow.admit(pod)
    flow.filter_(pod)
    flow.bind(pod)
    bindings.binding_ended(uid="uid-p1")
    assert (flow.used_mib(), flow.charged_mib()) == (0, 0)


def test_h29_a_deletion_twice_is_one_release() -> None:
    flow.cluster()
    pod = kube_objects.pod(mem=3000)
    flow.run(pod)
    assert observe.pods_gone(["uid-p1"]) == 1
    assert observe.pods_gone(["uid-p1"]) == 0
    assert observe.pods_gone(["uid-of-nobody"]) == 0
    assert flow.used_mib() == 0


def test_h30_succeeded_then_deleted_is_one_release() -> None:
    flow.cluster()
    pod = kube_objects.pod(mem=3000)
    flow.run(pod)
    flow.show(kube_objects.pod(mem=3000, node="n1", phase="Succeeded"))
    assert flow.used_mib() == 0
    released = Journal.objects.count()
    assert observe.pods_gone(["uid-p1"]) == 0
    assert Journal.objects.count() == released


def test_h31_a_deleting_pod_counts_until_it_is_gone() -> None:
    flow.cluster()
    flow.run(kube_objects.pod(mem=8000))
    flow.show(
        kube_objects.pod(mem=8000, node="n1", phase="Running", deleting=True, statuses={"main": kube_objects.running()})
    )
    pod = Pod.objects.get()
    assert (pod.state, flow.used_mib()) == ("releasing", 8000)
    flow.view_is_true()
    observe.pods_gone(["uid-p1"])
    assert flow.used_mib() == 0


def test_an_unbound_pod_that_is_being_deleted_holds_nothing() -> None:
    flow.cluster()
    pod = kube_objects.pod(mem=8000)
    flow.admit(pod)
    flow.filter_(pod)
    flow.show(kube_objects.pod(mem=8000, deleting=True))
    assert (flow.used_mib(), flow.charged_mib()) == (0, 0)


def test_an_event_older_than_the_stored_one_is_ignored() -> None:
    flow.cluster()
    flow.run(kube_objects.pod(mem=3000))
    new = kube_objects.pod(
        mem=3000, node="n1", phase="Running", statuses={"main": kube_objects.running()}, version=9000
    )
    flow.show(new | {"status": new["status"] | {"containerStatuses": []}})
    flow.show(kube_objects.pod(mem=3000, node="n1", phase="Running", deleting=True, version=8000))
    assert Pod.objects.get().state == "running"


@pytest.mark.parametrize(
    "then,held",
    [
        ({"statuses": {"load": kube_objects.running()}}, 20480),
        ({"statuses": {"load": kube_objects.terminated(0)}}, 10240),
        ({"statuses": {"load": kube_objects.terminated(1)}}, 20480),
        ({"phase": "Failed", "statuses": {"load": kube_objects.terminated(1)}}, 0),
    ],
)
def test_h16_h36_an_init_container_is_charged_until_it_has_ended_well(then: dict[str, object], held: int) -> None:
    flow.cluster()
    init = kube_objects.container("load", mem=20480)
    pod = kube_objects.pod("p1", kube_objects.container(mem=10240), inits=[init])
    flow.run(pod)
    assert flow.used_mib() == 20480
    flow.show(kube_objects.pod("p1", kube_objects.container(mem=10240), inits=[init], node="n1", **then))  # type: ignore[arg-type]
    assert flow.used_mib() == held
    flow.view_is_true()


def test_a_rebuilt_sandbox_charges_the_init_again() -> None:
    flow.cluster()
    init = kube_objects.container("load", mem=20480)
    flow.run(kube_objects.pod("p1", kube_objects.container(mem=10240), inits=[init]))
    seen = []
    for status in (kube_objects.running(), kube_objects.terminated(0), kube_objects.running()):
        flow.show(
            kube_objects.pod(
                "p1", kube_objects.container(mem=10240), inits=[init], node="n1", statuses={"load": status}
            )
        )
        seen.append(flow.used_mib())
    assert seen == [20480, 10240, 20480]


def test_a_pod_that_came_past_admission_is_claimed_at_filter() -> None:
    flow.cluster()
    flow.limit(memory_mib=5000)
    assert flow.filter_(kube_objects.pod("a", mem=4000)).node == "n1"
    refused = flow.filter_(kube_objects.pod("b", mem=4000))
    assert (refused.node, refused.reason) == ("", "ResourceQuotaNotFit")
    assert flow.charged_mib() == 4000


def test_a_dry_run_claims_nothing() -> None:
    flow.cluster()
    assert flow.admit(kube_objects.pod(mem=4000), dry_run=True).granted
    assert not Pod.objects.exists()


def test_bind_without_a_reservation_is_refused() -> None:
    flow.cluster()
    assert isinstance(flow.bind(kube_objects.pod(mem=4000)), bindings.BindRefused)


def test_bind_to_another_node_than_reserved_is_refused() -> None:
    flow.cluster(kube_objects.node("n1"), kube_objects.node("n2"))
    pod = kube_objects.pod(mem=4000)
    flow.admit(pod)
    flow.filter_(pod, "n1")
    refused = flow.bind(pod, "n2")
    assert isinstance(refused, bindings.BindRefused)
    assert "reserved on node n1, not n2" in refused.message


def test_pods_without_claims_that_are_seen_at_once_do_not_overshoot_their_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(observe, "HOLD_S", 100.0)  # all in one transaction, if it were up to time
    flow.cluster()
    flow.limit(memory_mib=4000)
    first, second = kube_objects.pod("first", mem=4000), kube_objects.pod("second", mem=4000)
    flow.show(first, second)
    assert (flow.state(first), flow.state(second)) == ("claimed", "waiting")
    flow.view_is_true()
