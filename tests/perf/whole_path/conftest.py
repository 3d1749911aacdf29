"""Clusters for the whole path's measurements: sizes by --nodes and --pods, left out with --quick."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cluster import binaries, control_plane, nodes
from tests.perf import serving
from tests.perf.whole_path import ground


class Size(NamedTuple):
    """Fake nodes, and pods of a burst."""

    nodes: int
    pods: int


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes minutes is left out with --quick; it is not skipped, since a skip in CI is a failure."""
    if not config.getoption("--quick"):
        return
    here = Path(__file__).parent
    left_out = [item for item in items if here in item.path.parents or item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def size(request: pytest.FixtureRequest) -> Size:
    """As large as asked for."""
    return Size(request.config.getoption("--nodes"), request.config.getoption("--pods"))


@pytest.fixture(scope="session")
def cluster_binaries(size: Size) -> Path:
    """The control plane's binaries, built before by `make control-plane`."""
    try:
        return binaries.ensure()
    except binaries.BinariesMissing as problem:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(problem))


@pytest.fixture(scope="session")
def durable_postgres(postgres_url: str) -> Iterator[str]:
    """PostgreSQL that waits for its disk at each commit."""
    if "TEST_DATABASE_URL" in os.environ:
        yield postgres_url
        return
    with serving.durable(postgres_url):
        yield postgres_url


@pytest.fixture(scope="module")
def plane(
    cluster_binaries: Path, size: Size, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[control_plane.ControlPlane]:
    """A cluster whose nodes all have eight devices and our agent's mark."""
    with ground.cluster(tmp_path_factory.mktemp("cluster"), cluster_binaries) as started:
        took = ground.nodes_make(started.kube, size.nodes, lambda name: nodes.gpu_node(name, gpus=ground.DEVICES))
        serving.report(f"{size.nodes:,} nodes made in {took:.0f} s")
        yield started


@pytest.fixture(scope="module")
def whole(plane: control_plane.ControlPlane, durable_postgres: str, redis_url: str) -> Iterator[ground.Ground]:
    """The platform on it, ready."""
    with ground.platform(plane, durable_postgres, redis_url) as started:
        yield started
