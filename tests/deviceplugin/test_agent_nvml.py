"""The agent as a process over the real bindings and the stub driver: nothing between it and hardware is made up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deviceplugin import __main__ as agent_process
from deviceplugin import loops, nvml
from hami_platform.kube import calls
from tests.deviceplugin import nvml_stub
from tests.deviceplugin.builders import GPU_A, GPU_B, row
from tests.deviceplugin.driver import Driver
from tests.deviceplugin.nvml_stub import Gpu
from tests.deviceplugin.process import ROOT, Rig, until
from tests.deviceplugin.stub_kubelet import StubKubelet

MIG = ("mig 1", *nvml_stub.A100_40GB)
REGISTER = "hami.io/node-nvidia-register"
SCORES = "hami.io/node-nvidia-score"
RESERVED = {"gpuUUID": GPU_A, "profile": "1g.5gb", "placement": {"start": 3, "size": 1}}


class Node:
    """A node with one card in MIG mode and one shared card, which are connected."""

    def __init__(self, rig: Rig, stub: StubKubelet) -> None:
        self.rig = rig
        self.stub = stub
        self.driver = Driver(
            rig.folder / "scenario",
            Gpu(GPU_A, more=[*MIG, f"link {GPU_B} 0 40", "numa 0"]),
            Gpu(GPU_B, model="Tesla T4", memory_mib=15360, more=[f"link {GPU_A} 0 40", "numa 1"]),
        )

    def start(self, **environ: str) -> None:
        lists = len(self.stub.lists)
        settings = {"HAMI_INVENTORY_FILE": "", "ENABLE_TOPOLOGY_SCORE": "true", "HAMI_RESYNC_INTERVAL": "1s"}
        self.rig.start(**nvml_stub.environ(self.driver.scenario), **(settings | environ))
        self.stub.wait(lambda k: len(k.lists) > lists)

    def registered(self) -> dict[str, dict[str, Any]]:
        text = self.rig.node().metadata.annotations.get(REGISTER, "[]")
        return {one["id"]: one for one in json.loads(text)}

    def geometry(self) -> list[str]:
        path = self.driver.scenario.with_name("scenario.mig")
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.startswith("instance")]

    def mig_pod(self, name: str) -> Any:
        reserved = json.dumps([{"containerIndex": 0, "deviceIndex": 0, **RESERVED}])
        return self.rig.bound_pod(name, row((GPU_A, 4864, 15)), notes={"hami.io/vgpu-mig-allocations": reserved})


@pytest.fixture
def node(rig: Rig, sockets: Path) -> Iterator[Node]:
    stub = StubKubelet(sockets)
    stub.start()
    yield Node(rig, stub)
    stub.stop()


def test_cards_are_registered_as_the_driver_shows_them_and_an_xid_takes_one_out(node: Node) -> None:
    node.start()
    cards = until(node.registered)
    assert (cards[GPU_B]["type"], cards[GPU_B]["devmem"], cards[GPU_B]["numa"]) == ("NVIDIA-Tesla T4", 23040, 1)
    assert (cards[GPU_A]["mode"], cards[GPU_A]["count"], len(cards[GPU_A]["migProfiles"])) == ("mig", 7, 4)
    scores = json.loads(node.rig.node().metadata.annotations[SCORES])
    assert scores == [{"uuid": GPU_A, "score": {GPU_B: 20}}, {"uuid": GPU_B, "score": {GPU_A: 20}}]

    node.driver.xid(1, 79)
    node.stub.wait(lambda k: k.lists[-1][f"{GPU_B}-0"] == "Unhealthy")
    until(lambda: "health" not in node.registered()[GPU_B])
    assert node.registered()[GPU_A]["health"]


def test_an_instance_is_made_for_a_pod_outlives_a_killed_agent_and_goes_with_the_pod(node: Node) -> None:
    node.start()
    pod = node.mig_pod("train")
    (answer,) = node.stub.allocate([f"{GPU_A}-0"]).container_responses
    assert answer.envs["NVIDIA_VISIBLE_DEVICES"].startswith("MIG-")
    assert not answer.mounts
    (made,) = node.geometry()

    node.rig.stop(signal.SIGKILL)
    node.start()
    assert node.geometry() == [made]
    node.rig.kube.send(calls.pod_delete(namespace="nlp", name="train", uid=pod.metadata.uid))
    until(lambda: not node.geometry())


def test_an_operators_instances_are_a_resource_of_their_own(node: Node) -> None:
    state = node.driver.scenario.with_name("scenario.mig")
    state.write_text(f"instance {GPU_A} 1 41 0 1 0\n")
    node.start(MIG_STRATEGY="mixed")
    node.stub.wait(lambda k: len(k.requests) == 2)
    assert {request.resource_name for request in node.stub.requests} == {"nvidia.com/gpu", "nvidia.com/mig-1g.5gb"}
    assert set(until(node.registered)) == {GPU_B}


def test_where_the_cards_are_the_agents_own_it_cuts_them_and_clears_what_nobody_holds(node: Node) -> None:
    node.driver.say(0, *nvml_stub.A100_40GB)
    node.driver.say(1, "mig 1", *nvml_stub.A100_40GB)
    node.driver.scenario.with_name("scenario.mig").write_text(f"instance {GPU_B} 1 41 0 1 0\n")
    config = node.rig.folder / "config.json"
    config.write_text('{"nodeconfig": [{"name": "n1", "operatingmode": "mig"}]}')
    node.start(HAMI_NODE_CONFIG_FILE=str(config))
    until(lambda: {one.get("mode") for one in node.registered().values() if one.get("health")} == {"mig"})
    until(lambda: [one.get("health") for one in node.registered().values()] == [True, True])
    assert node.geometry() == []


def test_with_cdi_the_agent_specifies_its_cards_and_names_them(node: Node, tmp_path: Path) -> None:
    root = tmp_path / "driver"
    for name in ("usr/lib64/libcuda.so.550.54.15", "usr/lib64/libnvidia-ml.so.550.54.15", "dev/nvidiactl"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    node.start(
        HAMI_DEVICE_LIST_STRATEGY="cdi-cri",
        HAMI_CDI_DIR=str(tmp_path / "cdi"),
        HAMI_DRIVER_ROOT_INSIDE=str(root),
        HAMI_LIMIT_MODE="count",
    )
    spec = json.loads((tmp_path / "cdi" / "k8s.device-plugin.nvidia.com-gpu.json").read_text())
    assert {GPU_B, "1", "all"} == {one["name"] for one in spec["devices"]}
    assert [one["containerPath"] for one in spec["containerEdits"]["mounts"]] == [
        "/usr/lib64/libcuda.so.550.54.15",
        "/usr/lib64/libnvidia-ml.so.550.54.15",
    ]
    node.rig.bound_pod("train", row((GPU_B, 3000, 30)))
    (answer,) = node.stub.allocate([f"{GPU_B}-0"]).container_responses
    assert [one.name for one in answer.cdi_devices] == [f"k8s.device-plugin.nvidia.com/gpu={GPU_B}"]
    assert "NVIDIA_VISIBLE_DEVICES" not in answer.envs


def test_a_hangup_reads_hamis_files_again(node: Node) -> None:
    config = node.rig.folder / "config.json"
    config.write_text('{"nodeconfig": [{"name": "n1", "filterdevices": {"index": [0]}}]}')
    node.start(HAMI_NODE_CONFIG_FILE=str(config))
    assert set(until(node.registered)) == {GPU_B}
    assert node.rig.process is not None
    pid = node.rig.process.pid

    config.write_text('{"nodeconfig": []}')
    lists = len(node.stub.lists)
    node.rig.process.send_signal(signal.SIGHUP)
    node.stub.wait(lambda k: len(k.lists) > lists)
    until(lambda: set(node.registered()) == {GPU_A, GPU_B})
    assert node.rig.process.pid == pid
    assert node.rig.process.poll() is None


@pytest.mark.parametrize("text, begins", [("{", False), ('{"nodeconfig": []}', True)])
def test_files_that_cannot_be_used_change_nothing_at_a_hangup(tmp_path: Path, text: str, begins: bool) -> None:
    (tmp_path / "config.json").write_text(text)
    stop, before = loops.Stop(), signal.getsignal(signal.SIGHUP)
    environ = {"HAMI_NODE_NAME": "n1", "HAMI_NODE_CONFIG_FILE": str(tmp_path / "config.json")}
    try:
        again = agent_process._again_on_hangup(stop, (), environ)
        signal.raise_signal(signal.SIGHUP)
        for thread in threading.enumerate():
            if thread.name == "hangup":
                thread.join(10)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (again.is_set(), stop.event.is_set()) == (begins, begins)


def test_the_drivers_library_is_found_below_its_own_root(tmp_path: Path) -> None:
    folder = tmp_path / "usr/lib64"
    folder.mkdir(parents=True)
    (folder / nvml.LIBRARY).write_bytes((nvml_stub.build() / nvml.LIBRARY).read_bytes())
    scenario = nvml_stub.write(tmp_path / "scenario", Gpu(GPU_A))
    program = (
        "import pathlib, sys; from deviceplugin import nvml; nvml.preload(pathlib.Path(sys.argv[1])); "
        "print(nvml.NvmlInventory().scan()[0].uuid)"
    )
    environ = {**os.environ, nvml_stub.SCENARIO: str(scenario)}
    command = [sys.executable, "-c", program, str(tmp_path)]
    assert subprocess.check_output(command, cwd=ROOT, env=environ, text=True).splitlines()[-1] == GPU_A
