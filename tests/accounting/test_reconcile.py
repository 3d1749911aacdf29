"""Reconciliation by lists alone, against a real HTTP API server: all comes right with no watcher, and a list frees
nothing that a read by name does not confirm."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from accounting import guard, ledger, live_view
from accounting.models import Finding, Node, NodeLock, Pod
from accounting.services import audit, bindings, lock_repair, reconcile, wake, wake_calls
from hami_platform import env
from hami_platform.kube import errors
from hami_platform.simulator.client import MERGE_PATCH
from tests.accounting import flow, kube_objects, simulated
from tests.accounting.simulated import World

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]
CONFIG = kube_objects.CONFIG


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """One node with one device, fully compared."""
    with simulated.world(tmp_path) as one:
        one.node()
        reconcile.everything_reconcile(one.api, config=CONFIG)
        yield one


def pods(world: World) -> int:
    return reconcile.pods_reconcile(world.api, config=CONFIG)


def clean(world: World) -> bool:
    return audit.differences(world.api, config=CONFIG) == []


def test_a_full_compare_makes_the_ledger_ready(world: World) -> None:
    assert live_view.live().refresh().ready
    assert Node.objects.get().name == "n1"


def test_only_nodes_with_the_labels_asked_for_are_managed_and_one_that_loses_them_stays(world: World) -> None:
    world.node("n2", agent="2.0")
    with env.override(node_label_selector=(("platform.hami.io/agent", "1.0"),)):
        reconcile.nodes_reconcile(world.api, config=CONFIG)
        assert set(live_view.live().refresh().states) == {"n1"}
    with env.override(node_label_selector=(("gpu", "on"),)):
        reconcile.nodes_reconcile(world.api, config=CONFIG)
        assert set(live_view.live().refresh().states) == {"n1"}


def test_a_node_without_devices_is_unregistered(world: World) -> None:
    world.node("n2", annotations={"hami.io/node-nvidia-register": "[{"})
    reconcile.nodes_reconcile(world.api, config=CONFIG)
    answer = flow.filter_(world.pod("p", mem=1000), "n2")
    assert answer.reason == "node unregistered"


def test_a_deleted_pod_is_released_within_one_tick(world: World) -> None:
    world.placed("p", mem=8000)
    pods(world)
    assert flow.used_mib() == 8000
    world.delete("p")
    assert pods(world) == 1
    assert flow.used_mib() == 0
    assert clean(world)


def test_an_init_container_that_ended_shrinks_and_one_that_runs_again_re_inflates(world: World) -> None:
    inits = [kube_objects.container("load", mem=20480)]
    pod = kube_objects.pod("p", kube_objects.container(mem=10240), inits=inits)
    del pod["metadata"]["uid"], pod["metadata"]["resourceVersion"], pod["status"]
    made = world.people.create("/api/v1/namespaces/nlp/pods", pod)
    flow.filter_(made)
    plan = flow.bind(made)
    assert isinstance(plan, bindings.BindingPlan)
    world.bind("p", "n1", plan.annotations)
    held = []
    for state in ({"running": {}}, {"terminated": {"exitCode": 0}}, {"running": {}}):
        world.status("p", phase="Pending", initContainerStatuses=[{"name": "load", "state": state}])
        pods(world)
        held.append(flow.used_mib())
    assert held == [20480, 10240, 20480]
    assert clean(world)


def test_a_binding_whose_process_died_after_success_is_recorded(world: World) -> None:
    world.placed("p", mem=8000)
    assert Pod.objects.get().state == "binding"
    pods(world)
    assert Pod.objects.get().state == "bound"


def test_a_binding_whose_process_died_before_it_goes_back_to_its_claim(world: World) -> None:
    pod = world.pod("p", mem=8000)
    flow.filter_(pod)
    plan = flow.bind(pod)
    with guard.writing():
        Pod.objects.update(state_at=ledger.database_time() - timedelta(seconds=31))
    live_view.forget()
    before = world.look("p")["metadata"]["resourceVersion"]
    pods(world)
    assert Pod.objects.get().state == "claimed"
    assert world.look("p")["metadata"]["resourceVersion"] != before, "a late Binding must fail"
    assert not NodeLock.objects.exists()
    assert isinstance(plan, bindings.BindingPlan)
    bindings.binding_returned(uid=plan.uid, attempt=plan.attempt)
    assert flow.charged_mib() == 8000


class Refusing:
    """The cluster's API, with a policy that refuses every change of one object."""

    def __init__(self, api: Any, path: str) -> None:
        self.api, self.path = api, path

    def send(self, call: Any, *, timeout_s: float | None = None) -> Any:
        if call.method == "PATCH" and call.path == self.path:
            raise errors.refused(403, "Forbidden", "a policy denied it")
        return self.api.send(call, timeout_s=timeout_s)

    def watch(self, call: Any, *, idle_s: float) -> Any:
        return self.api.watch(call, idle_s=idle_s)


