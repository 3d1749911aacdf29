"""The scheduler loop against a scripted extender: bodies and failures equal those captured from kube-scheduler 1.36.

| what the extender does | condition reason | asked again |
|---|---|---|
| turns every node down | Unschedulable | at any event, without backoff |
| fails, or sets Error | SchedulerError | after 1, 2, 4 … s |
| says yes to a bind and binds nothing | none | never |
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from hami_platform.simulator import apiserver, client, scheduler
from hami_platform.simulator.scheduling import extender, predicates
from tests.simulator import equipment
from tests.simulator.equipment import Cluster, Obj, Peer, wait_for

NODES = ("fake-00000", "fake-00001", "fake-00002")


@pytest.fixture
def api() -> Iterator[apiserver.ApiServer]:
    with apiserver.ApiServer() as server:
        yield server


@pytest.fixture
def cluster(api: apiserver.ApiServer) -> Iterator[Cluster]:
    made = Cluster(api.url)
    for name in NODES:
        made.create_node(name)
    yield made
    made.api.close()


def config(url: str, **options: Any) -> extender.ExtenderConfig:
    return extender.ExtenderConfig(
        f"{url}/", **{"managed_resources": frozenset({"nvidia.com/gpu"}), "timeout_s": 5.0, **options}
    )


def binding(cluster: Cluster, left: int = 1) -> equipment.Script:
    """An extender that keeps the first nodes and binds as it is told."""

    def answer(path: str, body: Obj) -> Obj:
        if path == "/filter":
            names = body["NodeNames"] or [item["metadata"]["name"] for item in body["Nodes"]["items"]]
            return {"NodeNames": names[:left], "FailedNodes": {}, "Error": ""}
        target = {"kind": "Node", "name": body["Node"]}
        made = {"metadata": {"name": body["PodName"], "uid": body["PodUID"]}, "target": target}
        cluster.api.create(client.path_of("pods", body["PodNamespace"], body["PodName"], "binding"), made)
        return {"Error": ""}

    return answer


@pytest.mark.parametrize("capable", [True, False])
def test_filter_and_bind_bodies_have_the_captured_keys(
    cluster: Cluster, api: apiserver.ApiServer, capable: bool
) -> None:
    with (
        Peer(binding(cluster)) as peer,
        scheduler.Scheduler(api.url, extender_config=config(peer.url, node_cache_capable=capable)),
    ):
        cluster.create_pod("ext")
        wait_for(lambda: cluster.pod("ext")["spec"].get("nodeName"), "a node")
    real = equipment.captured(f"extender-filter-cache-{str(capable).lower()}.json")
    (ours,) = peer.asked("/filter")
    assert equipment.form(ours["Pod"]) == equipment.form(real["Pod"])
    assert list(ours) == list(real)
    assert [type(ours[key]) for key in real] == [type(real[key]) for key in real]
    if capable:
        assert ours["NodeNames"] == list(NODES)
    else:
        assert list(ours["Nodes"]) == list(real["Nodes"])
        assert all(not {"kind", "apiVersion"} & set(item) for item in ours["Nodes"]["items"])
    (bound,) = peer.asked("/bind")
    assert equipment.form(bound) == equipment.form(equipment.captured("extender-bind-cache-true.json"))


def test_requests_carry_the_captured_headers(cluster: Cluster, api: apiserver.ApiServer) -> None:
    with Peer(binding(cluster)) as peer, scheduler.Scheduler(api.url, extender_config=config(peer.url)):
        cluster.create_pod("ext")
        wait_for(lambda: peer.asked("/bind"), "a bind")
    real = equipment.captured("extender-filter-cache-true.http.json")["headers"]
    path, _, ours = peer.calls[0]
    assert path == "/filter"
    assert {key: value for key, value in ours.items() if key not in ("Host", "Content-Length")} == {
        key: value for key, value in real.items() if key not in ("Host", "Content-Length")
    }


FAILURES = [json.loads(line) for line in (equipment.CAPTURED / "extender-failures.jsonl").read_text().splitlines()]
SCRIPTS: dict[str, Any] = {
    "filter: 500": 500,
    "filter: hangs up": None,
    "filter: not JSON": b"oops",
    "filter: empty body": b"",
    "filter: Error set": {"Error": "no card fits"},
    "filter: {}": {},
    "filter: all in FailedNodes": {"FailedNodes": {name: f"card busy on {index}" for index, name in enumerate(NODES)}},
    "filter: all in FailedNodes, same text": {"FailedNodes": dict.fromkeys(NODES, "no card fits")},
    "filter: all in FailedAndUnresolvableNodes": {
        "FailedAndUnresolvableNodes": dict.fromkeys(NODES, "no card of that type")
    },
    "filter: empty NodeNames and no reasons": {"NodeNames": []},
    "filter: a node not asked about": {"NodeNames": ["elsewhere"]},
}
CASES = [case for case in FAILURES if case["case"] in SCRIPTS and not case["ignorable"]]


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_a_failing_filter_shows_the_captured_condition(cluster: Cluster, api: apiserver.ApiServer, case: Obj) -> None:
    answer = SCRIPTS[case["case"]]
    with Peer(lambda path, body: answer) as peer, scheduler.Scheduler(api.url, extender_config=config(peer.url)):
        cluster.create_pod("f0")
        found = wait_for(lambda: cluster.condition("f0"), "a condition")
        events = wait_for(lambda: cluster.events("f0", "FailedScheduling"), "an event")
    port = peer.url.rpartition(":")[2]
    expected = case["PodScheduled"]
    old_port = expected["message"].partition("127.0.0.1:")[2][:5]
    message = (
        expected["message"].replace(f"127.0.0.1:{old_port}", f"127.0.0.1:{port}") if old_port else expected["message"]
    )
    assert (found["status"], found["reason"], found["message"]) == ("False", expected["reason"], message)
    assert events[0]["message"] == message
    assert events[0]["type"] == "Warning"


def test_a_slow_filter_is_a_deadline_exceeded(cluster: Cluster, api: apiserver.ApiServer) -> None:
    release = threading.Event()

    def hang(path: str, body: Obj) -> Any:
        release.wait(20)
        return {}

    with Peer(hang) as peer, scheduler.Scheduler(api.url, extender_config=config(peer.url, timeout_s=0.2)):
        cluster.create_pod("f0")
        found = wait_for(lambda: cluster.condition("f0"), "a condition")
        release.set()
    text = f'Post "{peer.url}/filter": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
    assert (found["reason"], found["message"]) == ("SchedulerError", text)


def test_an_ignorable_extender_that_fails_places_as_if_there_were_none(
    cluster: Cluster, api: apiserver.ApiServer
) -> None:
    with (
        Peer(lambda path, body: 500) as peer,
        scheduler.Scheduler(api.url, extender_config=config(peer.url, ignorable=True)),
    ):
        cluster.create_pod("f0")
        assert wait_for(lambda: cluster.pod("f0")["spec"].get("nodeName"), "a node") in NODES


def test_a_yes_without_a_binding_hangs_for_good(cluster: Cluster, api: apiserver.ApiServer) -> None:
    def lie(path: str, body: Obj) -> Obj:
        return {"NodeNames": [NODES[0]]} if path == "/filter" else {"Error": ""}

    with Peer(lie) as peer, scheduler.Scheduler(api.url, extender_config=config(peer.url), backoff_s=0.05) as loop:
        cluster.create_pod("f0")
        wait_for(lambda: cluster.events("f0", "Scheduled"), "the Scheduled event")
        cluster.create_node("another")
        wait_for(lambda: not loop.counts()["active"], "an idle queue")
        assert len(peer.asked("/filter")) == 1
    assert not cluster.pod("f0")["spec"].get("nodeName")


def test_a_refused_pod_is_asked_about_twice_then_again_at_any_node_change(
    cluster: Cluster, api: apiserver.ApiServer
) -> None:
    refuse = {"FailedNodes": dict.fromkeys(NODES, "no card fits")}
    with (
        Peer(lambda path, body: refuse) as peer,
        scheduler.Scheduler(api.url, extender_config=config(peer.url)) as loop,
    ):
        cluster.create_pod("f0")
        wait_for(lambda: len(peer.asked("/filter")) == 2 and loop.counts()["waiting"], "two calls, then rest")
        cluster.api.patch(client.path_of("nodes", "", NODES[0]), {"metadata": {"annotations": {"a": "b"}}})
        wait_for(lambda: len(peer.asked("/filter")) == 3, "a third call")


def test_a_heartbeat_wakes_nobody(cluster: Cluster, api: apiserver.ApiServer) -> None:
    refuse = {"FailedNodes": dict.fromkeys(NODES, "no card fits")}
    with (
        Peer(lambda path, body: refuse) as peer,
        scheduler.Scheduler(api.url, extender_config=config(peer.url)) as loop,
    ):
        cluster.create_pod("f0")
        wait_for(lambda: len(peer.asked("/filter")) == 2 and loop.counts()["waiting"], "two calls, then rest")
        beat = {"status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": "2030-01-01T00:00:00Z"}]}}
        cluster.api.patch(client.path_of("nodes", "", NODES[0], "status"), beat, client.STRATEGIC_PATCH)
        cluster.api.patch(client.path_of("nodes", "", NODES[1]), {"metadata": {"labels": {"a": "b"}}})
        wait_for(lambda: len(peer.asked("/filter")) == 3, "one call for the label alone")
        assert len(peer.asked("/filter")) == 3


def test_changing_reason_texts_make_the_scheduler_ask_without_end(cluster: Cluster, api: apiserver.ApiServer) -> None:
    counter = iter(range(1_000_000))

    def refuse(path: str, body: Obj) -> Obj:
        return {"FailedNodes": dict.fromkeys(NODES, f"free {next(counter)} MiB")}

    with Peer(refuse) as peer, scheduler.Scheduler(api.url, extender_config=config(peer.url)):
        cluster.create_pod("f0")
        wait_for(lambda: len(peer.asked("/filter")) > 20, "calls without end")


def test_a_failed_bind_runs_the_whole_cycle_again(cluster: Cluster, api: apiserver.ApiServer) -> None:
    good, failures = binding(cluster), iter([True])

    def answer(path: str, body: Obj) -> Obj:
        if path == "/bind" and next(failures, False):
            return {"Error": "card is gone"}
        found: Obj = good(path, body)
        return found

    with Peer(answer) as peer, scheduler.Scheduler(api.url, extender_config=config(peer.url), backoff_s=0.05):
        cluster.create_pod("f0")
        wait_for(lambda: cluster.pod("f0")["spec"].get("nodeName"), "a node")
    assert [event["message"] for event in cluster.events("f0", "FailedScheduling")] == ["card is gone"]
    assert len(peer.asked("/filter")) == 2
    assert cluster.condition("f0")["status"] == "True"


def test_a_pod_without_managed_resources_is_bound_by_the_scheduler_itself(
    cluster: Cluster, api: apiserver.ApiServer
) -> None:
    with Peer(lambda path, body: 500) as peer, scheduler.Scheduler(api.url, extender_config=config(peer.url)):
        cluster.create_pod("plain", gpus=None)
        wait_for(lambda: cluster.pod("plain")["spec"].get("nodeName"), "a node")
        wait_for(lambda: cluster.events("plain", "Scheduled"), "the Scheduled event")
    assert peer.calls == []


def test_a_gated_pod_is_not_scheduled_until_its_gate_falls(cluster: Cluster, api: apiserver.ApiServer) -> None:
    with Peer(binding(cluster)) as peer, scheduler.Scheduler(api.url, extender_config=config(peer.url)):
        cluster.create_pod("gated", schedulingGates=[{"name": "platform.hami.io/quota"}])
        assert cluster.condition("gated")["reason"] == "SchedulingGated"
        cluster.create_pod("other")
        wait_for(lambda: cluster.pod("other")["spec"].get("nodeName"), "a node for the other")
        assert len(peer.asked("/filter")) == 1
        cluster.api.patch(client.path_of("pods", "default", "gated"), {"spec": {"schedulingGates": []}})
        wait_for(lambda: cluster.pod("gated")["spec"].get("nodeName"), "a node")


def test_higher_priority_goes_first(cluster: Cluster, api: apiserver.ApiServer) -> None:
    high = {"metadata": {"name": "high"}, "value": 1000, "kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1"}
    cluster.api.create(client.path_of("priorityclasses", group="scheduling.k8s.io"), high)
    cluster.create_pod("low")
    cluster.create_pod("first", priorityClassName="high")
    with Peer(binding(cluster)) as peer, scheduler.Scheduler(api.url, extender_config=config(peer.url)):
        wait_for(lambda: cluster.pod("low")["spec"].get("nodeName"), "a node")
    assert [body["Pod"]["metadata"]["name"] for body in peer.asked("/filter")] == ["first", "low"]


def test_binds_run_side_by_side(cluster: Cluster, api: apiserver.ApiServer) -> None:
    barrier, good = threading.Barrier(5), binding(cluster)

    def answer(path: str, body: Obj) -> Any:
        if path == "/bind":
            barrier.wait(20)
        return good(path, body)

    with Peer(answer) as peer, scheduler.Scheduler(api.url, extender_config=config(peer.url, timeout_s=30.0)):
        for index in range(5):
            cluster.create_pod(f"p{index}")
        wait_for(lambda: all(cluster.pod(f"p{index}")["spec"].get("nodeName") for index in range(5)), "five nodes")


def test_in_tree_refusals_name_their_reason_and_do_not_ask_the_extender(
    cluster: Cluster, api: apiserver.ApiServer
) -> None:
    cluster.api.patch(client.path_of("nodes", "", NODES[0]), {"spec": {"unschedulable": True}})
    taint = {"key": "gpu", "effect": "NoSchedule"}
    cluster.api.patch(client.path_of("nodes", "", NODES[1]), {"spec": {"taints": [taint]}})
    with Peer(binding(cluster)) as peer, scheduler.Scheduler(api.url, extender_config=config(peer.url)):
        cluster.create_pod("wide", nodeSelector={"zone": "nowhere"})
        message = wait_for(lambda: cluster.condition("wide"), "a condition")["message"]
    assert message == (
        "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
        "1 node(s) had untolerated taint(s), "
        "1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/3 nodes are available: "
        "3 Preemption is not helpful for scheduling."
    )
    assert peer.calls == []


def test_cpu_is_counted_with_assumed_pods(cluster: Cluster, api: apiserver.ApiServer) -> None:
    with scheduler.Scheduler(api.url):
        for index in range(4):
            body = equipment.make_pod(f"big{index}", gpus=None)
            body["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "20"
            cluster.api.create("/api/v1/namespaces/default/pods", body)
        wait_for(
            lambda: any("Insufficient cpu" in cluster.condition(f"big{i}").get("message", "") for i in range(4)),
            "a refusal",
        )
        wait_for(
            lambda: sum(bool(cluster.pod(f"big{i}")["spec"].get("nodeName")) for i in range(4)) == 3, "three nodes"
        )


@pytest.mark.parametrize("nodes, seen", [(3, 3), (99, 99), (100, 100), (1000, 420), (5000, 500), (20000, 1000)])
def test_a_large_cluster_is_sampled(nodes: int, seen: int) -> None:
    assert predicates.nodes_to_find(nodes) == seen


def test_a_pod_that_changes_while_it_is_bound_is_retried_as_it_is_then(
    cluster: Cluster, api: apiserver.ApiServer
) -> None:
    good, failures = binding(cluster), iter([True])

    def answer(path: str, body: Obj) -> Any:
        if path == "/bind" and next(failures, False):
            cluster.api.patch(client.path_of("pods", "default", "f0"), {"metadata": {"annotations": {"new": "1"}}})
            return {"Error": "busy"}
        return good(path, body)

    with (
        Peer(answer) as peer,
        scheduler.Scheduler(api.url, extender_config=config(peer.url), backoff_s=0.2),
    ):
        cluster.create_pod("f0")
        wait_for(lambda: cluster.pod("f0")["spec"].get("nodeName"), "a node")
    assert peer.asked("/filter")[-1]["Pod"]["metadata"]["annotations"] == {"new": "1"}
