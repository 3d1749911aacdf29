"""A real kubelet and real containers: MIG instances, device nodes, an operator's instances, and what a restart finds.

The driver is the stub library; one card is in MIG mode, the other is shared.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import containers, gpu_node
from tests.cluster.gpu_node import CARDS, NAME, GpuNode
from tests.cluster.kube import eventually
from tests.cluster.platform import Platform
from tests.cluster.space import Space
from tests.deviceplugin import nvml_stub
from tests.e2e.test_kubelet import container, environment, kubelet_binary, pod, said

MIG = ("mig 1", *nvml_stub.A100_40GB)
SHARES = 7 + 10
INSTANCES = "nvidia.com/mig-1g.5gb"

__all__ = ["kubelet_binary"]  # a fixture, found by its name


def offered(platform: Platform, resource: str = "nvidia.com/gpu") -> int:
    """What the kubelet says that it can allocate."""
    found = platform.plane.kube.get(f"/api/v1/nodes/{NAME}") or {}
    return int(found.get("status", {}).get("allocatable", {}).get(resource, 0))


@pytest.fixture(scope="module")
def node(kubelet_binary: Path, platform: Platform) -> Iterator[GpuNode]:
    """A node with a card in MIG mode and a shared one; it leaves the cluster after the module."""
    with gpu_node.running(kubelet_binary, platform, HAMI_RESYNC_INTERVAL="2s") as started:
        try:
            started.show_cards(*MIG)
            eventually("the kubelet offers shares of both cards", lambda: offered(platform) == SHARES, within_s=60)
            eventually("the ledger knows the cards", lambda: set(CARDS) <= set(platform.ledger.devices()))
            yield started
        finally:
            platform.plane.kube.delete(f"/api/v1/nodes/{NAME}")
    assert containers.left_behind() == []
    eventually("its cards are gone", lambda: not set(CARDS) & set(platform.ledger.devices()))


@contextlib.contextmanager
def other_settings(node: GpuNode, platform: Platform, **settings: str) -> Iterator[None]:
    """Within: the agent runs with these settings too."""
    _again(node, settings)
    yield
    _again(node, {})
    eventually("the shares of both cards are offered again", lambda: offered(platform) == SHARES, within_s=60)


def _again(node: GpuNode, settings: dict[str, str]) -> None:
    before = node.registrations()
    node.agent.stop()
    node.start_agent(**settings)
    eventually("the agent registered again", lambda: node.registrations() > before, within_s=60)


def geometry(node: GpuNode) -> list[str]:
    path = Path(f"{node.scenario}.mig")
    lines = path.read_text().splitlines() if path.exists() else []
    return [line for line in lines if line.startswith("instance")]


def test_a_container_gets_an_instance_that_goes_with_its_pod(node: GpuNode, platform: Platform, team: Space) -> None:
    asked = container(script="env; echo told; sleep 3600", gpu=1, gpumem=4864)
    team.create(pod("cut", asked, annotations={"nvidia.com/vgpu-mode": "mig"}))
    found = environment(node, team, "cut")
    assert found["NVIDIA_VISIBLE_DEVICES"].startswith("MIG-")
    assert not [name for name in found if name.startswith("CUDA_")]
    assert len(geometry(node)) == 1
    assert team.row("cut")["shares"][0]["uuid"] == CARDS[0]
    team.delete("cut")
    eventually("the instance is gone", lambda: not geometry(node), within_s=60)


def test_a_container_gets_the_nodes_of_its_card_and_no_others(node: GpuNode, platform: Platform, team: Space) -> None:
    root = node.folder / "driver"
    for name, minor in (("nvidiactl", 3), ("nvidia0", 5), ("nvidia1", 7)):
        path = root / "dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, minor))
        except PermissionError:
            pytest.skip("this machine lets nobody make device nodes")
    settings = {"HAMI_PASS_DEVICE_SPECS": "true", "HAMI_DRIVER_ROOT": str(root), "HAMI_DRIVER_ROOT_INSIDE": str(root)}
    with other_settings(node, platform, **settings):
        asked = container(script="ls /dev; echo told; sleep 3600", gpu=1, gpumem=1024)
        team.create(pod("nodes", asked, annotations={"nvidia.com/vgpu-mode": "hami-core"}))
        seen = {line for line in said(node, team, "nodes") if line.startswith("nvidia")}
        assert seen == {"nvidiactl", "nvidia1"}
        team.delete("nodes")


def test_an_operators_instances_are_given_as_the_kubelet_picks_them(
    node: GpuNode, platform: Platform, team: Space
) -> None:
    Path(f"{node.scenario}.mig").write_text("".join(f"instance {CARDS[0]} {n} 41 {n - 1} 1 0\n" for n in (1, 2)))
    with other_settings(node, platform, HAMI_MIG_STRATEGY="mixed"):
        eventually("the kubelet offers the instances", lambda: offered(platform, INSTANCES) == 2, within_s=60)
        eventually("only the shared card is offered in shares", lambda: offered(platform) == 10, within_s=60)
        asked: dict[str, Any] = container(script="env; echo told; sleep 3600")
        asked["resources"] = {"limits": {INSTANCES: 1}}
        team.create(pod("picked", asked))
        assert environment(node, team, "picked")["NVIDIA_VISIBLE_DEVICES"].startswith("MIG-")
        assert not team.holding()
        team.delete("picked")
    assert len(geometry(node)) == 2
    Path(f"{node.scenario}.mig").unlink()


def test_a_card_that_is_lost_is_offered_again_when_it_answers(node: GpuNode, platform: Platform, team: Space) -> None:
    waits = container(script="env; echo told; sleep 3600", gpu=1, gpumem=4864)
    node.show_cards(*MIG, "error * 15")
    eventually("the kubelet offers the other card alone", lambda: offered(platform) == 10, within_s=60)
    team.create(pod("patient", waits, annotations={"nvidia.com/vgpu-mode": "mig"}))
    eventually("nothing fits", lambda: team.condition("patient").get("reason") == "Unschedulable", within_s=60)
    node.show_cards(*MIG)
    assert environment(node, team, "patient")["NVIDIA_VISIBLE_DEVICES"].startswith("MIG-")
    eventually("the kubelet says so of its node, too", lambda: offered(platform) == SHARES, within_s=60)
    team.delete("patient")


def test_what_the_kubelet_holds_and_the_agent_knows_nothing_of_is_a_finding_while_it_lasts(
    node: GpuNode, platform: Platform, team: Space
) -> None:
    asked = container(script="sleep 3600", gpu=1, gpumem=1024)
    team.create(pod("forgotten", asked, annotations={"nvidia.com/vgpu-mode": "hami-core"}))
    team.await_phase("forgotten", "Running", within_s=60)
    assert platform.ledger.findings("kubelet-differs") == {}
    before = node.registrations()
    node.agent.stop()
    (node.folder / "agent" / "agent.json").unlink()
    node.start_agent()
    found = eventually("it is found", lambda: platform.ledger.findings("kubelet-differs"), within_s=60)
    (message,) = found.values()
    assert f"{NAME}: {team.name}/forgotten main" in found
    assert "the agent has no record of it" in message
    team.delete("forgotten")
    eventually("it is over", lambda: not platform.ledger.findings("kubelet-differs"), within_s=60)
    assert node.registrations() > before


def test_before_a_restart_what_the_container_was_given_is_made_again(
    node: GpuNode, platform: Platform, team: Space
) -> None:
    with other_settings(node, platform, HAMI_PRE_START="true", HAMI_RESYNC_INTERVAL="10m"):
        asked = container(script="sleep 3600", gpu=1, gpumem=1024)
        team.create(pod("again", asked, annotations={"nvidia.com/vgpu-mode": "hami-core"}))
        uid = team.await_phase("again", "Running", within_s=60)["metadata"]["uid"]
        own = node.folder / "hook" / "vgpu" / "containers" / f"{uid}_main"
        shutil.rmtree(own)
        node.runtime.kill_containers()

        def restarted() -> bool:
            (status,) = team.pod("again")["status"]["containerStatuses"]
            return bool(status["restartCount"])

        eventually("the container was started again", restarted, within_s=90)
        assert own.stat().st_mode & 0o777 == 0o777  # the runtime alone would make one that only root may write
        team.delete("again")
