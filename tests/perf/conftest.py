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


@pytest.fixture(scope="session")
def large(postgres_url: str, kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[serving.Ground]:
    """5,000 nodes on PostgreSQL, whose commits wait for the disk."""
    ours = "TEST_DATABASE_URL" not in os.environ
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(servers.fresh_database(postgres_url))
        ground = serving.ground(serving.LARGE, "PostgreSQL", tmp_path_factory.mktemp("large"), url, kubeconfig)
        if ours:
            stack.enter_context(serving.durable(postgres_url))
        yield ground


@pytest.fixture(scope="session")
def small_postgres(
    postgres_url: str, kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[serving.Ground]:
    """1,000 nodes on PostgreSQL, for comparison with SQLite; commits wait for the disk."""
    ours = "TEST_DATABASE_URL" not in os.environ
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(servers.fresh_database(postgres_url))
        ground = serving.ground(serving.SMALL, "PostgreSQL", tmp_path_factory.mktemp("small"), url, kubeconfig)
        if ours:
            stack.enter_context(serving.durable(postgres_url))
        yield ground


@pytest.fixture(scope="session")
def small(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> serving.Ground:
    """1,000 nodes on SQLite, as on one machine."""
    folder = tmp_path_factory.mktemp("small")
    return serving.ground(serving.SMALL, "SQLite", folder, f"sqlite:///{folder}/ledger.sqlite3", kubeconfig)
