"""No thread holds a database connection while it waits for a node's lock or for the API server."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from accounting.services import cluster_api
from hami_platform import env
from scheduler_ext import extender
from tests.scheduler_ext.world import World

pytestmark = pytest.mark.ledger


def in_hand() -> bool:
    """Whether this thread holds a connection of the pool. SQLite has no pool: a thread keeps its own."""
    return connection.vendor == "postgresql" and connection.connection is not None


class Watched:
    """Stands before a client or a pause and notes whether a connection was held during each call."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.held = inner, list[bool]()

    def send(self, *args: Any, **options: Any) -> Any:
        self.held.append(in_hand())
        return self.inner.send(*args, **options)

    def wait(self, seconds: float) -> None:
        self.held.append(in_hand())


def test_binding_holds_no_connection_while_it_waits(world: World) -> None:
    first, second = world.placed("a"), world.placed("b")
    world.flush()
    with env.override(node_lock_retry_timeout_s=1.5):
        extender.the_binder.cache_clear()
        engine = extender.the_binder()
    api, pause = Watched(cluster_api.cluster_api()), Watched(None)
    engine._api, engine._pause, engine._rows._pause = api, pause, pause  # type: ignore[assignment]
    assert world.bind(first) == ""
    assert "timed out" in world.bind(second)
    assert len(api.held) >= 3
    assert pause.held
    assert not any(api.held + pause.held)
