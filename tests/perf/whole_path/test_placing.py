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

from tests.cluster import control_plane, kube, nodes, processes, writes
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
    figures = _burst(whole, "burst", size.pods)
    serving.report(f"whole path, {size.nodes:,} × {ground.DEVICES}: {figures}; {_of_ours(whole, figures)}")
    serving.report(f"against the do-nothing extender: {figures.placed_per_s / bar.placed_per_s:.2f}")
    _counted(whole, size.pods)


def test_a_burst_is_placed_at_the_first_attempt_where_few_nodes_have_devices(
    cluster_binaries: Path, size: Size, durable_postgres: str, redis_url: str, tmp_path: Path
) -> None:
    """kube-scheduler shows an extender 500 of 5,000 nodes; narrowed, all of them have devices."""
    few = max(1, size.nodes // 25)
    with ground.cluster(tmp_path, cluster_binaries) as plane:
        ground.nodes_make(plane.kube, size.nodes - few, nodes.plain_node, prefix="plain-")
        ground.nodes_make(plane.kube, few, lambda name: nodes.gpu_node(name, gpus=ground.DEVICES))
        with ground.platform(plane, durable_postgres, redis_url, {"HAMI_NARROWING": "true"}) as mixed:
            kube.eventually("every node with devices has its label", lambda: _labelled(mixed, few), within_s=120)
            before = mixed.filter_calls()
            figures = _burst(mixed, "narrowed", size.pods)
            asked = sum(mixed.filter_calls().values()) - sum(before.values())
            serving.report(f"narrowed to {few} of {size.nodes:,}: {figures}; {_of_ours(mixed, figures)}")
            serving.report(f"calls of /filter per pod: {asked / size.pods:.2f}")
            assert mixed.filter_calls().get("refused", 0) == before.get("refused", 0)
            _counted(mixed, size.pods)


def _burst(whole: ground.Ground, where: str, pods: int) -> load.Figures:
    load.namespace(whole.api, where)
    whole.log.mark()
    before = whole.revisions()
    asks = nodes.container(gpu=1, gpumem=8192, gpucores=10)
    figures = load.burst(whole.api, where, load.asking(pods, asks), whole.platform.start_scheduler, whole.cpu_s)
    took = {cause: (count - before.get(cause, 0)) / pods for cause, count in whole.revisions().items()}
    told = ", ".join(f"{cause} {count:.2f}" for cause, count in sorted(took.items()) if count >= 0.01)
    serving.report(f"ledger transactions a pod: {told}")
    return figures


def _of_ours(whole: ground.Ground, figures: load.Figures) -> str:
    return f"all of ours {figures.cpu_ms(whole.platform.roles()):.1f} ms"


def _counted(whole: ground.Ground, pods: int) -> None:
    """Writes, and that the ledger is what the API server says, by recomputation."""
    ours, events = whole.log.ours(), whole.log.ours(events=True)
    serving.report(f"writes: {writes.told(ours)}; events {len(events) / pods:.1f} a pod")
    assert len([one for one in ours if one.resource.startswith("pods")]) <= pods + 2
    assert len(events) <= 2 * pods
    kube.eventually("the ledger has seen all of it", lambda: _agrees(whole), within_s=60)


def _agrees(whole: ground.Ground) -> str:
    try:
        return whole.agrees()
    except AssertionError:
        return ""


def _labelled(whole: ground.Ground, count: int) -> bool:
    found = whole.api.list("/api/v1/nodes", labelSelector="platform.hami.io/nvidia=true", limit=str(count + 1))
    return len(found) == count
