"""HAMi's node lock where HAMi's plugin serves Allocate: taken by resourceVersion, never from a pod that waits.

| the lock | its holder | the next bind |
|---|---|---|
| none | | takes it |
| ours | | keeps it |
| another pod's | waits for Allocate | waits |
| another pod's | gone, ended, served, started, elsewhere | takes it |
| ours by name, older than we are | an earlier pod of our name | takes it anew |
| ours, older than the time-out by its text | | writes it anew |
| no owner, or garbage | unknown | waits one time-out from first sight |
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from accounting.services import cluster_api
from hami_platform import env
from hami_platform.domain import locks
from hami_platform.domain.wire import node_lock as wire
from hami_platform.kube import api as ports
from hami_platform.kube import calls, errors, objects
from scheduler_ext import extender, node_lock
from tests.scheduler_ext.world import World, pod, row

NODE = "/api/v1/nodes/hami"
HAMI: dict[str, str] = {}  # no mark of our agent: HAMi's plugin runs here


@pytest.fixture
def hami(world: World) -> World:
    """A node on which HAMi's plugin runs."""
    world.node("hami", labels=HAMI)
    world.compare()
    return world


def lock_of(world: World) -> str | None:
    found: dict[str, str] = world.kube.get(NODE)["metadata"].get("annotations", {})
    return found.get(wire.KEY)


def set_lock(world: World, value: str | None) -> None:
    world.patch(NODE, {"metadata": {"annotations": {wire.KEY: value}}})


def bind_briefly(world: World, made: dict[str, Any]) -> str:
    """A bind that waits for its lock only 0.3 s."""
    with env.override(node_lock_retry_timeout_s=0.3):
        extender.the_binder.cache_clear()
        return world.bind(made, "hami")


def test_a_bind_locks_the_node_in_its_name(hami: World) -> None:
    made = hami.placed("p", "hami")
    assert hami.bind(made, "hami") == ""
    assert wire.decode(lock_of(hami) or "").owned_by("nlp", "p")


def test_h45_the_lock_of_a_waiting_pod_is_never_taken(hami: World) -> None:
    first, second = hami.placed("a", "hami"), hami.placed("b", "hami")
    assert hami.bind(first, "hami") == ""
    assert "node lock contention" in bind_briefly(hami, second)
    assert wire.decode(lock_of(hami) or "").owned_by("nlp", "a")
    assert row(second["metadata"]["uid"]).state == "reserved"


def test_a_pod_that_was_served_gives_way(hami: World) -> None:
    first, second = hami.placed("a", "hami"), hami.placed("b", "hami")
    assert hami.bind(first, "hami") == ""
    hami.started("a")
    assert hami.bind(second, "hami") == ""
    assert wire.decode(lock_of(hami) or "").owned_by("nlp", "b")


@pytest.mark.parametrize("age_s, kept", [(100, True), (400, False)])
def test_an_own_lock_is_written_anew_before_hami_beside_us_would_take_it(hami: World, age_s: int, kept: bool) -> None:
    made = hami.placed("p", "hami")
    pod_ = objects.decode(json.dumps(made).encode(), objects.Pod)
    born_long_ago = msgspec.structs.replace(
        pod_, metadata=msgspec.structs.replace(pod_.metadata, creation_timestamp="2026-01-01T00:00:00Z")
    )
    text = wire.encode(wire.NodeLock(int(time.time()) - age_s, "nlp", "p"))
    set_lock(hami, text)
    lock = node_lock.AnnotationLock(cluster_api.cluster_api(), node_lock.Sightings(), timeout_s=300)
    assert isinstance(lock.take("hami", born_long_ago), node_lock.Taken)
    assert (lock_of(hami) == text) is kept


def test_a_lock_of_a_pod_that_is_gone_is_taken_at_once(hami: World) -> None:
    made = hami.placed("p", "hami")
    set_lock(hami, "2026-08-21T08:00:00Z,nlp,gone")
    assert bind_briefly(hami, made) == ""