def test_one_pod_that_may_not_be_changed_stops_no_other_binding_and_no_compare(world: World) -> None:
    for name in ("a", "b"):
        world.node(f"n-{name}")
    reconcile.nodes_reconcile(world.api, config=CONFIG)
    for name in ("a", "b"):
        pod = world.pod(name, mem=8000)
        flow.filter_(pod, f"n-{name}")
        flow.bind(pod, f"n-{name}")
    with guard.writing():
        Pod.objects.update(state_at=ledger.database_time() - timedelta(seconds=31))
    with ledger.transaction(cause="restored") as entry:
        ledger.incarnation_draw(entry)
    live_view.forget()
    api = Refusing(world.api, "/api/v1/namespaces/nlp/pods/a")
    reconcile.everything_reconcile(api, config=CONFIG)
    assert dict(Pod.objects.values_list("name", "state")) == {"a": "binding", "b": "claimed"}
    assert live_view.live().refresh().ready


def test_one_node_that_may_not_be_changed_stops_no_other_lock(world: World) -> None:
    for name in ("n2", "n3"):
        world.node(name, annotations={"hami.io/mutex.lock": "2026-01-01T00:00:00Z,nlp,gone"})
    reconcile.nodes_reconcile(world.api, config=CONFIG)
    assert lock_repair.locks_release_dead(Refusing(world.api, "/api/v1/nodes/n2")) == 1
    assert lock_repair.locks_release_dead(world.api) == 1


@pytest.mark.parametrize("text", ["G" * 500 + ",NVIDIA,1000,10:;", "GPU-n1,NVIDIA,99999999999999999999,10:;"])
def test_a_pod_with_absurd_texts_stops_no_other_pod(world: World, text: str) -> None:
    world.pod("absurd", mem=8000)
    world.bind("absurd", "n1", {"hami.io/vgpu-devices-allocated": text})
    world.pod("usual", mem=8000)
    pods(world)
    assert Pod.objects.filter(name="usual").exists()
    assert pods(world) == 0
    flow.view_is_true()


def test_a_pod_bound_elsewhere_is_recorded_there_with_a_finding(world: World) -> None:
    world.node("n2")
    reconcile.nodes_reconcile(world.api, config=CONFIG)
    pod = world.pod("p", mem=8000)
    flow.filter_(pod, "n1")
    world.bind("p", "n2")
    pods(world)
    assert Pod.objects.get().node == "n2"
    assert Finding.objects.get().kind == "bound-elsewhere"
    assert flow.used_mib("GPU-n1") == 0


def test_a_pod_that_hami_placed_is_taken_over_with_its_shares(world: World) -> None:
    world.pod("p", mem=8000)
    text = "GPU-n1,NVIDIA,8000,30:;"
    world.bind("p", "n1", {"hami.io/vgpu-devices-allocated": text, "hami.io/vgpu-node": "n1"})
    pods(world)
    assert flow.used_mib() == 8000
    assert flow.charged_mib() == 8000
    assert clean(world)


def test_h43_an_undecodable_pod_takes_its_node_out_until_it_is_gone(world: World) -> None:
    world.pod("p", mem=8000)
    world.bind("p", "n1", {"hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,1000:;"})
    pods(world)
    other = world.pod("q", mem=1)
    assert flow.filter_(other).reason == "NodeAccountingUnknown"
    assert "nlp/p" in Node.objects.get().accounting_unknown
    world.delete("p")
    pods(world)
    assert flow.filter_(other).node == "n1"


def test_a_pod_whose_row_changed_after_the_list_is_left_alone(world: World) -> None:
    before = live_view.live().refresh()
    pod = world.pod("p", mem=8000)
    flow.filter_(pod)
    assert reconcile.missing_release(world.api, before, set()) == 0
    assert flow.used_mib() == 8000


def test_a_node_that_left_is_retired_and_one_that_returns_is_back(world: World) -> None:
    world.people.call("DELETE", "/api/v1/nodes/n1")
    reconcile.nodes_reconcile(world.api, config=CONFIG)
    assert Node.objects.get().retired
    world.node()
    reconcile.nodes_reconcile(world.api, config=CONFIG)
    assert flow.filter_(world.pod("p", mem=1)).node == "n1"


def test_h20_native_quotas_the_least_binds(world: World) -> None:
    def make(name: str, limit: int) -> None:
        body = {"metadata": {"name": name}, "spec": {"hard": {"limits.nvidia.com/gpumem": str(limit)}}}
        world.people.create("/api/v1/namespaces/nlp/resourcequotas", body)
        reconcile.quotas_reconcile(world.api, config=CONFIG)

    def drop(name: str) -> None:
        world.people.call("DELETE", f"/api/v1/namespaces/nlp/resourcequotas/{name}")
        reconcile.quotas_reconcile(world.api, config=CONFIG)

    def limit() -> int | None:
        rules = live_view.live().refresh().headroom("nlp").rules
        return rules[0][0].limits.memory_mib if rules else None

    make("small", 1000)
    make("big", 5000)
    assert limit() == 1000
    drop("big")
    assert limit() == 1000
    make("big", 5000)
    drop("small")
    assert limit() == 5000
    drop("big")
    assert limit() is None


