"""Extenders as real processes over PostgreSQL, with production's time limits: nobody overshoots, nobody hangs.

| done to them | then |
|---|---|
| 64 pods ask two at once, with room for 5, 8 or 5 (device, nodes, limit) | exactly 5, 8, 5 are placed, each round |
| one is killed in the middle of a storm | the other answers; every pod is placed once |
| one is stopped while it holds the Clock (soak) | the other loses at most two seconds; the stopped one comes back |
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.chaos import rounds, stand, storm

STOPPED_S = 3.0
OPEN = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND datname = current_database()"
LOST_S = 2.0
NODES = rounds.SHARED.names
ROUNDS = 2


@pytest.fixture
def pair(fresh_postgres: str, tmp_path: Path) -> Iterator[list[stand.Member]]:
    """Two extenders over the ground of so many rounds of small storms."""
    with stand.standing(tmp_path, fresh_postgres) as one:
        one.prepare(nodes=rounds.nodes(rounds.SMALL, ROUNDS), limits=rounds.limits(rounds.SMALL, ROUNDS))
        made = one.add("extender", 2)
        one.wait()
        yield made


def test_64_at_once_never_exceed_what_there_is_and_a_kill_loses_nothing(
    pair: list[stand.Member], fresh_postgres: str
) -> None:
    for number in range(ROUNDS):
        for kind in rounds.SMALL:
            assert rounds.play(kind, pair, number) == kind.fits, (kind.name, number)
    assert storm.rows(fresh_postgres, storm.OVER) == []
    ((before_mib, before),) = storm.rows(fresh_postgres, storm.HELD)
    killer = threading.Timer(0.2, pair[1].kill)
    killer.start()
    placed = storm.filtered(pair, [storm.pod(f"free-{one}", 1000, namespace="free") for one in range(64)], NODES)
    killer.join()
    assert all(placed)
    assert storm.rows(fresh_postgres, storm.HELD) == [(before_mib + 64 * 1000, before + 64)]
    assert storm.rows(fresh_postgres, storm.TWICE) == []


@pytest.mark.soak
def test_a_stopped_extender_costs_the_other_at_most_two_seconds(pair: list[stand.Member], fresh_postgres: str) -> None:
    done = threading.Event()
    answered: list[float] = []

    def traffic(target: stand.Member, name: str) -> None:
        number = 0
        while not done.is_set():
            number += 1
            body = {"Pod": storm.pod(f"{name}-{number}", 1, namespace="free"), "Nodes": None, "NodeNames": NODES}
            answer = target.ask("/filter", body, timeout_s=30)
            if target is pair[1] and not answer["Error"]:
                answered.append(time.monotonic())

    threads = [threading.Thread(target=traffic, args=(pair[n % 2], f"t{n}")) for n in range(8)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            began = _stop_inside(pair[0], fresh_postgres)
            time.sleep(STOPPED_S)  # the stop's length is what is given, not a wait for something
            pair[0].resume()
            moments = [began, *(at for at in answered if at > began), time.monotonic()]
            assert max(later - earlier for earlier, later in itertools.pairwise(moments)) <= LOST_S
    finally:
        pair[0].resume()
        done.set()
        for thread in threads:
            thread.join()
    assert not pair[0].ask("/filter", {"Pod": storm.pod("last", 1, namespace="free"), "NodeNames": NODES})["Error"]


def _stop_inside(one: stand.Member, database_url: str) -> float:
    """Stop it at a moment when some transaction is open; when that was."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        while True:
            one.pause()
            began = time.monotonic()
            found = connection.execute(OPEN).fetchone()
            if found and found[0]:
                return began
            one.resume()
