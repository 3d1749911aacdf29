"""Scenarios as data, and the crowd that plays them."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_platform.domain.wire import node_register
from hami_platform.simulator import apiserver, crowd, kubelet, scenarios
from tests.simulator.equipment import Cluster, wait_for

SEEDS = st.integers(0, 10_000)


@given(SEEDS)
def test_the_same_seed_makes_the_same_cluster_and_stream(seed: int) -> None:
    first, second = scenarios.seeded(seed), scenarios.seeded(seed)
    assert first == second
    assert list(itertools.islice(first.stream(), 20)) == list(itertools.islice(second.stream(), 20))


@given(SEEDS, st.integers(1, 20), st.integers(1, 100))
def test_all_cards_are_on_nodes_and_register_as_the_codec_reads(seed: int, nodes: int, cards: int) -> None:
    made = scenarios.seeded(seed, nodes=nodes, cards=cards).nodes
    assert sum(node.cards for node in made) == cards
    for node in made:
        text = node.as_registered()["annotations"][scenarios.REGISTER_KEY]
        assert set(node_register.decode(text, vendor=scenarios.VENDOR)) == set(node.registered())


def test_a_file_of_the_same_shape_can_be_read(tmp_path: Path) -> None:
    made = scenarios.seeded(1)
    file = tmp_path / "scenario.json"
    file.write_bytes(msgspec.json.encode(made))
    assert scenarios.read(file) == made


def test_a_wrong_field_in_a_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "scenario.json"
    file.write_text(
        '{"seed": 1, "nodes": [{"name": "n", "model": "m", "cards": "two", "memory_mib": 1}], "namespaces": []}'
    )
    with pytest.raises(msgspec.ValidationError, match=r"nodes\[0\]\.cards|\$\.nodes\[\.\.\.\]\.cards"):
        scenarios.read(file)


def test_the_crowd_creates_what_stays_and_sweeps_what_has_ended() -> None:
    guest = scenarios.Ask("team", "guest-done", run_s=60)
    resident = scenarios.Ask("team", "resident")
    node = scenarios.Node("n1", "NVIDIA L40S", 2, 46068)
    scenario = scenarios.Scenario(
        1, (node,), ("team",), {"team": {"limits.nvidia.com/gpumem": "20Gi"}}, (resident, guest)
    )
    with apiserver.ApiServer() as api, kubelet.Kubelet(api.url, "n1", scale=6000):
        cluster = Cluster(api.url)
        users = crowd.Crowd(api.url, scenario, scale=6000)
        users.found()
        for name in ("resident", "guest-done"):
            binding = {"metadata": {"name": name}, "target": {"name": "n1"}}
            cluster.api.create(f"/api/v1/namespaces/team/pods/{name}/binding", binding)
        users.start()
        wait_for(lambda: "guest-done" not in names(cluster), "the guest to be swept")
        wait_for(lambda: "guest-1" in names(cluster) or users.outcomes["created"] > 4, "a new guest")
        assert "resident" in names(cluster)
        users.stop()
        cluster.api.close()
    assert api.requests[("POST", "resourcequotas")] == 1


def names(cluster: Cluster) -> set[str]:
    return {item["metadata"]["name"] for item in cluster.api.get("/api/v1/namespaces/team/pods")["items"]}