def test_wakes_and_ungates_are_one_patch_each(world: World) -> None:
    flow.limit(memory_mib=4000, mode="wait")
    gated = world.pod("gated", mem=4000, gated=True)
    waiting = world.pod("first", mem=4000)
    flow.filter_(waiting)
    pods(world)
    freed = wake.Freed()
    freed.follow(live_view.live().refresh())
    flow.limit(memory_mib=8000, mode="wait")
    assert wake_calls.wake_send(world.api, wake.wake_plan(freed)) == 1
    assert not world.look("gated")["spec"].get("schedulingGates")
    assert wake_calls.wake_send(world.api, wake.wake_plan(freed)) == 0
    assert gated["spec"]["schedulingGates"]


def test_h46_an_annotation_lock_whose_holder_is_gone_is_taken_off(world: World) -> None:
    note = {"metadata": {"annotations": {"hami.io/mutex.lock": "2026-01-01T00:00:00Z,nlp,gone"}}}
    world.people.call("PATCH", "/api/v1/nodes/n1", note, media=MERGE_PATCH)
    reconcile.nodes_reconcile(world.api, config=CONFIG)
    assert NodeLock.objects.get().mode == "annotation"
    assert lock_repair.locks_release_dead(world.api) == 1
    reconcile.nodes_reconcile(world.api, config=CONFIG)
    assert not NodeLock.objects.exists()


@pytest.mark.parametrize("value", ["2026-01-01T00:00:00Z", "garbage", "a,b"], ids=["h50", "h51", "h51 two parts"])
def test_h50_h51_a_lock_without_a_readable_owner_holds_for_one_timeout_from_first_sight(
    world: World, value: str
) -> None:
    note = {"metadata": {"annotations": {"hami.io/mutex.lock": value}}}
    world.people.call("PATCH", "/api/v1/nodes/n1", note, media=MERGE_PATCH)
    reconcile.nodes_reconcile(world.api, config=CONFIG)
    for minutes, freed in ((4, 0), (6, 1)):
        with guard.writing():
            NodeLock.objects.update(first_seen_at=ledger.database_time() - timedelta(minutes=minutes))
        assert lock_repair.locks_release_dead(world.api) == freed
    assert Finding.objects.get().kind == "node-lock-left-behind", "with an alarm"
    reconcile.nodes_reconcile(world.api, config=CONFIG)
    assert not NodeLock.objects.exists()


def test_h47_the_lock_of_a_pod_that_failed_is_taken_off_at_once(world: World) -> None:
    world.placed("p", mem=8000)
    pods(world)
    note = {"metadata": {"annotations": {"hami.io/mutex.lock": "2026-01-01T00:00:00Z,nlp,p"}}}
    world.people.call("PATCH", "/api/v1/nodes/n1", note, media=MERGE_PATCH)
    world.status("p", phase="Failed")
    pods(world)
    reconcile.nodes_reconcile(world.api, config=CONFIG)
    assert lock_repair.locks_release_dead(world.api) == 1


def test_d8_a_lock_whose_holder_waits_for_allocate_is_never_taken_off(world: World) -> None:
    world.placed("p", mem=8000)
    pods(world)
    with guard.writing():
        NodeLock.objects.all().delete()
    note = {"metadata": {"annotations": {"hami.io/mutex.lock": "2020-01-01T00:00:00Z,nlp,p"}}}
    world.people.call("PATCH", "/api/v1/nodes/n1", note, media=MERGE_PATCH)
    reconcile.nodes_reconcile(world.api, config=CONFIG)
    with guard.writing():
        NodeLock.objects.update(first_seen_at=ledger.database_time() - timedelta(hours=1))
    assert lock_repair.locks_release_dead(world.api) == 0
    world.status("p", phase="Running", containerStatuses=[{"name": "main", **kube_objects.running()}])
    pods(world)
    assert lock_repair.locks_release_dead(world.api) == 1


def test_h57_a_lock_that_a_node_carried_goes_with_the_node(world: World) -> None:
    note = {"metadata": {"annotations": {"hami.io/mutex.lock": "2026-01-01T00:00:00Z,nlp,gone"}}}
    world.people.call("PATCH", "/api/v1/nodes/n1", note, media=MERGE_PATCH)
    reconcile.nodes_reconcile(world.api, config=CONFIG)
    assert live_view.live().refresh().locks
    world.people.call("DELETE", "/api/v1/nodes/n1")
    reconcile.nodes_reconcile(world.api, config=CONFIG)
    assert not live_view.live().refresh().locks
    assert not NodeLock.objects.exists()
    flow.view_is_true()


def test_the_self_check_sees_what_leaked(world: World) -> None:
    world.placed("p", mem=8000)
    pods(world)
    world.delete("p")
    assert [one.kind for one in audit.differences(world.api, config=CONFIG)] == ["leaked"]
    assert audit.audit_run(world.api, config=CONFIG) == []
