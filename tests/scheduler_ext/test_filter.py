"""`/filter`: the form asked is the form answered, and a refusal's text is constant."""

from __future__ import annotations

from typing import Any

import pytest

from accounting import live_view
from accounting.models import Refusal, Trace
from accounting.services import cluster_api, quotas, what_if
from hami_platform import env
from hami_platform.domain import quota
from scheduler_ext import background, events
from tests.scheduler_ext.world import World, container, pod, row, total_mib

PLAIN = {"name": "main", "image": "i", "resources": {"limits": {"cpu": "1"}}}


def with_uid(body: dict[str, Any], uid: str = "u1") -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "uid": uid}}


def whole(*names: str) -> dict[str, Any]:
    return {"metadata": {}, "items": [{"metadata": {"name": name}, "spec": {}} for name in names]}


def test_a_pod_goes_to_one_node_and_holds_its_devices(world: World) -> None:
    made = world.create(pod("p"))
    assert world.filter(made) == {
        "Nodes": None,
        "NodeNames": ["n1"],
        "FailedNodes": None,
        "FailedAndUnresolvableNodes": None,
        "Error": "",
    }
    assert row(made["metadata"]["uid"]).state == "reserved"
    assert total_mib() == 3000


def test_h27_filter_called_five_times_holds_once(world: World) -> None:
    world.node("n2")
    world.compare()
    made = world.create(pod("p"))
    for _ in range(5):
        assert len(world.filter(made, "n1", "n2")["NodeNames"]) == 1
    assert total_mib() == 3000


def test_h66_a_pod_without_devices_gets_back_what_was_asked_in_the_same_form(world: World) -> None:
    plain = with_uid(pod("p", PLAIN))
    assert world.filter(plain, "n1", "x")["NodeNames"] == ["n1", "x"]
    answer = world.post("/filter", {"Pod": plain, "Nodes": whole("n1", "n2"), "NodeNames": None})
    assert answer["Nodes"] == whole("n1", "n2")
    assert answer["NodeNames"] is None


def test_whole_nodes_simulate_and_write_nothing(world: World) -> None:
    made = world.create(pod("p"))
    answer = world.post("/filter", {"Pod": made, "Nodes": whole("n1", "n2"), "NodeNames": None})
    assert [node["metadata"]["name"] for node in answer["Nodes"]["items"]] == ["n1"]
    assert list(answer["FailedNodes"]) == ["n2"]
    assert total_mib() == 0


def test_whole_nodes_reserve_where_the_scheduler_caches_nothing(world: World) -> None:
    made = world.create(pod("p"))
    with env.override(node_cache_capable=False):
        answer = world.post("/filter", {"Pod": made, "Nodes": whole("n1"), "NodeNames": None})
    assert answer["Nodes"] == whole("n1")
    assert total_mib() == 3000


def test_a_refusal_has_one_constant_word_for_all_nodes(world: World) -> None:
    world.node("n2", cards=1)
    world.compare()
    made = world.create(pod("p", container(gpu=2, gpumem=30000)))
    answer = world.filter(made, "n1", "n2", "gone")
    assert answer["NodeNames"] is None
    assert set(answer["FailedNodes"]) == {"n1", "n2", "gone"}
    assert len(set(answer["FailedNodes"].values())) == 1
    assert world.filter(made, "n1", "n2", "gone") == answer


def test_strict_mode_puts_the_exact_lists_on_the_wire(world: World) -> None:
    made = world.create(pod("p", container(gpu=1, gpumem=30000)))
    with env.override(strict_hami=True):
        assert world.filter(made, "n1")["FailedNodes"] == {"n1": "2/2 CardInsufficientMemory"}


def test_strict_mode_gives_who_simulates_the_lists_of_the_nodes_that_do_not_fit(world: World) -> None:
    world.node("n2", cards=1)
    world.compare()
    made = world.create(pod("p", container(gpu=2, gpumem=3000)))
    asked = {"Pod": made, "Nodes": whole("n1", "n2"), "NodeNames": None}
    with env.override(strict_hami=True):
        assert world.post("/filter", asked)["FailedNodes"] == {"n2": "NodeInsufficientDevice"}
        assert world.filter(made, "n1", "n2")["FailedNodes"] is None


def test_a_refusal_for_quota_says_why_each_node_refuses(world: World) -> None:
    quotas.quota_set(namespace="nlp", limits=quota.Limits(memory_mib=2000), reason="t", actor="t")
    made = world.create(pod("p"))
    assert world.filter(made, "n1", "gone")["FailedNodes"] == dict.fromkeys(("n1", "gone"), "ResourceQuotaNotFit")
    with env.override(strict_hami=True):
        answer = world.filter(made, "n1", "gone")
    assert answer["FailedNodes"] == {"n1": "2/2 ResourceQuotaNotFit", "gone": "node unregistered"}


def told_of(world: World, made: dict[str, Any], *nodes: str) -> list[events.PodEvent]:
    """The events of one call of `/filter`."""
    told: list[events.PodEvent] = []
    with background.diverted(lambda queue, item: told.extend(item.events()) if queue == "pod-events" else None):
        world.filter(made, *nodes)
    return told


