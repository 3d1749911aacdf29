"""Health addresses: what counts where, told item by item, in every listener."""

from __future__ import annotations

import json

import pytest

from hami_platform import health
from hami_platform.health import LIVE, OK, READY, STARTED


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the looks that other parts of this process registered."""
    monkeypatch.setattr(health, "_items", {})


def broken() -> str:
    raise ZeroDivisionError


def test_a_dependency_that_is_away_makes_nobody_restart() -> None:
    health.register("process", lambda: OK, LIVE, STARTED)
    health.register("database", lambda: "it is gone", READY)
    statuses = {asked: health.answer(asked, verbose=False).status for asked in (LIVE, STARTED, READY)}
    assert statuses == {LIVE: 200, STARTED: 200, READY: 503}


def test_readiness_names_each_item_that_counts() -> None:
    health.register("database", lambda: "it is gone", READY)
    health.register("cache", lambda: "slow")
    assert json.loads(health.answer(READY, verbose=False).body) == {"ready": False, "items": {"database": "it is gone"}}


def test_verbose_itemises_also_what_does_not_count() -> None:
    health.register("process", lambda: OK, LIVE)
    health.register("database", lambda: "it is\ngone", READY)
    found = {asked: health.answer(asked, verbose=True) for asked in (LIVE, READY)}
    lines = {
        asked: [line.partition(" (")[0] for line in one.body.decode().splitlines()] for asked, one in found.items()
    }
    assert lines[LIVE] == ["[+]process ok", "[ ]database failed: it is gone", "livez check passed"]
    assert lines[READY] == ["[+]process ok", "[-]database failed: it is gone", "readyz check failed"]
    assert "does not count here" in found[LIVE].body.decode()
    assert (found[LIVE].status, found[READY].status) == (200, 503)


def test_a_look_that_breaks_is_a_finding_and_hides_no_other() -> None:
    health.register("odd", broken, READY)
    health.register("database", lambda: OK, READY)
    items = json.loads(health.answer(READY, verbose=False).body)["items"]
    assert items == {"odd": "the look itself failed: ZeroDivisionError", "database": OK}


def test_a_process_that_has_registered_nothing_is_alive_and_has_not_started() -> None:
    assert [health.answer(asked, verbose=False).status for asked in (LIVE, STARTED, READY)] == [200, 503, 503]


def test_what_does_not_count_is_not_looked_at_unless_asked() -> None:
    asked: list[str] = []
    health.register("dear", lambda: asked.append("looked") or OK)
    health.answer(READY, verbose=False)
    assert asked == []
