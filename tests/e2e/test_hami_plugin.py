"""Nodes without our agent's mark: the lock and the rows live in annotations, as HAMi's device plugin expects.

The plugin is a stand-in that keeps HAMi's protocol; see tests/cluster/hami_plugin.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.cluster import access, hami_plugin, nodes
from tests.cluster.kube import eventually
from tests.cluster.platform import Platform
from tests.cluster.space import Space

NODE = "hami-1"
ON_IT = {"kubernetes.io/hostname": NODE}


@pytest.fixture(scope="module", autouse=True)
def _rights(platform: Platform) -> None:
    access.device_plugin(platform.plane.kube)


@pytest.fixture
def plugin(platform: Platform) -> Iterator[hami_plugin.HamiPlugin]:
    """A node whose cards HAMi's plugin serves; it leaves the cluster after the test."""
    api = platform.plane.kube
    api.create("/api/v1/nodes", nodes.gpu_node(NODE, gpus=2, agent=False))
    eventually("its cards are known", lambda: nodes.device_uuid(NODE, 1) in platform.ledger.devices())
    # Under its own name: the webhook lets nobody else change what the scheduler wrote.
    own = platform.plane.acting_as(access.PLUGIN_USER)
    with contextlib.closing(own), hami_plugin.HamiPlugin(own, (NODE,)) as serving:
        yield serving
    api.delete(f"/api/v1/nodes/{NODE}")
    eventually("its cards are gone", lambda: nodes.device_uuid(NODE, 1) not in platform.ledger.devices())


def _pod(name: str, **spec: object) -> dict[str, object]:
    asks = nodes.container(gpu=1, gpumem=2048)
    return nodes.pod(name, asks, labels=nodes.BEHIND_PLUGIN, nodeSelector=ON_IT, **spec)  # type: ignore[arg-type]


def test_plugin_serves_every_pod_by_the_node_lock(plugin: hami_plugin.HamiPlugin, team: Space) -> None:
    names = {f"served-{number}" for number in range(6)}
    for name in names:
        team.create(_pod(name))
    for name in names:
        team.await_phase(name, "Running", within_s=60)
    assert {each.pod for each in plugin.served} == names
    assert plugin.failures == []
    node = team.api.get(f"/api/v1/nodes/{NODE}") or {}
    assert hami_plugin.LOCK not in node["metadata"]["annotations"]


def test_rows_are_positional_for_containers_without_devices(plugin: hami_plugin.HamiPlugin, team: Space) -> None:
    pod = nodes.pod(
        "rows",
        nodes.container("a", gpu=1, gpumem=1024),
        init=[nodes.container("prepare")],
        labels=nodes.BEHIND_PLUGIN,
        nodeSelector=ON_IT,
    )
    team.create(pod)
    team.await_bound("rows")
    eventually("the plugin served it", lambda: plugin.served)
    (allocation,) = plugin.served
    assert [bool(row) for row in allocation.rows] == [False, True]
    eventually("it says success", lambda: _phase(team) == "success")


def _phase(team: Space) -> str:
    return str(team.pod("rows")["metadata"]["annotations"].get(hami_plugin.PHASE))