def test_each_reason_of_a_refusal_is_an_event_with_its_nodes(world: World) -> None:
    world.node("n2", cards=1)
    world.compare()
    made = world.create(pod("p", container(gpu=2, gpumem=30000)))
    told = told_of(world, made, "n1", "n2", "gone")
    assert [one.message for one in told[:2]] == [
        "no available node, 3 nodes do not meet",
        "1 nodes CardInsufficientMemory(n1)",
    ]
    assert told[2].message.startswith("Needs 30000 MiB on each of 2 devices of one node; even when nothing runs")
    assert {(one.reason, one.type) for one in told} == {("FilteringFailed", "Warning")}


def test_an_event_says_what_page_and_command_say(world: World) -> None:
    quotas.quota_set(namespace="nlp", limits=quota.Limits(memory_mib=2000), reason="t", actor="t")
    for name, asks in (("limited", {"gpumem": 4000}), ("large", {"gpumem": 30000})):
        made = world.create(pod(name, container(gpu=1, **asks)))  # type: ignore[arg-type]
        told = told_of(world, made, "n1")
        view = live_view.live().refresh()
        waits = view.pod(made["metadata"]["uid"])
        assert waits is not None
        assert told[-1].message == str(what_if.explain_pod(view, waits).headline)


def test_strict_hami_tells_hamis_events_only(world: World) -> None:
    made = world.create(pod("p", container(gpu=1, gpumem=30000)))
    with env.override(strict_hami=True):
        assert len(told_of(world, made, "n1")) == 2


def test_h62_a_refusal_is_kept_with_numbers_and_per_node_detail(world: World) -> None:
    made = world.create(pod("p", container(gpu=1, gpumem=30000)))
    for _ in range(3):
        world.filter(made, "n1", "nowhere")
    world.flush()
    trace = Trace.objects.get(pod_uid=made["metadata"]["uid"])
    assert (trace.verdict, trace.times) == ("refused", 3)
    assert trace.summary == "0/2 nodes: 1 CardInsufficientMemory, 1 node unregistered"
    assert trace.detail["nodes"] == {"n1": "2/2 CardInsufficientMemory", "nowhere": "node unregistered"}
    assert Refusal.objects.get(pod_uid=made["metadata"]["uid"]).reason == trace.reason


def test_a_placement_ends_the_refusal(world: World) -> None:
    made = world.create(pod("p", container(gpu=2, gpumem=3000)))
    world.filter(made, "nowhere")
    world.filter(made, "n1")
    world.flush()
    assert not Refusal.objects.filter(pod_uid=made["metadata"]["uid"]).exists()
    assert set(Trace.objects.values_list("verdict", flat=True)) == {"refused", "placed"}


def test_events_are_told_as_hami_tells_them(world: World) -> None:
    made = world.placed("p")
    world.bind(made)
    world.flush()
    assert cluster_api.cluster_api() is not None  # the client is there
    found = world.kube.get("/api/v1/namespaces/nlp/events")["items"]
    assert {(one["reason"], one["type"]) for one in found} >= {
        ("FilteringSucceed", "Normal"),
        ("BindingSucceed", "Normal"),
    }
    assert any(one["message"] == "Successfully binding node [n1] to nlp/p" for one in found)


def test_d7_not_ready_is_an_error_and_never_an_empty_list(transactional_db: None, client: Any) -> None:
    body = {"Pod": with_uid(pod("p")), "NodeNames": ["n1"]}
    answer = client.post("/filter", body, content_type="application/json").json()
    assert "not ready" in answer["Error"]
    assert answer["NodeNames"] is None
    assert answer["FailedNodes"] is None


def test_a_pod_that_cannot_be_understood_is_an_error_that_says_why(world: World) -> None:
    answer = world.filter(with_uid(pod("p", container(gpu=1, gpumem="16Gi"))))
    assert "gpumem" in answer["Error"]
    assert answer["NodeNames"] is None


@pytest.mark.parametrize("body", [b"", b"{nope", b"{}"])
def test_a_broken_filter_body_is_answered_in_band(world: World, body: bytes) -> None:
    answer = world.post("/filter", body)
    assert answer["Error"]
    assert answer["NodeNames"] is None


@pytest.mark.parametrize("strict,last", [(False, "n2"), (True, "n1")])
def test_a_node_at_which_pods_stand_in_line_for_their_bind_is_passed_over(
    world: World, strict: bool, last: str
) -> None:
    world.node("n2")
    world.compare()
    nodes = []
    with env.override(node_scheduler_policy="binpack", strict_hami=strict):
        for number in range(5):
            made = world.create(pod(f"p{number}"))
            nodes += world.filter(made, "n1", "n2")["NodeNames"]
            if not number:
                assert world.bind(made, nodes[0]) == ""
    assert nodes == ["n1"] * 4 + [last]
    assert world.filter(world.create(pod("only")), "n1")["NodeNames"] == ["n1"], "where it fits on no other one"
