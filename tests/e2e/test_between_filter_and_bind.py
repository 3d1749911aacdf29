"""A pod that disappears after /filter chose a card for it and before /bind, asked as kube-scheduler asks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster import kube, nodes
from tests.cluster.kube import eventually
from tests.cluster.platform import Platform
from tests.cluster.space import Space
from tests.e2e.conftest import GPU_NODES


@pytest.fixture
def without_scheduler(platform: Platform) -> Iterator[Platform]:
    """kube-scheduler stands still, so that the test alone asks the extender."""
    with platform.plane.without_scheduler():
        yield platform


def _filter(platform: Platform, pod: dict[str, object]) -> str:
    body = {"Pod": pod, "Nodes": None, "NodeNames": list(GPU_NODES)}
    status, answer = platform.ask("extender", "POST", "/filter", body)
    assert status == 200
    assert not answer["Error"]
    (node,) = answer["NodeNames"]
    return str(node)


def test_deleted_pod_leaves_nothing_held(without_scheduler: Platform, team: Space) -> None:
    pod = team.create(nodes.pod("brief", nodes.container(gpu=1)))
    node = _filter(without_scheduler, pod)
    assert team.row("brief")["state"] == "reserved"

    team.delete("brief")
    eventually("nothing is held", lambda: not team.holding(), within_s=10)
    bind = {"PodName": "brief", "PodNamespace": team.name, "PodUID": pod["metadata"]["uid"], "Node": node}
    _, answer = without_scheduler.ask("extender", "POST", "/bind", bind)
    assert answer["Error"]
    assert not team.holding()


def test_pod_of_the_same_name_is_another_pod(without_scheduler: Platform, team: Space) -> None:
    old = team.create(nodes.pod("again", nodes.container(gpu=1)))
    node = _filter(without_scheduler, old)
    team.delete("again")
    new = team.create(nodes.pod("again", nodes.container(gpu=1)))
    bind = {"PodName": "again", "PodNamespace": team.name, "PodUID": old["metadata"]["uid"], "Node": node}
    _, answer = without_scheduler.ask("extender", "POST", "/bind", bind)
    assert answer["Error"]
    assert team.node_of("again") is None
    assert team.pod("again")["metadata"]["uid"] == new["metadata"]["uid"]


def test_pods_deleted_while_being_scheduled_leave_nothing_held(team: Space) -> None:
    names = [f"brief-{number}" for number in range(60)]

    def make_and_delete(name: str) -> None:
        team.create(nodes.pod(name, nodes.container(gpu=1, gpumem=1024)))
        team.api.delete(kube.pod_path(team.name, name), grace_s=0)

    kube.at_once(make_and_delete, names)
    eventually("nothing is held", lambda: not team.holding(), within_s=30)
