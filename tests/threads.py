"""Threads of a test that ask the ledger: their connections go back to the pool, which has eight for the whole run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from django.db import connection

P = ParamSpec("P")
T = TypeVar("T")
PATIENCE_S = 5.0


def alone(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do the work of a thread; its connection is given back at the end."""
    try:
        return work(*args, **kwargs)
    finally:
        connection.close()


def lost_connections() -> int:
    """How many of the pool's connections nobody will give back: those beside this thread's, after some patience. With
    SQLite none."""
    pools: dict[str, Any] = getattr(connection, "_connection_pools", {})  # asking for `pool` would open one
    pool = pools.get(connection.alias)
    if pool is None or pool.closed:
        return 0
    end = time.monotonic() + PATIENCE_S
    while True:
        stats = pool.get_stats()
        lost = stats["pool_size"] - stats["pool_available"] - (connection.connection is not None)
        if lost <= 0 or time.monotonic() > end:
            return max(0, int(lost))
        time.sleep(0.01)
