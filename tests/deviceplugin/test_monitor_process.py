"""The monitor inside the agent as it runs: a region written by another process, shown, steered and reported."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from deviceplugin import region_layout
from hami_platform.kube import calls
from tests.deviceplugin import regions
from tests.deviceplugin.builders import GPU_A, GPU_B, NODE, device_record, inventory_file, row
from tests.deviceplugin.process import DEADLINE_S, Rig, until
from tests.deviceplugin.regions import content, write
from tests.deviceplugin.stub_kubelet import StubKubelet

MIB = 1 << 20


@pytest.fixture
def stub(sockets: Path) -> Iterator[StubKubelet]:
    made = StubKubelet(sockets)
    made.start()
    yield made
    made.stop()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def shown(port: int, word: str) -> list[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=DEADLINE_S) as answer:
        return [line for line in answer.read().decode().splitlines() if word in line and not line.startswith("#")]


def runs(rig: Rig, name: str) -> None:
    """The kubelet says that the container has started."""
    state = {"running": {"startedAt": "2026-08-21T08:00:00Z"}}
    status = {"phase": "Running", "containerStatuses": [{"name": "main", "state": state, "image": "busybox"}]}
    path = f"{calls.pod_get(namespace='nlp', name=name).path}/status"
    rig.kube.send(calls.KubeCall("PATCH", path, dict[str, Any], (), {"status": status}, calls.MERGE_PATCH))


def test_a_container_is_shown_steered_and_reported_until_it_is_gone(rig: Rig, stub: StubKubelet) -> None:
    inventory_file(rig.folder, device_record(GPU_A), device_record(GPU_B, memory_used_mib=9, core_used_percent=4))
    port = free_port()
    rig.start(HAMI_METRICS_BIND=f"127.0.0.1:{port}", HAMI_MEASURE_PERIOD="1s")
    stub.wait(lambda k: k.lists)
    pod = rig.bound_pod("train", row((GPU_B, 3000, 30)))
    stub.allocate([f"{GPU_A}-0"])
    region = rig.folder / "hook" / "vgpu" / "containers" / f"{pod.metadata.uid}_main" / "a.cache"
    write(region, content(uuids=[GPU_B], limits=[3000 * MIB], recent=0, switch=1))
    runs(rig, "train")

    (used,) = until(lambda: shown(port, "hami_vgpu_memory_used_bytes{"))
    assert 'pod="train"' in used
    assert f'device_uuid="{GPU_B}"' in used
    assert used.endswith(" 8000.0")
    until(lambda: regions.word(region, region_layout.V1.utilization_switch) == 0)
    assert shown(port, "hami_host_gpu_utilization_ratio{")[0].endswith(" 4.0")

    def reported() -> list[dict[str, Any]]:
        samples = [one for report in rig.web.reports for one in report.get("samples", ())]
        return [one for one in samples if one["pod_uid"] == pod.metadata.uid]

    assert until(reported)[0] == {
        "uuid": GPU_B,
        "pod_uid": pod.metadata.uid,
        "container": "main",
        "memory_used_mib": 1,
        "core_used_percent": 42,
    }
    assert {report["node"] for report in rig.web.reports} == {NODE}

    rig.kube.send(calls.pod_delete(namespace="nlp", name="train", uid=pod.metadata.uid))
    until(lambda: not shown(port, 'pod="train"'))
    assert rig.stop() == 0


def test_without_the_monitor_nothing_is_read_or_written(rig: Rig, stub: StubKubelet) -> None:
    port = free_port()
    rig.start(HAMI_METRICS_BIND=f"127.0.0.1:{port}", HAMI_MONITOR="false")
    stub.wait(lambda k: k.lists)
    assert shown(port, "hami_host_gpu") == []
    assert rig.stop() == 0


LIMITS = "platform.hami.io/limits"


def test_the_library_is_installed_and_without_it_no_container_starts(rig: Rig, stub: StubKubelet) -> None:
    source = rig.folder / "libvgpu.so.v2.10.0"
    source.write_bytes(b"\x7fELF\x02 made up")
    root = rig.folder / "hook" / "vgpu"
    rig.start(HAMI_LIBRARY_SOURCE=str(source))
    stub.wait(lambda k: k.lists)
    until(lambda: rig.node().metadata.labels.get(LIMITS) == "enforced")
    assert (root / "libvgpu.so").read_bytes() == source.read_bytes()
    rig.bound_pod("train", row((GPU_B, 3000, 30)))
    (root / "ld.so.preload").write_text("")
    with pytest.raises(grpc.RpcError, match=r"HostNotReady|does not name"):
        stub.allocate([f"{GPU_A}-0"])
    until(lambda: rig.node().metadata.labels.get(LIMITS) == "unverified")
    (root / "ld.so.preload").write_text(f"{root}/libvgpu.so\n")
    (answer,) = stub.allocate([f"{GPU_A}-0"]).container_responses
    assert f"{root}/libvgpu.so" in {mount.host_path for mount in answer.mounts}


def test_in_count_mode_containers_get_their_card_and_no_library(rig: Rig, stub: StubKubelet) -> None:
    rig.start(HAMI_LIMIT_MODE="count")
    stub.wait(lambda k: k.lists)
    until(lambda: rig.node().metadata.labels.get(LIMITS) == "count-only")
    rig.bound_pod("train", row((GPU_B, 3000, 30)))
    (answer,) = stub.allocate([f"{GPU_A}-0"]).container_responses
    assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == GPU_B
    assert "CUDA_DEVICE_MEMORY_SHARED_CACHE" not in answer.envs
    assert list(answer.mounts) == []
    assert not (rig.folder / "hook").exists()
