"""The session's control plane and platform, and a namespace for each test."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.cluster import binaries, control_plane


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
        for name in ("plane", "platform"):
            source = getattr(item, "funcargs", {}).get(name)
            if source is not None:
                report.sections.append((f"logs of the {name}", source.log_tails()))
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