def test_h49_a_lock_that_the_pod_has_already_is_kept(hami: World) -> None:
    made = hami.placed("p", "hami")
    value = "2999-08-21T08:00:00Z,nlp,p"
    set_lock(hami, value)
    assert hami.bind(made, "hami") == ""
    assert lock_of(hami) == value


def test_a_recreated_pod_does_not_inherit_the_lock_of_its_namesake(hami: World) -> None:
    made = hami.placed("p", "hami")
    old = "2020-08-21T08:00:00Z,nlp,p"
    set_lock(hami, old)
    assert hami.bind(made, "hami") == ""
    assert lock_of(hami) != old


@pytest.mark.parametrize("value", ["2026-08-21T08:00:00Z", "garbage"])
def test_h50_h51_a_lock_without_an_owner_holds_for_one_timeout_from_first_sight(hami: World, value: str) -> None:
    made = hami.placed("p", "hami")
    set_lock(hami, value)
    assert "contention" in bind_briefly(hami, made)
    with env.override(node_lock_timeout_s=0.05):
        extender.the_binder.cache_clear()
        assert hami.bind(made, "hami") == ""


def test_h48_only_the_owner_by_its_whole_name_releases(hami: World) -> None:
    lock = node_lock.AnnotationLock(cluster_api.cluster_api(), node_lock.Sightings(), timeout_s=300)
    value = "2026-08-21T08:00:00Z,ns,abc-123"
    set_lock(hami, value)
    for namespace, name in (("ns", "abc"), ("s", "abc-123")):
        lock.release("hami", locks.Owner(namespace, name))
        assert lock_of(hami) == value
    lock.release("hami", locks.Owner("ns", "abc-123"))
    assert lock_of(hami) is None
    lock.release("hami", locks.Owner("ns", "abc-123"))


def test_a_failed_bind_gives_the_lock_back(hami: World) -> None:
    made = hami.placed("p", "hami")
    hami.api.fault.fail(r"/binding$", status=422, times=1)
    assert hami.bind(made, "hami")
    assert lock_of(hami) is None


def test_a_pod_without_a_reservation_leaves_no_lock(hami: World) -> None:
    assert "no reservation" in hami.bind(hami.create(pod("p")), "hami")
    assert lock_of(hami) is None


def test_a_node_that_changes_meanwhile_is_looked_at_again(hami: World) -> None:
    made = hami.placed("p", "hami")
    hami.api.fault.fail(r"/nodes/hami$", method="PATCH", status=409, times=2)
    assert hami.bind(made, "hami") == ""


class Meanwhile:
    """An API of which the next node that is read changes before its reader can write."""

    def __init__(self, api: ports.Api, change: Callable[[], None]) -> None:
        self._api, self._change = api, change

    def send(self, call: calls.KubeCall[Any], *, timeout_s: float | None = None) -> Any:
        answer = self._api.send(call, timeout_s=timeout_s)
        if call.method == "GET" and call.path == NODE and self._change is not None:
            change, self._change = self._change, lambda: None
            change()
        return answer


def other_lock(world: World) -> str:
    """The lock of a pod that waits for Allocate on the node."""
    rival = world.placed("rival", "hami")
    assert rival["metadata"]["name"] == "rival"
    return wire.encode(wire.NodeLock(int(time.time()), "nlp", "rival"))


def test_a_lock_that_comes_between_read_and_write_is_not_overwritten(hami: World) -> None:
    """The write carries the resourceVersion that was read."""
    value, made = other_lock(hami), hami.placed("p", "hami")
    api: Any = Meanwhile(cluster_api.cluster_api(), lambda: set_lock(hami, value))
    lock = node_lock.AnnotationLock(api, node_lock.Sightings(), timeout_s=300)
    seen = cluster_api.cluster_api().send(calls.pod_get(namespace="nlp", name=made["metadata"]["name"]))
    assert isinstance(lock.take("hami", seen), node_lock.Contended)
    assert lock_of(hami) == value


