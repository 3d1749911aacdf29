"""What a process of the platform depends on, for its health addresses. Each look says ok, or why not; it only reads.

Must not know: the addresses, or who asks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Final

from django.core.cache import cache
from django.db import Error, connection

from accounting import ledger, live_view
from accounting.selectors import freshness
from hami_platform import env, health
from hami_platform.domain.view import View

VIEWING: Final = frozenset({"web", "webhook", "extender", "watcher", "tool"})
"""Processes that decide or show by a View."""


def register() -> None:
    """Answer with them from now on. Only what a process needs for its own work counts for its readiness."""
    role = env.current().role
    if role == "beat":  # it reads no row
        health.register("process", process, health.LIVE, health.STARTED, health.READY)
        return
    health.register("process", process, health.LIVE, health.STARTED)
    health.register("database", _given_back(database if role in VIEWING else reachable), health.READY)
    if role in VIEWING:
        health.register("view", view, health.READY)
        health.register("compared", compared, health.READY)
    health.register("watched", _given_back(watched))
    health.register("cache", _given_back(cached))


def _given_back(look: health.Look) -> Callable[[], str]:
    """Some askers' threads end after the answer, and nobody else gives their connection back."""

    @wraps(look)
    def looked() -> str:
        try:
            return look()
        finally:
            if not connection.in_atomic_block:
                connection.close()

    return looked


def process() -> str:
    """That it answers at all: restarting it would not bring anything else back."""
    return health.OK


def database() -> str:
    """Whether the ledger can be read now."""
    try:
        live_view.live().refresh()
    except ledger.LedgerUnavailable as error:
        return str(error)
    return health.OK


def reachable() -> str:
    """Whether the database answers."""
    try:
        ledger.database_time()
    except Error as fault:
        return str(fault).partition("\n")[0]
    return health.OK


def view() -> str:
    """Whether this process has a View to decide on."""
    return health.OK if _now().clock.revision else "nothing is loaded yet"


def compared() -> str:
    """Whether the ledger was compared in full with the API server since it was made or restored."""
    return health.OK if _now().ready else "the ledger has not been compared with the API server yet"


def watched() -> str:
    """Whether somebody follows the cluster now, and somebody repairs what no event told."""
    try:
        return str(freshness.freshness(_now()).problem) or health.OK
    except (Error, ledger.LedgerUnavailable) as fault:
        return f"not known: {str(fault).partition(chr(10))[0]}"


def cached() -> str:
    """Whether the cache (sessions, throttles) answers: Redis, or the database."""
    try:
        cache.get("health")
    except Exception as fault:  # noqa: BLE001  each backend has errors of its own
        return f"{type(fault).__name__}: it does not answer"
    return health.OK


def _now() -> View:
    try:
        return live_view.live().now
    except ledger.LedgerUnavailable:
        return View()
