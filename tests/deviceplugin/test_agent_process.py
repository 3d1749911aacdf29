"""The agent as it runs: its own process, kubelet over unix sockets, an API server and a platform over HTTP."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from deviceplugin import VERSION
from hami_platform.domain.wire import node_register
from hami_platform.kube import calls
from tests import pinned
from tests.deviceplugin.builders import GPU_A, GPU_B, NODE, device_record, inventory_file, row
from tests.deviceplugin.process import DEADLINE_S, ROOT, Rig, until
from tests.deviceplugin.stub_kubelet import StubKubelet


@pytest.fixture
def stub(sockets: Path) -> Iterator[StubKubelet]:
    made = StubKubelet(sockets)
    made.start()
    yield made
    made.stop()


def test_a_pod_gets_its_reserved_card_and_the_platform_hears_of_it(rig: Rig, stub: StubKubelet) -> None:
    rig.start()
    stub.wait(lambda k: k.lists)
    assert len(stub.lists[-1]) == 6
    until(lambda: "hami.io/node-nvidia-register" in rig.node().metadata.annotations)
    text = rig.node().metadata.annotations["hami.io/node-nvidia-register"]
    assert [(d.uuid, d.slots, d.memory_mib) for d in node_register.decode(text, vendor="NVIDIA")] == [
        (GPU_A, 3, 36864),
        (GPU_B, 3, 36864),
    ]
    assert rig.node().metadata.labels["platform.hami.io/agent"] == VERSION
    assert until(rig.lease).spec.holder_identity == NODE

    pod = rig.bound_pod("train", row((GPU_B, 3000, 30)))
    available = [f"{GPU_A}-0", f"{GPU_B}-2"]
    assert stub.preferred(available, [], 1) == [f"{GPU_B}-2"]
    (answer,) = stub.allocate([f"{GPU_A}-0"]).container_responses
    assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == GPU_B
    assert answer.envs["CUDA_OVERSUBSCRIBE"] == "true"
    assert (rig.folder / "hook" / "vgpu" / "containers" / f"{pod.metadata.uid}_main").is_dir()
    until(lambda: rig.web.reports)
    assert rig.web.reports == [{"uid": pod.metadata.uid, "container": "main", "node": NODE, "devices": [GPU_B]}]
    assert rig.pod("train").metadata.resource_version == pod.metadata.resource_version

    assert rig.stop() == 0
    assert not (rig.sockets / "nvidia-gpu.sock").exists()


def test_an_agent_says_of_each_part_how_it_is(rig: Rig, stub: StubKubelet) -> None:
    """Ready: a pod that comes now would get its devices. Without the kubelet it is alive, and not ready."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    rig.start(HAMI_METRICS_BIND=f"127.0.0.1:{port}")

    def told(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=DEADLINE_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    until(lambda: told("/readyz")[0] == 200)
    assert (told("/livez"), told("/startupz")) == ((200, ""), (200, ""))
    lines = told("/readyz?verbose")[1].splitlines()
    named = {line[3:].split()[0] for line in lines[:-1]}
    assert named == {"loops", "cards", "kubelet", "api-server", "limits", "monitor", "platform"}
    stub.stop()
    until(lambda: told("/readyz")[0] == 503)
    assert "not registered with the kubelet: nvidia.com/gpu" in told("/readyz?verbose")[1]
    assert told("/livez")[0] == 200


def test_killed_in_the_middle_it_repeats_nothing_and_still_reports(rig: Rig, stub: StubKubelet) -> None:
    rig.web.codes = [503] * 100
    rig.start()
    stub.wait(lambda k: k.lists)
    first = rig.bound_pod("first", row((GPU_A, 1000, 10)))
    stub.allocate([f"{GPU_A}-0"])
    rig.stop(signal.SIGKILL)

    rig.start()
    stub.wait(lambda k: len(k.lists) >= 2)
    second = rig.bound_pod("second", row((GPU_B, 2000, 20)))
    (answer,) = stub.allocate([f"{GPU_A}-1"]).container_responses
    assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == GPU_B
    rig.web.codes.clear()
    wanted = {first.metadata.uid, second.metadata.uid}
    until(lambda: {report["uid"] for report in rig.web.reports} == wanted)
    state = rig.folder / "state" / "agent.json"
    until(
        lambda: all(one["reported"] for pod in json.loads(state.read_text())["pods"].values() for one in pod["given"])
    )


def test_a_broken_card_reaches_kubelet_and_the_register_annotation(rig: Rig, stub: StubKubelet) -> None:
    rig.start()
    stub.wait(lambda k: k.lists)
    inventory_file(rig.folder, device_record(GPU_A, health="unhealthy"), device_record(GPU_B))
    stub.wait(lambda k: k.lists[-1][f"{GPU_A}-0"] == "Unhealthy")

    def registered() -> list[bool]:
        text = rig.node().metadata.annotations.get("hami.io/node-nvidia-register", "[]")
        return [device.healthy for device in node_register.decode(text, vendor="NVIDIA")]

    until(lambda: registered() == [False, True])


def test_a_mismatch_fails_the_call_with_the_pods_name(rig: Rig, stub: StubKubelet) -> None:
    rig.start()
    stub.wait(lambda k: k.lists)
    rig.bound_pod("wrong", row((GPU_A, 1000, 10), (GPU_B, 1000, 10)))
    with pytest.raises(grpc.RpcError, match=r"device number not matched: pod nlp/wrong, container main"):
        stub.allocate([f"{GPU_A}-0"])


def test_in_hami_mode_the_annotations_and_the_lock_are_the_record(rig: Rig, stub: StubKubelet) -> None:
    lock = {"hami.io/mutex.lock": "2026-08-21T08:00:00Z,nlp,train"}
    rig.kube.send(calls.node_annotate(name=NODE, annotations=lock))
    rig.start(HAMI_AGENT_MODE="hami")
    stub.wait(lambda k: k.lists)
    rig.bound_pod("train", row((GPU_A, 3000, 30)))
    stub.allocate([f"{GPU_B}-0"])
    notes = rig.pod("train").metadata.annotations
    assert (notes["hami.io/bind-phase"], notes["hami.io/vgpu-devices-to-allocate"]) == ("success", ";")
    assert "hami.io/mutex.lock" not in rig.node().metadata.annotations
    assert "platform.hami.io/agent" not in rig.node().metadata.labels
    assert rig.lease() is None


def test_its_metrics_say_what_was_granted_and_refused(rig: Rig, stub: StubKubelet) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    rig.start(HAMI_METRICS_BIND=f"127.0.0.1:{port}")
    stub.wait(lambda k: k.lists)
    rig.bound_pod("train", row((GPU_B, 3000, 30)))
    stub.allocate([f"{GPU_A}-0"])
    with pytest.raises(grpc.RpcError):
        stub.allocate([f"{GPU_A}-0"])
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=DEADLINE_S) as answer:
        lines = answer.read().decode().splitlines()
    assert 'hami_platform_agent_allocations_total{outcome="granted"} 1.0' in lines
    assert 'hami_platform_agent_allocations_total{outcome="NoPodWaits"} 1.0' in lines
    assert 'hami_platform_agent_devices{health="healthy"} 2.0' in lines


