"""The node agent's budgets: how soon it serves, how long kubelet waits for Allocate, what it keeps, what idling costs.

One node, a simulated API server in this process, kubelet's protocol over unix sockets. Figures are printed.
"""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from deviceplugin import region_layout
from hami_platform.kube import calls
from hami_platform.simulator.apiserver import ApiServer
from tests import pinned
from tests.deviceplugin import nvml_stub, regions
from tests.deviceplugin.builders import GPU_A, GPU_B, NODE, row
from tests.deviceplugin.process import Rig, until
from tests.deviceplugin.regions import Process
from tests.deviceplugin.stub_kubelet import StubKubelet
from tests.deviceplugin.web import Web

START_S = 2.0
ALLOCATE_P50_MS = 50.0
RSS_MIB = 80_000_000 / (1 << 20)
STAYING = 20
IDLE_CORE_PERCENT = 1.0
CARDS, SHARES = 8, 10

pytestmark = pytest.mark.perf


@pytest.fixture
def node(tmp_path: Path) -> Iterator[tuple[Rig, StubKubelet]]:
    with contextlib.ExitStack() as stack:
        sockets = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dp")))
        web = Web()
        stack.callback(web.close)
        rig = Rig(tmp_path, sockets, stack.enter_context(ApiServer()), web)
        stack.callback(rig.close)
        rig.set_up()
        kubelet = StubKubelet(sockets)
        kubelet.start()
        stack.callback(kubelet.stop)
        yield rig, kubelet


def rss_mib(rig: Rig) -> float:
    assert rig.process is not None
    status = Path(f"/proc/{rig.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def allocate_s(rig: Rig, kubelet: StubKubelet, number: int) -> float:
    """Bind a pod, time its Allocate, and let an older pod go."""
    rig.bound_pod(f"p{number}", row((GPU_B, 3000, 30)))
    start = time.perf_counter()
    kubelet.allocate([f"{GPU_A}-0"])
    took_s = time.perf_counter() - start
    if number >= STAYING:
        old = rig.pod(f"p{number - STAYING}").metadata
        rig.kube.send(calls.pod_delete(namespace=old.namespace, name=old.name, uid=old.uid))
    return took_s


def test_the_agent_keeps_its_budgets(node: tuple[Rig, StubKubelet], quick: bool) -> None:
    rig, kubelet = node
    start = time.perf_counter()
    rig.start(HAMI_LOG_LEVEL="error", **pinned.environ(rig.folder / "pinned"))
    kubelet.wait(lambda k: k.lists)
    start_s = time.perf_counter() - start
    until(rig.lease)

    took = sorted(allocate_s(rig, kubelet, number) for number in range(100 if quick else 1000))
    p50_ms, p99_ms = statistics.median(took) * 1000, took[len(took) * 99 // 100] * 1000
    print(f"\nserves after {start_s:.2f} s; Allocate p50 {p50_ms:.1f} ms, p99 {p99_ms:.1f} ms; {rss_mib(rig):.1f} MiB")  # noqa: T201
    assert start_s < START_S
    assert p50_ms < ALLOCATE_P50_MS
    assert rss_mib(rig) < RSS_MIB


def running_share(rig: Rig, uuid: str, name: str) -> None:
    """A pod with a tenth of a card, whose container runs and has used its region for four processes."""
    spec = {"containers": [{"name": "main", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    made = rig.create(
        calls.path_of(calls.CORE, "nlp", "pods"),
        {
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "nlp",
                "annotations": {"hami.io/vgpu-devices-allocated": row((uuid, 4096, 10))},
            },
            "spec": spec | {"nodeName": NODE},
        },
    )
    state = {"running": {"startedAt": "2026-08-21T08:00:00Z"}}
    status = {"phase": "Running", "containerStatuses": [{"name": "main", "state": state, "image": "busybox"}]}
    path = f"{calls.pod_get(namespace='nlp', name=name).path}/status"
    rig.kube.send(calls.KubeCall("PATCH", path, dict, (), {"status": status}, calls.MERGE_PATCH))
    content = regions.content(region_layout.V1, [Process()] * 4, uuids=[uuid], limits=[4096 << 20], recent=0, switch=0)
    folder = rig.folder / "hook" / "vgpu" / "containers" / f"{made.metadata.uid}_main"
    regions.write(folder / "a.cache", content)


def core_s(rig: Rig) -> float:
    """Processor time that the agent has used."""
    assert rig.process is not None
    fields = Path(f"/proc/{rig.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def series(port: int) -> int:
    """How many containers are shown."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return sum(line.startswith("hami_vgpu_memory_used_bytes{") for line in answer.read().decode().splitlines())


def test_watching_eighty_shares_costs_little(node: tuple[Rig, StubKubelet], quick: bool) -> None:
    """Eight cards of the driver's library (a stub, by the real bindings), ten containers on each, all monitored."""
    rig, kubelet = node
    uuids = [f"GPU-00000000-0000-0000-0000-{number:012d}" for number in range(CARDS)]
    scenario = nvml_stub.write(
        rig.folder / "scenario", *(nvml_stub.Gpu(uuid, more=["utilization 30 10"]) for uuid in uuids)
    )
    for number in range(CARDS * SHARES):
        running_share(rig, uuids[number % CARDS], f"p{number}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    rig.start(
        **nvml_stub.environ(scenario),
        **pinned.environ(rig.folder / "pinned"),
        HAMI_INVENTORY_FILE="",
        HAMI_LOG_LEVEL="error",
        HAMI_LIMIT_MODE="count",
        HAMI_METRICS_BIND=f"127.0.0.1:{port}",
    )
    kubelet.wait(lambda k: k.lists)
    until(lambda: series(port) == CARDS * SHARES)
    before_s, start = core_s(rig), time.monotonic()
    time.sleep(20 if quick else 60)
    percent = 100 * (core_s(rig) - before_s) / (time.monotonic() - start)
    rss = rss_mib(rig)
    print(f"\n{CARDS} cards x {SHARES} monitored shares: {percent:.2f} % of a core, {rss:.1f} MiB")  # noqa: T201
    assert percent < IDLE_CORE_PERCENT
    assert rss < RSS_MIB
