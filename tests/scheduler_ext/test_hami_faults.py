"""What HAMi v2.10.0's extender gets wrong (the K numbers of docs/compatibility.md), with what is right here."""

from __future__ import annotations

import pytest

from hami_platform import env
from tests.scheduler_ext.world import World, container, pod, row, total_mib

pytestmark = pytest.mark.ledger


def test_k26_a_bind_that_names_another_pod_takes_nothing_from_the_reserved_one(world: World) -> None:
    made = world.placed("p")
    uid = made["metadata"]["uid"]
    for name in ("unknown", "other"):
        other = {"metadata": {"name": name, "namespace": "nlp", "uid": uid}}
        if name == "other":
            world.create(pod(name))
        assert world.bind(other)
        assert "nodeName" not in world.get("p")["spec"]
        assert (row(uid).state, total_mib()) == ("reserved", 3000)
    assert world.bind(made) == ""


def test_k35_a_call_without_any_node_list_is_an_error(world: World) -> None:
    made = world.create(pod("p"))
    answer = world.post("/filter", {"Pod": made, "Nodes": None, "NodeNames": None})
    assert answer["Error"]
    assert total_mib() == 0


def test_k36_a_simulation_sees_live_use_and_names_every_node_that_fits(world: World) -> None:
    for name in ("n2", "n3"):
        world.node(name, cards=1)
    world.compare()
    full = world.create(pod("full", container(gpu=1)))
    assert world.filter(full, "n3")["NodeNames"] == ["n3"]
    asked = {"Pod": world.create(pod("p")), "NodeNames": None}
    nodes = {"items": [{"metadata": {"name": name}, "spec": {}} for name in ("n1", "n2", "n3")]}
    answer = world.post("/filter", asked | {"Nodes": nodes})
    assert sorted(node["metadata"]["name"] for node in answer["Nodes"]["items"]) == ["n1", "n2"]
    assert list(answer["FailedNodes"]) == ["n3"]


def test_k41_the_nodes_refused_on_the_way_are_told_with_a_success(world: World) -> None:
    world.node("n2", cards=1)
    world.compare()
    made = world.create(pod("p", container(gpu=2, gpumem=1000)))
    answer = world.filter(made, "n1", "n2")
    assert answer["NodeNames"] == ["n1"]
    assert answer["FailedNodes"] == {"n2": "NodeInsufficientDevice"}
    with env.override(strict_hami=True):
        assert world.filter(made, "n1", "n2")["FailedNodes"] is None