def test_it_loads_neither_django_nor_a_database() -> None:
    program = "import sys, deviceplugin.__main__; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"django", "rest_framework", "celery", "psycopg", "sqlite3", "accounting", "scheduler_ext"}


def test_it_fits_into_80_megabytes(rig: Rig, stub: StubKubelet, tmp_path: Path) -> None:
    rig.start(**pinned.environ(tmp_path / "pinned"))
    stub.wait(lambda k: k.lists)
    until(rig.lease)
    assert rig.process is not None
    status = Path(f"/proc/{rig.process.pid}/status").read_text()
    (rss_kib,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    assert rss_kib * 1024 < 80_000_000, f"{rss_kib} KiB"


@pytest.mark.parametrize(
    "environ, message",
    [
        ({"NODE_NAME": ""}, "HAMI_NODE_NAME: required"),
        ({"HAMI_PLATFORM_URL": "platform:8000"}, "HAMI_PLATFORM_URL: must begin with"),
        ({"HAMI_INVENTORY_FILE": "/none.json"}, "/none.json"),
        ({"KUBECONFIG": "/none"}, "no usable Kubernetes configuration"),
        ({"HAMI_AGENT_MOOD": "good"}, "HAMI_AGENT_MOOD: no such setting"),
    ],
)
def test_what_it_cannot_start_with_is_named(tmp_path: Path, environ: dict[str, str], message: str) -> None:
    kubeconfig = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
        "current-context": "c",
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
    usual = {
        "PATH": os.environ["PATH"],
        "NODE_NAME": NODE,
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
        "HAMI_STATE_DIR": str(tmp_path),
        "HAMI_KUBELET_DIR": str(tmp_path),
        "HAMI_INVENTORY_FILE": str(inventory_file(tmp_path)),
    }
    done = subprocess.run(
        [sys.executable, "-m", "deviceplugin"],
        cwd=ROOT,
        env=usual | environ,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
