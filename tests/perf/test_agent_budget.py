"""The node agent's budgets: how soon it serves, how long kubelet waits for Allocate, and what it keeps.

One node, a simulated API server in this process, kubelet's protocol over unix sockets. Figures are printed.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hami_platform.kube import calls
from hami_platform.simulator.apiserver import ApiServer
from tests.deviceplugin.builders import GPU_A, GPU_B, row
from tests.deviceplugin.process import Rig, until
from tests.deviceplugin.stub_kubelet import StubKubelet
from tests.deviceplugin.web import Web

START_S = 2.0
ALLOCATE_P50_MS = 50.0
RSS_MIB = 80.0
STAYING = 20

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
    rig.start(HAMI_LOG_LEVEL="error")
    kubelet.wait(lambda k: k.lists)
    start_s = time.perf_counter() - start
    until(rig.lease)

    took = sorted(allocate_s(rig, kubelet, number) for number in range(100 if quick else 1000))
    p50_ms, p99_ms = statistics.median(took) * 1000, took[len(took) * 99 // 100] * 1000
    print(f"\nserves after {start_s:.2f} s; Allocate p50 {p50_ms:.1f} ms, p99 {p99_ms:.1f} ms; {rss_mib(rig):.1f} MiB")  # noqa: T201
    assert start_s < START_S
    assert p50_ms < ALLOCATE_P50_MS
    assert rss_mib(rig) < RSS_MIB
