"""Every test starts without a View and without a remembered cluster, client or binder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from accounting import ledger, live_view
from accounting.services import cluster_api
from scheduler_ext import callers, extender, traces
from tests.scheduler_ext.world import World


def forget() -> None:
    """Drop what this process remembers of database and API server."""
    ledger.forget_cluster()
    live_view.forget()
    cluster_api.cluster_api_use(None)
    extender.the_binder.cache_clear()
    callers.names.forget()
    traces._keeper.forget()


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No View of another test's database. What was bound is recorded at once: no watcher runs here."""
    monkeypatch.setattr(extender, "RECORD_S", 0.0)
    forget()
    yield
    forget()


@pytest.fixture
def world(transactional_db: None, tmp_path: Path) -> Iterator[World]:
    """A simulated API server with one node of two cards, and a ledger that has been compared with it."""
    with World.made(tmp_path) as made:
        yield made
