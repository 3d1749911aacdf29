"""The watcher in a thread of its own, over real HTTP: what it sees is in the ledger at once; cut, compacted and
fenced, it recovers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from accounting import ledger, live_view
from accounting.models import Device, NodeLock, ProcessLease, Share
from accounting.services import bindings, flights, node_seen, reconcile, seen
from accounting.watcher import Term, Watcher, split, take_office
from hami_platform import env
from hami_platform.kube import errors, feed
from hami_platform.kube.listwatch import Event, Failed, Listed
from tests.accounting import flow, kube_objects, simulated
from tests.accounting.simulated import World, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.ledger]


@contextlib.contextmanager
def watching(world: World, holder: str = "one") -> Iterator[Watcher]:
    """A running watcher."""
    watcher = Watcher(world.api, kube_objects.CONFIG, holder)

    def run() -> None:
        try:
            watcher.run()
        finally:
            connection.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield watcher
    finally:
        watcher.stop()
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with simulated.world(tmp_path) as one:
        one.node()
        yield one


def ready() -> bool:
    return live_view.live().refresh().ready


def test_it_loads_compares_and_follows(world: World) -> None:
    with watching(world):
        until(ready, "ready")
        world.placed("p", mem=8000)
        until(lambda: flow.state(world.look("p")) == "bound", "bound")
        world.status("p", phase="Running", containerStatuses=[{"name": "main", **kube_objects.running()}])
        until(lambda: flow.state(world.look("p")) == "running", "running")
        pod = world.look("p")
        world.delete("p")
        until(lambda: flow.state(pod) is None, "released")
    flow.view_is_true()


def test_pods_that_were_listed_first_wait_for_their_nodes(world: World) -> None:
    pod = kube_objects.pod(node="n1", annotations={"hami.io/vgpu-devices-allocated": "GPU-n1,NVIDIA,1000,10:;"})
    node = kube_objects.node()
    epoch = take_office("one")
    assert epoch is not None
    term = Term(world.api, kube_objects.CONFIG, "one", epoch, threading.Event())
    term.take(feed.Part("pods", Listed((seen.from_object(pod, kube_objects.CONFIG),), "5")))
    assert not Share.objects.exists()
    term.take(feed.Part("nodes", Listed((node_seen.from_object(node, kube_objects.CONFIG),), "5")))
    assert Share.objects.get().model == Device.objects.get().model != ""
    flow.view_is_true()


def test_pods_do_not_wait_for_nodes_that_cannot_be_listed(world: World) -> None:
    flow.cluster()
    pod = kube_objects.pod(node="n1", annotations={"hami.io/vgpu-devices-allocated": "GPU-n1,NVIDIA,1000,10:;"})
    epoch = take_office("one")
    assert epoch is not None
    term = Term(world.api, kube_objects.CONFIG, "one", epoch, threading.Event())
    term.take(feed.Part("pods", Listed((seen.from_object(pod, kube_objects.CONFIG),), "5")))
    term.take(feed.Part("nodes", Failed(errors.Unreachable("away"), 1.0)))
    assert Share.objects.count() == 1


def test_it_goes_on_after_cut_watches_and_compaction(world: World) -> None:
    with watching(world):
        until(ready, "ready")
        world.server.fault.compact()
        world.server.fault.cut_watches()
        world.pod("p", mem=8000)
        until(lambda: flow.charged_mib() == 8000, "the pod is claimed")


def test_a_freed_device_wakes_the_waiting_pod(world: World) -> None:
    with watching(world):
        until(ready, "ready")
        world.placed("holder", mem=24576)
        waiting = world.pod("waiting", mem=24576)
        until(lambda: flow.state(waiting) == "claimed", "seen")
        flow.refusal(waiting)
        world.delete("holder")
        until(lambda: "platform.hami.io/retry-at" in world.look("waiting")["metadata"].get("annotations", {}), "woken")


def test_a_binding_whose_process_died_is_settled_without_a_tick(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "BINDING_SETTLES_S", 0)
    with watching(world):
        until(ready, "ready")
        pod = world.pod("p", mem=8000)
        flow.filter_(pod)
        assert isinstance(flow.bind(pod), bindings.BindingPlan)
        until(lambda: flow.state(pod) == "claimed", "back to its claim")
    assert not NodeLock.objects.exists()


def test_it_labels_a_node_that_registers_devices_where_narrowing_is_on(world: World) -> None:
    with env.override(narrowing=True), watching(world):
        world.node("late")
        until(
            lambda: world.people.get("/api/v1/nodes/late")["metadata"]["labels"].get("platform.hami.io/nvidia"),
            "labelled",
        )


def test_a_second_watcher_stands_by_and_takes_over_with_a_new_epoch(world: World) -> None:
    with watching(world, "one") as first:
        until(ready, "ready")
        epoch = ProcessLease.objects.get(name=ledger.WATCHER).epoch
        with watching(world, "two"):
            first.stop()
            until(lambda: ProcessLease.objects.get(name=ledger.WATCHER).holder == "two", "taken over")
            assert ProcessLease.objects.get(name=ledger.WATCHER).epoch == epoch + 1


def test_a_fenced_watcher_stops_writing_and_stands_by(world: World) -> None:
    with watching(world, "one"):
        until(ready, "ready")
        flights.lease_drop(name=ledger.WATCHER, holder="one")
        assert flights.lease_take(name=ledger.WATCHER, holder="usurper", ttl_s=3) is not None
        world.pod("p", mem=8000)
        until(lambda: ProcessLease.objects.get(name=ledger.WATCHER).holder == "one", "taken back after the lease")
        until(lambda: flow.charged_mib() == 8000, "and the pod is claimed")


def test_events_of_one_batch_come_down_to_the_last_of_each_pod() -> None:
    def pod(uid: str, version: int) -> dict[str, dict[str, str]]:
        return {"metadata": {"uid": uid, "resourceVersion": str(version)}}

    events = (
        Event(pod("a", 1)),
        Event(pod("a", 2)),
        Event(pod("b", 3), deleted=True),
        Event(pod("c", 4)),
        Event(pod("c", 5), deleted=True),
    )
    latest, deleted = split(events)  # type: ignore[arg-type]
    assert latest == [pod("a", 2)]
    assert deleted == [pod("b", 3), pod("c", 5)]
