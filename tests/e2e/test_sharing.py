"""Shares of cards: what a pod gets, and that wire and ledger say the same.

| asked | held on the card |
|---|---|
| nvidia.com/gpu: 1 alone | all its memory, so nobody else fits |
| 10240 MiB and 30 %, twice, packed | one card: 20480 MiB, 60 % |
"""

from __future__ import annotations

from tests.cluster import nodes
from tests.cluster.kube import eventually
from tests.cluster.space import Space

PACKED = {"hami.io/gpu-scheduler-policy": "binpack"}


def _uuids(team: Space, name: str) -> list[str]:
    return [share["uuid"] for share in team.row(name)["shares"]]


def _agrees_with_ledger(team: Space, name: str) -> bool:
    """The annotations of the bound pod, decoded, are the ledger's shares."""
    written = team.ledger.decoded(team.pod(name)["metadata"]["annotations"])
    wanted = [
        {key: share[key] for key in ("container_index", "uuid", "memory_mib", "core_percent")}
        for share in team.row(name)["shares"]
    ]
    return written == wanted


def test_bare_gpu_gets_the_whole_card(team: Space) -> None:
    team.create(nodes.pod("first", nodes.container(gpu=1)))
    team.create(nodes.pod("second", nodes.container(gpu=1)))
    for name in ("first", "second"):
        team.await_phase(name, "Running")
        (uuid,) = _uuids(team, name)
        assert team.ledger.devices()[uuid]["memory_mib"] == nodes.MEMORY_MIB
    assert _uuids(team, "first") != _uuids(team, "second")


def test_two_pods_share_one_card(team: Space) -> None:
    for name in ("one", "two"):
        asks = nodes.container(gpu=1, gpumem=10240, gpucores=30)
        team.create(nodes.pod(name, asks, annotations=PACKED))
        team.await_phase(name, "Running")
    assert _uuids(team, "one") == _uuids(team, "two")
    (uuid,) = _uuids(team, "one")
    assert team.ledger.devices()[uuid] == {"slots": 2, "memory_mib": 20480, "core_percent": 60}


def test_annotations_of_the_bound_pod_say_what_the_ledger_holds(team: Space) -> None:
    containers = (nodes.container("a", gpu=2, gpumem=4096), nodes.container("plain"), nodes.container("b", gpu=1))
    team.create(nodes.pod("many", *containers))
    bound = team.await_bound("many")
    assert bound["metadata"]["annotations"]["hami.io/vgpu-node"] == bound["spec"]["nodeName"]
    assert bound["metadata"]["labels"]["hami.io/vgpu-node"] == bound["spec"]["nodeName"]
    assert team.row("many")["node"] == bound["spec"]["nodeName"]
    assert _agrees_with_ledger(team, "many")


def test_binding_is_never_reported_as_failed(team: Space) -> None:
    names = [f"p{number}" for number in range(12)]
    for name in names:
        team.create(nodes.pod(name, nodes.container(gpu=1, gpumem=1024)))
    for name in names:
        team.await_phase(name, "Running", within_s=60)
        assert _agrees_with_ledger(team, name)
    assert team.scheduler_errors() == []


def test_node_lock_falls_when_a_container_has_started(team: Space) -> None:
    team.create(nodes.pod("locked", nodes.container(gpu=1), labels=nodes.MANUAL))
    node = team.await_bound("locked")["spec"]["nodeName"]
    uid = team.pod("locked")["metadata"]["uid"]
    assert team.ledger.locks().get(node) == uid

    from tests.cluster import statuses

    statuses.report(team.api, team.name, "locked", init={}, apps={"main": statuses.running()}, phase="Running")
    eventually("the lock is off", lambda: node not in team.ledger.locks(), within_s=10)
