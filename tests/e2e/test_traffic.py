"""What the platform costs the API server and kube-scheduler: writes for each pod, and whom a freed card wakes.

Every write wakes pods that wait: kube-scheduler asks about all of them again at any change of a node or pod.

| | writes to pods and nodes, ours | events |
|---|---|---|
| placed at once, our agent | 1: the Binding | 2 at most |
| placed at once, HAMi's plugin | 2: the node lock and the Binding; the plugin adds three of its own | 2 at most |
| a freed card | 1 at most, of the pod that is woken | |
| pods that wait for quota | none | none |
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from tests.cluster import access, hami_plugin, nodes, writes
from tests.cluster.kube import eventually
from tests.cluster.platform import Platform
from tests.cluster.space import Space

PODS = 12
ASK = nodes.container(gpu=1, gpumem=1024)
WHOLE = nodes.container(gpu=1)


@pytest.fixture
def log(platform: Platform) -> writes.Log:
    return writes.Log(platform.plane.audit_log)


@contextlib.contextmanager
def _node(platform: Platform, name: str, *, gpus: int, agent: bool = True) -> Iterator[dict[str, str]]:
    """A node of its own for a test; the selector that leads to it."""
    api = platform.plane.kube
    api.create("/api/v1/nodes", nodes.gpu_node(name, gpus=gpus, agent=agent))
    last = nodes.device_uuid(name, gpus - 1)
    eventually("its cards are known", lambda: last in platform.ledger.devices())
    eventually("it is ready", lambda: nodes.is_ready(api.get(f"/api/v1/nodes/{name}") or {"spec": {}}))
    try:
        yield {"kubernetes.io/hostname": name}
    finally:
        api.delete(f"/api/v1/nodes/{name}")
        eventually("its cards are gone", lambda: last not in platform.ledger.devices())


def _running(team: Space, pods: list[dict[str, object]]) -> None:
    for pod in pods:
        team.create(pod)
    for pod in pods:
        team.await_phase(str(pod["metadata"]["name"]), "Running", within_s=60)  # type: ignore[index]


def test_a_pod_costs_one_write_with_our_agent_and_two_events(platform: Platform, team: Space, log: writes.Log) -> None:
    first = nodes.pod("first", ASK)
    _running(team, [first])  # the first bind asks for the version and looks at the label
    log.mark()
    _running(team, [nodes.pod(f"p{number}", ASK) for number in range(PODS)])
    assert writes.told(log.ours(namespace=team.name)) == f"create pods/binding {PODS}"
    assert [one for one in log.ours() if one.resource.startswith("nodes")] == []
    eventually("events come later", lambda: _events(team, log))
    assert len(_events(team, log)) <= 2 * PODS


def test_a_pod_costs_two_writes_where_hamis_plugin_serves(platform: Platform, team: Space, log: writes.Log) -> None:
    access.device_plugin(platform.plane.kube)
    own = platform.plane.acting_as(access.PLUGIN_USER)
    with (
        _node(platform, "hami-writes", gpus=2, agent=False) as there,
        contextlib.closing(own),
        hami_plugin.HamiPlugin(own, ("hami-writes",)) as plugin,
    ):
        log.mark()
        pods = [nodes.pod(f"p{n}", ASK, labels=nodes.BEHIND_PLUGIN, nodeSelector=there) for n in range(4)]
        _running(team, pods)
        assert plugin.failures == []
        ours = [one for one in log.ours() if one.namespace == team.name or one.name == "hami-writes"]
        handshakes = 1  # once for the node, not for a pod
        assert len(ours) <= 2 * len(pods) + handshakes, writes.told(ours)


def test_forty_pods_are_bound_to_one_node_of_sixteen_cards(platform: Platform, team: Space) -> None:
    with _node(platform, "gpu-16", gpus=16) as there:
        _running(team, [nodes.pod(f"p{number}", ASK, nodeSelector=there) for number in range(40)])
        assert team.scheduler_errors() == []
        for pod in team.pods():
            team.delete(pod["metadata"]["name"])
        eventually("all are gone", lambda: not team.holding())


def test_a_freed_card_places_one_waiting_pod_within_five_seconds(
    platform: Platform, team: Space, log: writes.Log
) -> None:
    with _node(platform, "gpu-freed", gpus=2) as there:
        _running(team, [nodes.pod(f"holder-{number}", WHOLE, nodeSelector=there) for number in range(2)])
        waiting = [f"waits-{number}" for number in range(10)]
        for name in waiting:
            team.create(nodes.pod(name, WHOLE, nodeSelector=there))
        for name in waiting:
            eventually(f"{name} is refused", lambda name=name: team.row(name).get("refusal"))
        log.mark()
        for number in range(2):
            team.delete(f"holder-{number}")
            placed = number + 1
            eventually("one more is placed", lambda placed=placed: len(_placed(team, waiting)) == placed, within_s=5)
        assert len(log.ours(namespace=team.name)) <= 2 + 2, writes.told(log.ours(namespace=team.name))
        for name in waiting:
            team.delete(name)
        eventually("all are gone", lambda: not team.holding())


def test_pods_that_wait_for_quota_are_never_asked_about(
    platform: Platform, new_space: Callable[[], Space], log: writes.Log
) -> None:
    team, other = new_space(), new_space()
    team.ledger.quota_set(team.name, mode="wait", memory_mib=1024)
    _running(team, [nodes.pod("first", ASK)])
    gated = [f"gated-{number}" for number in range(10)]
    for name in gated:
        team.create(nodes.pod(name, ASK))
    log.mark()
    _running(other, [nodes.pod(f"p{number}", ASK) for number in range(5)])
    for pod in other.pods():
        other.delete(pod["metadata"]["name"])
    eventually("the others are gone", lambda: not other.holding())
    assert log.ours(namespace=team.name) == []
    assert [name for name in gated if team.ledger.traces(team.name, name)] == []


def _events(team: Space, log: writes.Log) -> list[writes.Write]:
    """Those about the pods that are counted; an event is named after its pod."""
    return [one for one in log.ours(namespace=team.name, events=True) if not one.name.startswith("first.")]


def _placed(team: Space, names: list[str]) -> list[str]:
    bound = {pod["metadata"]["name"] for pod in team.pods() if pod["spec"].get("nodeName")}
    return [name for name in names if name in bound]
