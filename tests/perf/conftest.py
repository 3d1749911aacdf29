"""Databases that are filled once for all measurements."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hami_platform.kube import calls, client, objects
from hami_platform.simulator.apiserver import ApiServer
from tests import servers
from tests.perf import serving

NAMESPACES = 20


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of a simulated API server, for the events that listeners write."""
    with ApiServer() as api:
        path = Path(api.kubeconfig(tmp_path_factory.mktemp("kube") / "kubeconfig"))
        kube = client.KubeClient(client.Config(kubeconfig=str(path)))
        for index in range(NAMESPACES):
            value = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team{index}"}}
            kube.send(calls.KubeCall("POST", calls.path_of(calls.CORE, None, "namespaces"), objects.Object, (), value))
        yield path


@contextlib.contextmanager
def _on_postgres(size: serving.Size, url: str, kubeconfig: Path, folder: Path) -> Iterator[serving.Ground]:
    """A filled database whose commits wait for the disk."""
    ours = "TEST_DATABASE_URL" not in os.environ
    with contextlib.ExitStack() as stack:
        ground = serving.ground(
            size, "PostgreSQL", folder, stack.enter_context(servers.fresh_database(url)), kubeconfig
        )
        if ours:
            stack.enter_context(serving.durable(url))
        yield ground


@pytest.fixture(scope="session")
def large(postgres_url: str, kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[serving.Ground]:
    """5,000 nodes of 8 devices."""
    with _on_postgres(serving.LARGE, postgres_url, kubeconfig, tmp_path_factory.mktemp("large")) as ground:
        yield ground


@pytest.fixture(scope="session")
def dense(postgres_url: str, kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[serving.Ground]:
    """100 nodes of 16 devices, 50 pods on each."""
    with _on_postgres(serving.DENSE, postgres_url, kubeconfig, tmp_path_factory.mktemp("dense")) as ground:
        yield ground


@pytest.fixture(scope="session")
def small_postgres(
    postgres_url: str, kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[serving.Ground]:
    """1,000 nodes, for comparison with SQLite."""
    with _on_postgres(serving.SMALL, postgres_url, kubeconfig, tmp_path_factory.mktemp("small")) as ground:
        yield ground


@pytest.fixture(scope="session")
def small(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> serving.Ground:
    """1,000 nodes on SQLite, as on one machine."""
    folder = tmp_path_factory.mktemp("small")
    return serving.ground(serving.SMALL, "SQLite", folder, f"sqlite:///{folder}/ledger.sqlite3", kubeconfig)
