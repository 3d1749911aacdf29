"""Pods per second from creation to a node, through the real kube-scheduler and API server, webhook, filter, bind,
watcher and worker, on PostgreSQL; and an extender that does nothing in the same run, which kube-scheduler's serial
calls hold to a rate of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import control_plane, nodes, processes
from tests.perf import serving
from tests.perf.whole_path import ground, load
from tests.perf.whole_path.conftest import Size

pytestmark = [pytest.mark.perf, pytest.mark.timeout(1800)]

CARD = "example.com/card"
NOTHING = "nothing-scheduler"


@contextmanager
def do_nothing(plane: control_plane.ControlPlane) -> Iterator[dict[str, Any]]:
    """An extender that decides nothing, and kube-scheduler's configuration that asks it."""
    (port,) = processes.free_ports(1)
    pair = plane.authority.client("do-nothing", user="do-nothing", groups=["system:masters"])
    paths = (plane.authority.certificate, pair.certificate, pair.key)
    command = [sys.executable, "-m", "tests.perf.whole_path.do_nothing", str(port), str(plane.port), *map(str, paths)]
    process = processes.Process("do-nothing", command, log=plane.logs / "do-nothing.log", directory=Path.cwd())
    extender = {
        "urlPrefix": f"http://127.0.0.1:{port}",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "bindVerb": "bind",
        "weight": 1,
        "nodeCacheCapable": True,
        "httpTimeout": "30s",
        "managedResources": [{"name": CARD, "ignoredByScheduler": True}],
    }
    try:
        process.start()
        yield {"profiles": [{"schedulerName": NOTHING}], "extenders": [extender]}
    finally:
        process.stop()


@pytest.fixture(scope="module")
def bar(plane: control_plane.ControlPlane, size: Size) -> load.Figures:
    """What the do-nothing extender reaches on this machine now, before the platform runs."""
    where = load.namespace(plane.kube, "nothing")
    container = {"name": "main", "image": "example/fake", "resources": {"limits": {CARD: "1"}}}
    pods = load.asking(size.pods, container, schedulerName=NOTHING)
    with do_nothing(plane) as configuration:
        figures = load.burst(
            plane.kube, where, pods, lambda: plane.start_scheduler(configuration), lambda: ground.parts_cpu_s(plane)
        )
    plane.stop_scheduler()
    load.empty(plane.kube, where)
    serving.report(f"do-nothing extender, {size.nodes:,} nodes: {figures}")
    return figures


def test_a_burst_of_pods_is_placed(bar: load.Figures, whole: ground.Ground, size: Size) -> None:
    serving.report(f"ready over an empty database, {size.nodes:,} nodes: {whole.empty_to_ready_s:.1f} s")
    where = load.namespace(whole.api, "burst")
    pods = load.asking(size.pods, nodes.container(gpu=1, gpumem=8192, gpucores=10))
    whole.log.mark()
    figures = load.burst(whole.api, where, pods, whole.platform.start_scheduler, whole.cpu_s)
    ours = figures.cpu_ms(whole.platform.roles())
    serving.report(f"whole path, {size.nodes:,} × {ground.DEVICES}: {figures}; ours together {ours:.1f}")
    serving.report(f"against the do-nothing extender: {figures.placed_per_s / bar.placed_per_s:.2f}")
