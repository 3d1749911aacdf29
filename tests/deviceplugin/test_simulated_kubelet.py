"""The agent beside the simulated kubelet, which admits pods and walks them through their containers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hami_platform.simulator.kubelet import Kubelet
from tests.deviceplugin.builders import GPU_A, GPU_B, NODE, device_record, inventory_file, row
from tests.deviceplugin.process import Rig, until


@pytest.fixture
def kubelet(rig: Rig) -> Iterator[Kubelet]:
    with Kubelet(rig.url, NODE, plugin_dir=rig.sockets, scale=100.0) as made:
        yield made


def allocatable(rig: Rig) -> str:
    return str(rig.node().status.allocatable.get("nvidia.com/gpu"))


def phase(rig: Rig, name: str, wanted: str) -> bool:
    return rig.pod(name).status.phase == wanted


def test_allocatable_follows_the_agents_cards_and_a_kubelet_restart(rig: Rig, kubelet: Kubelet) -> None:
    rig.start()
    until(lambda: allocatable(rig) == "6")
    kubelet.restart_plugins()
    until(lambda: allocatable(rig) == "6")
    inventory_file(rig.folder, device_record(GPU_A, health="unhealthy"), device_record(GPU_B))
    until(lambda: allocatable(rig) == "3")


def test_pods_with_init_containers_run_one_after_the_other(rig: Rig, kubelet: Kubelet) -> None:
    rig.start()
    until(lambda: allocatable(rig) == "6")
    for number in range(5):
        name = f"pod-{number}"
        rig.bound_pod(name, row((GPU_A, 2000, 20)) + row((GPU_B, 1000, 10)), inits=["fetch"])
        until(lambda name=name: phase(rig, name, "Running"))
    until(lambda: len({report["uid"] for report in rig.web.reports}) == 5)


def test_a_mismatched_pod_is_failed_by_kubelet_and_the_next_one_runs(rig: Rig, kubelet: Kubelet) -> None:
    rig.start()
    until(lambda: allocatable(rig) == "6")
    rig.bound_pod("wrong", row((GPU_A, 1000, 10), (GPU_B, 1000, 10)), asks=1)
    until(lambda: phase(rig, "wrong", "Failed"))
    status = rig.status("wrong")
    assert status["reason"] == "UnexpectedAdmissionError"
    assert "device number not matched: pod nlp/wrong" in status["message"]
    rig.bound_pod("right", row((GPU_A, 1000, 10)))
    until(lambda: phase(rig, "right", "Running"))
