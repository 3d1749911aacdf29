"""Two extenders as real processes over PostgreSQL, with production's time limits: nobody overshoots, nobody hangs.

| done to them | then |
|---|---|
| 64 pods ask both at once, the namespace's limit fits 5 | exactly 5 are placed, round after round |
| one is killed in the middle of a storm | the other answers; every pod is placed once |
| one is stopped while it holds the Clock (soak) | the other loses about two seconds; the stopped one comes back |
"""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.chaos import storm

NODES = [f"n{number:02}" for number in range(16)]
FITS = 5
STOPPED_S = 3.5
OPEN = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND datname = current_database()"
LOST_S = 4.0
"""2 s after which the server ends the stopped transaction, and room for a busy machine."""


@pytest.fixture
def pair(fresh_postgres: str, tmp_path: Path) -> Iterator[list[storm.Extender]]:
    """Two extenders of a cluster of 16 × 8 devices; namespace nlp is limited to 5 × 1000 MiB."""
    storm.prepare(tmp_path, fresh_postgres, len(NODES), 8, FITS * 1000)
    with storm.extenders(tmp_path, fresh_postgres, 2) as started:
        yield started


def test_a_limit_that_fits_5_gives_5_to_two_processes_and_a_kill_loses_nothing(
    pair: list[storm.Extender], fresh_postgres: str
) -> None:
    for number in range(3):
        asked = [storm.pod(f"r{number}-{one}", 1000) for one in range(64)]
        got = storm.filtered(pair, asked, NODES)
        assert sum(map(bool, got)) == (FITS if number == 0 else 0)
    assert storm.rows(fresh_postgres, storm.HELD) == [(5000, FITS)]
    killer = threading.Timer(0.2, pair[1].signal, (signal.SIGKILL,))
    killer.start()
    placed = storm.filtered(pair, [storm.pod(f"free-{one}", 1000, namespace="free") for one in range(64)], NODES)
    killer.join()
    assert all(placed)
    assert storm.rows(fresh_postgres, storm.HELD) == [(5000 + 64 * 1000, FITS + 64)]
    twice = "SELECT uid FROM accounting_pod GROUP BY uid HAVING count(*) > 1"
    assert storm.rows(fresh_postgres, twice) == []


@pytest.mark.soak
def test_a_stopped_extender_costs_the_other_two_seconds(pair: list[storm.Extender], fresh_postgres: str) -> None:
    done = threading.Event()
    answered: list[float] = []

    def traffic(target: storm.Extender, name: str) -> None:
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
            pair[0].signal(signal.SIGCONT)
            moments = [began, *(at for at in answered if at > began), time.monotonic()]
            assert max(later - earlier for earlier, later in itertools.pairwise(moments)) < LOST_S
    finally:
        pair[0].signal(signal.SIGCONT)
        done.set()
        for thread in threads:
            thread.join()
    assert not pair[0].ask("/filter", {"Pod": storm.pod("last", 1, namespace="free"), "NodeNames": NODES})["Error"]


def _stop_inside(one: storm.Extender, database_url: str) -> float:
    """Stop it at a moment when some transaction is open; when that was."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        while True:
            one.signal(signal.SIGSTOP)
            began = time.monotonic()
            found = connection.execute(OPEN).fetchone()
            if found and found[0]:
                return began
            one.signal(signal.SIGCONT)