def test_a_lock_that_changes_hands_between_read_and_release_stays(hami: World) -> None:
    value = other_lock(hami)
    set_lock(hami, wire.encode(wire.NodeLock(int(time.time()), "nlp", "p")))
    api: Any = Meanwhile(cluster_api.cluster_api(), lambda: set_lock(hami, value))
    node_lock.AnnotationLock(api, node_lock.Sightings(), timeout_s=300).release("hami", locks.Owner("nlp", "p"))
    assert lock_of(hami) == value


def test_a_lock_whose_answer_was_lost_is_found_to_be_ones_own(hami: World) -> None:
    made = hami.placed("p", "hami")
    hami.api.fault.lose_answer(r"/nodes/hami$", method="PATCH")
    first = bind_briefly(hami, made)
    assert first == "" or "cannot be locked" in first
    assert str(lock_of(hami)).endswith(",nlp,p")
    assert bind_briefly(hami, made) == ""
    assert row(made["metadata"]["uid"]).state == "bound"


def test_a_lock_whose_answer_was_lost_keeps_nobody_out_once_its_pod_is_gone(hami: World) -> None:
    made = hami.placed("p", "hami")
    hami.api.fault.lose_answer(r"/nodes/hami$", method="PATCH")
    bind_briefly(hami, made)
    hami.delete("p")
    assert bind_briefly(hami, hami.placed("next", "hami")) == ""
    assert str(lock_of(hami)).endswith(",nlp,next")


def test_a_release_whose_answer_was_lost_is_not_repeated_on_somebody_else(hami: World) -> None:
    set_lock(hami, wire.encode(wire.NodeLock(int(time.time()), "nlp", "p")))
    hami.api.fault.lose_answer(r"/nodes/hami$", method="PATCH")
    lock = node_lock.AnnotationLock(cluster_api.cluster_api(), node_lock.Sightings(), timeout_s=300)
    with contextlib.suppress(errors.KubeError):
        lock.release("hami", locks.Owner("nlp", "p"))
    assert lock_of(hami) is None
    value = other_lock(hami)
    set_lock(hami, value)
    lock.release("hami", locks.Owner("nlp", "p"))
    assert lock_of(hami) == value


def test_ages_count_from_the_first_sight_of_each_value() -> None:
    now = [0.0]
    seen = node_lock.Sightings(lambda: now[0])
    ages = []
    for now[0], value in ((0.0, "a"), (5.0, "a"), (6.0, "b"), (9.0, "b"), (9.0, "a")):
        ages.append(seen.age_s("n", value))
    assert ages == [0, 5, 0, 3, 0]


@pytest.mark.parametrize(
    "fields,state",
    [
        ({}, "waiting"),
        ({"status": {"phase": "Pending"}, "spec": {"nodeName": "n"}}, "waiting"),
        ({"spec": {"nodeName": "other"}}, "done"),
        ({"status": {"phase": "Failed"}}, "done"),
        ({"metadata": {"annotations": {"hami.io/bind-phase": "success"}}}, "done"),
        ({"metadata": {"annotations": {"hami.io/bind-phase": "allocating"}}}, "waiting"),
        ({"status": {"initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}}, "done"),
        ({"status": {"containerStatuses": [{"name": "i", "state": {"waiting": {}}}]}}, "waiting"),
    ],
)
def test_who_may_still_wait_for_allocate(fields: dict[str, Any], state: str) -> None:
    found = objects.decode(json.dumps(fields).encode(), objects.Pod)
    assert node_lock.holder_state(found, "n") == state


def test_the_mark_of_our_agent_means_no_node_is_patched(world: World) -> None:
    made = world.placed("p")
    assert world.bind(made) == ""
    found = cluster_api.cluster_api().send(calls.node_get(name="n1"))
    assert wire.KEY not in found.metadata.annotations
