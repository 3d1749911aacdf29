"""`/bind` against a simulated API server that can fail in every way.

| answer of the API server | the pod then | the ledger | the answer |
|---|---|---|---|
| 201 | ours | bound | "" |
| 409, lost answer | on our node | bound | "" |
| 409, lost answer, 5xx | unassigned | claimed again, once | Error |
| 404, other uid, being deleted | | nothing held | Error |
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from accounting.models import Finding
from accounting.services import cluster_api
from hami_platform import env
from scheduler_ext import binder, extender, node_queue
from tests import threads
from tests.scheduler_ext.world import World, held_mib, pod, row, total_mib

BINDING = r"/binding$"

pytestmark = pytest.mark.ledger


def test_a_bound_pod_has_its_allocation_and_label_from_the_binding(world: World) -> None:
    made = world.placed("p")
    assert world.bind(made) == ""
    bound = world.get("p")
    notes = bound["metadata"]["annotations"]
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["labels"]["hami.io/vgpu-node"] == "n1"
    assert notes["hami.io/vgpu-node"] == "n1"
    assert notes["hami.io/bind-phase"] == "allocating"
    assert notes["hami.io/vgpu-devices-to-allocate"] == notes["hami.io/vgpu-devices-allocated"]
    assert "GPU-n1-" in notes["hami.io/vgpu-devices-allocated"]
    assert notes["hami.io/bind-time"].isdigit()
    assert notes["hami.io/vgpu-time"].isdigit()
    assert row(made["metadata"]["uid"]).state == "bound"
    assert total_mib() == 3000


def test_bind_twice_is_bind_once(world: World) -> None:
    made = world.placed("p")
    assert (world.bind(made), world.bind(made)) == ("", "")
    assert total_mib() == 3000


def test_without_a_reservation_nothing_is_bound(world: World) -> None:
    made = world.create(pod("p"))
    assert "no reservation" in world.bind(made)
    assert "nodeName" not in world.get("p")["spec"]


def test_a_pod_is_bound_only_to_its_reserved_node(world: World) -> None:
    world.node("n2")
    world.compare()
    made = world.placed("p", "n1")
    assert "reserved on node n1, not n2" in world.bind(made, "n2")
    assert "nodeName" not in world.get("p")["spec"]


def test_h28_a_pod_that_is_gone_at_bind_holds_nothing(world: World) -> None:
    made = world.placed("p")
    world.delete("p")
    assert "not found" in world.bind(made)
    assert total_mib() == 0


def test_another_pod_of_the_same_name_is_not_bound(world: World) -> None:
    made = world.placed("p")
    world.delete("p")
    world.create(pod("p"))
    assert "another uid" in world.bind(made)
    assert total_mib() == 0
    assert "nodeName" not in world.get("p")["spec"]


def test_h26_a_pod_that_keeps_changing_keeps_its_claim_alone_and_is_charged_once(world: World) -> None:
    made = world.placed("p")
    world.api.fault.fail(BINDING, status=409, times=3)
    assert "no Binding succeeded in 3 tries" in world.bind(made)
    assert (row(made["metadata"]["uid"]).state, total_mib()) == ("claimed", 0)
    assert world.filter(made)["NodeNames"] == ["n1"]
    assert world.bind(made) == ""
    assert total_mib() == 3000


def test_a_conflict_that_somebody_elses_patch_made_is_tried_again(world: World) -> None:
    made = world.placed("p")
    world.api.fault.fail(BINDING, status=409, times=1)
    assert world.bind(made) == ""


def test_a_lost_answer_of_a_binding_that_worked_is_a_success(world: World) -> None:
    made = world.placed("p")
    world.api.fault.lose_answer(BINDING, times=1)
    assert world.bind(made) == ""
    assert (row(made["metadata"]["uid"]).state, total_mib()) == ("bound", 3000)


@pytest.mark.parametrize("how", ["hang up", "500"])
def test_after_a_doubtful_binding_the_pod_is_marked_before_anything_is_given_back(world: World, how: str) -> None:
    made = world.placed("p")
    if how == "500":
        world.api.fault.fail(BINDING, status=500, times=1)
    else:
        world.api.fault.hang_up(BINDING, times=1)
    assert "was not carried out" in world.bind(made)
    now = world.get("p")
    assert now["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    assert now["metadata"]["annotations"]["platform.hami.io/retry-at"].startswith("bind-")
    assert (row(made["metadata"]["uid"]).state, total_mib()) == ("claimed", 0)


def test_a_late_binding_fails_on_the_marked_pod(world: World) -> None:
    """The Binding of the doubtful try arrives after everything was given back."""
    made = world.placed("p")
    world.api.fault.hang_up(BINDING, times=1)
    world.bind(made)
    late = {
        "metadata": {key: made["metadata"][key] for key in ("name", "uid", "resourceVersion")},
        "target": {"kind": "Node", "name": "n1"},
    }
    with pytest.raises(Exception, match="409"):
        world.kube.call("POST", "/api/v1/namespaces/nlp/pods/p/binding", late)
    assert "nodeName" not in world.get("p")["spec"]


def test_while_the_outcome_cannot_be_known_nothing_is_given_back_and_the_next_bind_settles_it(world: World) -> None:
    world.node("n2")
    world.compare()
    made = world.placed("p", "n1")
    world.api.fault.hang_up(BINDING, times=1)
    world.api.fault.hang_up(r"/pods/p$", method="PATCH", times=None)
    assert "outcome of the Binding is unknown" in world.bind(made)
    assert (row(made["metadata"]["uid"]).state, total_mib()) == ("binding", 3000)
    assert world.filter(made, "n1", "n2")["NodeNames"] == ["n1"]
    assert "under way" in world.filter(made, "n2")["Error"]
    world.api.fault.lift()
    assert world.bind(made) == ""
    assert (row(made["metadata"]["uid"]).state, total_mib()) == ("bound", 3000)


def test_a_pod_bound_elsewhere_meanwhile_is_recorded_there_and_found(world: World) -> None:
    world.node("n2")
    world.compare()
    made = world.placed("p", "n1")
    path = "/api/v1/namespaces/nlp/pods/p/binding"
    world.kube.call("POST", path, {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n2"}})
    assert "is on node n2" in world.bind(made)
    assert row(made["metadata"]["uid"]).node == "n2"
    assert Finding.objects.filter(kind="bound-elsewhere").exists()


def test_a_long_node_name_gets_no_label(world: World) -> None:
    long = f"{'n' * 40}.{'m' * 40}"
    world.node(long)
    world.compare()
    made = world.placed("p", long)
    assert world.bind(made, long) == ""
    assert "hami.io/vgpu-node" not in world.get("p")["metadata"].get("labels", {})


def test_h45_a_lock_whose_holder_waits_is_waited_for(world: World) -> None:
    first, second = world.placed("a"), world.placed("b")
    assert world.bind(first) == ""
    with env.override(node_lock_retry_timeout_s=0.3):
        extender.the_binder.cache_clear()
        error = world.bind(second)
    assert "timed out after 0.3s waiting for node n1 to be unlocked" in error
    assert row(second["metadata"]["uid"]).state == "reserved"


def test_h46_the_next_bind_succeeds_at_once_when_the_holder_is_deleted(world: World) -> None:
    first, second = world.placed("a"), world.placed("b")
    assert world.bind(first) == ""
    world.delete("a")
    assert world.bind(second) == ""
    assert total_mib() == 3000


def test_h47_a_holder_that_failed_holds_no_lock(world: World) -> None:
    first, second = world.placed("a"), world.placed("b")
    assert world.bind(first) == ""
    world.patch("/api/v1/namespaces/nlp/pods/a/status", {"status": {"phase": "Failed"}})
    assert world.bind(second) == ""


def test_h52_members_of_a_gang_bound_in_the_same_moment_both_bind(world: World) -> None:
    first, second = world.placed("a"), world.placed("b")
    with ThreadPoolExecutor() as pool:
        one = pool.submit(threads.alone, world.bind, first)
        two = pool.submit(threads.alone, world.bind, second)
        done = next(name for name in _until_bound(world, "a", "b"))
        world.started(done)
        assert (one.result(20), two.result(20)) == ("", "")
    assert total_mib() == 6000


def _until_bound(world: World, *names: str) -> list[str]:
    while True:
        bound = [name for name in names if world.get(name)["spec"].get("nodeName")]
        if bound:
            return bound


def test_no_free_slot_is_said_at_once(world: World) -> None:
    made = world.placed("p")
    full: node_queue.NodeQueue[str] = node_queue.NodeQueue(1)
    full._slots.acquire()
    engine = extender.the_binder()
    assert isinstance(engine, binder.Binder)
    engine._queue = full
    assert world.bind(made) == "all bind slots are taken"


def test_a_broken_bind_body_is_answered_in_band(world: World) -> None:
    assert "missing PodUID" in world.post("/bind", {"PodName": "p", "PodNamespace": "n", "Node": "n1"})["Error"]
    assert world.post("/bind", b"x")["Error"]
    assert held_mib() == 0


def test_a_bound_pod_is_recorded_by_whoever_comes_first(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extender, "RECORD_S", 0.2)
    made = world.placed("p")
    assert world.bind(made) == ""
    assert (row(made["metadata"]["uid"]).state, total_mib()) == ("binding", 3000), "the watcher may be faster"
    queue = extender.the_binder()._unrecorded
    assert queue is not None
    assert queue.flush(10)
    assert (row(made["metadata"]["uid"]).state, total_mib()) == ("bound", 3000)


def test_a_bind_after_filter_reads_no_pod_and_a_changed_pod_is_read(world: World) -> None:
    assert world.bind(world.placed("first")) == ""  # the first one asks for the version and looks at the label
    world.started("first")
    world.compare()
    reads = Requests(cluster_api.cluster_api())
    extender.the_binder()._api = reads  # type: ignore[assignment]
    assert world.bind(world.placed("second")) == ""
    assert reads.made == ["POST"]
    world.started("second")
    world.compare()
    made = world.placed("third")
    world.patch("/api/v1/namespaces/nlp/pods/third", {"metadata": {"labels": {"changed": "since"}}})
    reads.made.clear()
    assert world.bind(made) == ""
    assert reads.made == ["POST", "GET", "POST"]


class Requests:
    """Notes the method of each call."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.made = inner, list[str]()

    def send(self, call: Any, **options: Any) -> Any:
        self.made.append(call.method)
        return self.inner.send(call, **options)
