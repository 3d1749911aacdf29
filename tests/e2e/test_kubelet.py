"""A node with the real kubelet, real containers and our agent over the real NVML bindings: what containers really get.

The driver is a stub library and nothing loads the limiting one, since there is no GPU: what is shown is that limits,
mounts and cards arrive, in the right container, whatever restarts.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import binaries, containers, gpu_node, hami_plugin, images, nodes
from tests.cluster.gpu_node import CARDS, NAME, GpuNode
from tests.cluster.kube import eventually
from tests.cluster.platform import Platform
from tests.cluster.space import Space

SHARES = len(CARDS) * 10
STAYS = "env; cat /etc/ld.so.preload; echo told; sleep 3600"


@pytest.fixture(scope="module")
def kubelet_binary(cluster_binaries: Path) -> Path:
    """Built beside the control plane. Without what containers need the module is skipped; not in CI."""
    lacks = containers.missing()
    if lacks and not os.environ.get("CI"):
        pytest.skip(f"a node with real containers needs {', '.join(lacks)}")
    assert not lacks
    return binaries.ensure([binaries.KUBELET]) / binaries.KUBELET.name


@pytest.fixture(scope="module")
def node(kubelet_binary: Path, platform: Platform) -> Iterator[GpuNode]:
    """The node, ready and known to the ledger; it leaves the cluster after the module."""
    api = platform.plane.kube
    with gpu_node.running(kubelet_binary, platform) as started:
        try:
            eventually("the kubelet offers the shares", lambda: allocatable(platform) == SHARES, within_s=60)
            eventually("the ledger knows the cards", lambda: set(CARDS) <= set(platform.ledger.devices()))
            yield started
        finally:
            api.delete(f"/api/v1/nodes/{NAME}")
    assert containers.left_behind() == []
    eventually("its cards are gone", lambda: not set(CARDS) & set(platform.ledger.devices()))


def allocatable(platform: Platform) -> int:
    """Shares that the kubelet offers now, while it says Ready."""
    found = platform.plane.kube.get(f"/api/v1/nodes/{NAME}")
    if found is None or not nodes.is_ready(found):
        return -1
    return int(found["status"]["allocatable"].get("nvidia.com/gpu", 0))


def container(name: str = "main", script: str = STAYS, **limits: int) -> dict[str, Any]:
    real = {"image": images.BUSYBOX, "imagePullPolicy": "Never", "command": ["sh", "-c", script]}
    return nodes.container(name, **limits) | real


def pod(name: str, *asked: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return nodes.pod(name, *asked, nodeSelector={"kubernetes.io/hostname": NAME}, **spec)


def said(node: GpuNode, team: Space, name: str, of: str = "main") -> list[str]:
    """What a container has written, once it has written `told`."""
    uid = team.pod(name)["metadata"]["uid"]
    folder = node.folder / "pod-logs" / f"{team.name}_{name}_{uid}" / of

    def lines() -> list[str]:
        newest = sorted(folder.glob("*.log"))[-1:]
        found = [line.split(" ", 3)[-1] for path in newest for line in path.read_text().splitlines()]
        return found if "told" in found else []

    whole: list[str] = eventually(f"{name} has spoken", lines, within_s=60)
    return whole


def environment(node: GpuNode, team: Space, name: str, of: str = "main") -> dict[str, str]:
    return dict(line.split("=", 1) for line in said(node, team, name, of) if "=" in line)


def limits(found: dict[str, str]) -> tuple[str, str]:
    return found["CUDA_DEVICE_MEMORY_LIMIT_0"], found["CUDA_DEVICE_SM_LIMIT"]


@contextlib.contextmanager
def registering_again(node: GpuNode, platform: Platform) -> Iterator[None]:
    """After the block the agent makes itself known anew, and the kubelet offers all shares."""
    before = node.registrations()
    yield
    eventually("the agent registered again", lambda: node.registrations() > before, within_s=90)
    eventually("the shares are offered again", lambda: allocatable(platform) == SHARES, within_s=60)


def unlocked(platform: Platform) -> Callable[[], bool]:
    return lambda: NAME not in platform.ledger.locks()


def test_a_container_sees_its_card_its_limits_and_the_library(node: GpuNode, platform: Platform, team: Space) -> None:
    team.create(pod("one", container(gpu=1, gpumem=1024, gpucores=10)))
    team.await_phase("one", "Running", within_s=60)
    lines = said(node, team, "one")
    found = dict(line.split("=", 1) for line in lines if "=" in line)
    (share,) = team.row("one")["shares"]
    assert found["NVIDIA_VISIBLE_DEVICES"] == share["uuid"]
    assert share["uuid"] in CARDS
    assert limits(found) == ("1024m", "10")
    assert f"{node.folder}/hook/vgpu/libvgpu.so" in lines
    eventually("the node's lock fell", unlocked(platform))
    held = platform.ledger.devices()[share["uuid"]]
    assert held == {"slots": 1, "memory_mib": 1024, "core_percent": 10}


def test_two_pods_of_the_same_second_get_each_its_own(node: GpuNode, platform: Platform, team: Space) -> None:
    for turn in range(3):
        asked = {f"small-{turn}": (1024, 10), f"large-{turn}": (2048, 20)}
        for name, (memory, cores) in asked.items():
            team.create(pod(name, container(gpu=1, gpumem=memory, gpucores=cores)))
        for name, (memory, cores) in asked.items():
            found = environment(node, team, name)
            assert limits(found) == (f"{memory}m", str(cores))
            assert found["NVIDIA_VISIBLE_DEVICES"] == team.row(name)["shares"][0]["uuid"]
    eventually("the node's lock fell", unlocked(platform))


def test_a_pod_of_which_only_an_init_container_asks(node: GpuNode, platform: Platform, team: Space) -> None:
    asks = container("prepare", "env; echo told", gpu=1, gpumem=3072)
    team.create(pod("init-only", container(script="sleep 3600"), init=[asks]))
    team.await_phase("init-only", "Running", within_s=60)
    assert environment(node, team, "init-only", "prepare")["CUDA_DEVICE_MEMORY_LIMIT_0"] == "3072m"
    eventually("it holds nothing any more", lambda: not team.holding())
    eventually("the node's lock fell", unlocked(platform))


def test_a_restarted_kubelet_finds_the_plugin_and_the_pods_again(
    node: GpuNode, platform: Platform, team: Space
) -> None:
    team.create(pod("before", container(gpu=1, gpumem=1024)))
    team.await_phase("before", "Running", within_s=60)
    held = platform.ledger.devices()
    started = team.pod("before")["status"]["containerStatuses"][0]["state"]
    with registering_again(node, platform):
        node.kubelet.stop()
        node.start_kubelet()
    team.create(pod("after", container(gpu=1, gpumem=2048)))
    assert environment(node, team, "after")["CUDA_DEVICE_MEMORY_LIMIT_0"] == "2048m"
    assert team.pod("before")["status"]["containerStatuses"][0]["state"] == started
    team.delete("after")
    eventually("all is as before", lambda: platform.ledger.devices() == held)


def test_an_agent_killed_during_allocate_costs_one_pod_and_leaks_nothing(
    node: GpuNode, platform: Platform, team: Space
) -> None:
    os.kill(node.agent.pid, signal.SIGSTOP)
    team.create(pod("unlucky", container(gpu=1, gpumem=1024), restartPolicy="Never"))
    team.await_bound("unlucky")
    time.sleep(1)  # the kubelet's call waits in the stopped agent's socket, where nobody can see it
    node.agent.kill()
    team.await_phase("unlucky", "Failed", within_s=60)
    assert team.pod("unlucky")["status"]["reason"] == "UnexpectedAdmissionError"
    eventually("the ledger holds nothing for it", lambda: not team.holding())
    eventually("the node's lock fell", unlocked(platform))
    with registering_again(node, platform):
        node.start_agent()
    team.create(pod("next", container(gpu=1, gpumem=2048)))
    assert environment(node, team, "next")["CUDA_DEVICE_MEMORY_LIMIT_0"] == "2048m"


def test_after_a_power_cut_every_pod_holds_what_it_held_or_nothing(
    node: GpuNode, platform: Platform, team: Space
) -> None:
    names = {f"cut-{number}": 1024 * (number + 1) for number in range(3)}
    for name, memory in names.items():
        team.create(pod(name, container(gpu=1, gpumem=memory)))
    for name in names:
        team.await_phase(name, "Running", within_s=60)
    with registering_again(node, platform):
        node.power_cut()
        node.boot()

    def settled() -> bool:
        statuses = [team.pod(name)["status"] for name in names]
        return all(one["phase"] == "Failed" or _restarted(one) for one in statuses)

    eventually("every pod runs again or has failed", settled, within_s=120)
    alive = {name for name in names if team.pod(name)["status"]["phase"] == "Running"}
    expected = sum(names[name] for name in alive)
    eventually("nothing leaked, nothing doubled", lambda: _held_mib(team) == expected, within_s=60)
    for name in alive:
        assert environment(node, team, name)["CUDA_DEVICE_MEMORY_LIMIT_0"] == f"{names[name]}m"
    eventually("the node's lock fell", unlocked(platform))


def test_in_hamis_mode_lock_and_phase_are_annotations(node: GpuNode, platform: Platform, team: Space) -> None:
    with _hamis_mode(node, platform):
        asked = {"first": 1024, "second": 2048}
        for name, memory in asked.items():
            team.create(pod(name, container(gpu=1, gpumem=memory)))
        for name, memory in asked.items():
            assert environment(node, team, name)["CUDA_DEVICE_MEMORY_LIMIT_0"] == f"{memory}m"
            assert team.pod(name)["metadata"]["annotations"]["hami.io/bind-phase"] == "success"
        found = team.api.get(f"/api/v1/nodes/{NAME}") or {}
        assert hami_plugin.LOCK not in found["metadata"]["annotations"]
        eventually("the ledger has no lock either", unlocked(platform))


@contextlib.contextmanager
def _hamis_mode(node: GpuNode, platform: Platform) -> Iterator[None]:
    with registering_again(node, platform):
        node.agent.stop()
        node.start_agent_for_hami()
    eventually("the mark is gone", lambda: not platform.ledger.agents()[NAME])
    yield
    with registering_again(node, platform):
        node.agent.stop()
        node.start_agent()
    eventually("the mark is back", lambda: platform.ledger.agents()[NAME])


def test_the_kubelet_holds_for_each_pod_what_the_ledger_does(node: GpuNode, platform: Platform, team: Space) -> None:
    names = ("left", "right")
    for name in names:
        team.create(pod(name, container(gpu=1, gpumem=1024)))
    for name in names:
        team.await_phase(name, "Running", within_s=60)
    assert {pod_: len(ids) for (namespace, pod_), ids in node.held().items() if namespace == team.name} == {
        name: len(team.row(name)["shares"]) for name in names
    }


def _restarted(status: dict[str, Any]) -> bool:
    found = status.get("containerStatuses", [])
    return bool(found) and all(one["restartCount"] and "running" in one["state"] for one in found)


def _held_mib(team: Space) -> int:
    return sum(held["memory_mib"] for row in team.holding() for held in row["held"].values())
