"""The session's control plane and platform, and a namespace for each test."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests.cluster import binaries, control_plane, nodes, space
from tests.cluster import platform as platform_processes
from tests.cluster.kube import eventually

GPU_NODES = ("gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder is an acceptance test, and may take minutes on a busy machine."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(300))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of every process's log with a failed test."""
    report = yield
    if report.failed:
        for name in ("plane", "platform", "node"):
            source = getattr(item, "funcargs", {}).get(name)
            if hasattr(source, "log_tails"):
                report.sections.append((f"logs of the {name}", source.log_tails()))  # type: ignore[union-attr]
    return report


@pytest.fixture(scope="session")
def cluster_binaries() -> Path:
    """The folder of the control plane's binaries, built before by `python -m tests.cluster.binaries`."""
    try:
        return binaries.ensure()
    except binaries.BinariesMissing as problem:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(problem))


@pytest.fixture(scope="session")
def plane(cluster_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[control_plane.ControlPlane]:
    """One control plane for the whole session; tests keep apart by namespace."""
    with control_plane.running(tmp_path_factory.mktemp("cluster"), cluster_binaries) as started:
        yield started


@pytest.fixture(scope="session")
def platform(
    plane: control_plane.ControlPlane, postgres_url: str, redis_url: str
) -> Iterator[platform_processes.Platform]:
    """The whole platform on forty cards: five nodes of eight, with our agent's mark."""
    for name in GPU_NODES:
        plane.kube.create("/api/v1/nodes", nodes.gpu_node(name))
    eventually("all GPU nodes are ready", lambda: all(_is_ready(plane, name) for name in GPU_NODES))
    with platform_processes.running(plane, postgres_url, redis_url) as started:
        eventually("the ledger knows forty cards", lambda: len(started.ledger.devices()) == 40)
        yield started


@pytest.fixture
def new_space(platform: platform_processes.Platform) -> Iterator[Callable[[], space.Space]]:
    """Makes namespaces that are emptied after the test; the ledger must then hold nothing for them."""
    made: list[space.Space] = []

    def make() -> space.Space:
        opened = space.Space(f"e2e-{uuid.uuid4().hex[:8]}", platform.plane.kube, platform.ledger)
        opened.open()
        made.append(opened)
        return opened

    yield make
    for each in made:
        each.close()


@pytest.fixture
def team(new_space: Callable[[], space.Space]) -> space.Space:
    """One namespace."""
    return new_space()


def _is_ready(plane: control_plane.ControlPlane, name: str) -> bool:
    node = plane.kube.get(f"/api/v1/nodes/{name}")
    return node is not None and nodes.is_ready(node)
