"""A burst of pods over three webhooks and two extenders on PostgreSQL, with a simulated cluster around them.

| part | expected |
|---|---|
| 1,000 pods at once in 200 namespaces whose limits fit four of five | 800 run, 200 are denied with the numbers |
| 40 pods onto one node of 16 cards | all bound, no failed bind |
| every card full, 40 pods wait; one after another is deleted | each time exactly one more runs, soon |

Asserted is what holds on any machine; the pace is printed.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path

import psycopg
import pytest

from tests.accounting import simulated
from tests.chaos import cluster, stand, storm
from tests.perf import serving

pytestmark = [pytest.mark.perf, pytest.mark.timeout(1200)]

NODES, CARDS, WIDE_CARDS = 13, 8, 16
MEM_MIB, FITS = 1000, 4
PER_NAMESPACE = 5
DENIED = re.compile(r"needs 1000, free 0 of 4000")
CREATORS = 16


@pytest.fixture(params=["binpack", pytest.param("spread", marks=pytest.mark.long)])
def crowded(
    postgres_url: str, fresh_postgres: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[tuple[cluster.Cluster, stand.Stand]]:
    """Nodes of 8 cards and one of 16, and all processes of the platform; commits wait for the disk."""
    with contextlib.ExitStack() as stack:
        if "TEST_DATABASE_URL" not in os.environ:
            stack.enter_context(serving.durable(postgres_url))
        around = stack.enter_context(cluster.Cluster(tmp_path))
        settings = {**around.settings, "HAMI_NODE_SCHEDULER_POLICY": request.param}
        one = stack.enter_context(stand.standing(tmp_path, fresh_postgres, **settings))
        for number in range(NODES):
            around.node(f"n{number:02}", CARDS)
        around.node("wide", WIDE_CARDS)
        one.prepare()
        for role, many in (("watcher", 1), ("worker", 1), ("beat", 1), ("webhook", 3), ("extender", 2)):
            one.add(role, many)
        one.wait()
        around.open(one)
        yield around, one


def test_a_burst_of_pods(crowded: tuple[cluster.Cluster, stand.Stand], fresh_postgres: str, quick: bool) -> None:
    around, one = crowded
    with cluster.Bound(around) as bound:
        serving.report(f"nodes chosen by {one.environment('tool')['HAMI_NODE_SCHEDULER_POLICY']}")
        _burst(around, bound, fresh_postgres, 40 if quick else 200)
        _onto_one_node(around, bound)
        _freed(around, bound, 10 if quick else 40)
    assert cluster.over(around.given()) == {}
    assert storm.rows(fresh_postgres, storm.OVER) == []
    assert "no difference" in one.manage("selfcheck")


def _burst(around: cluster.Cluster, bound: cluster.Bound, database_url: str, spaces: int) -> None:
    names = [f"team-{number:03}" for number in range(spaces)]
    for name in names:
        around.namespace(name)
        _limit(around, name)
    asks = [(name, f"p{number}") for number in range(PER_NAMESPACE) for name in names]
    count = "SELECT count(*) FROM accounting_nativequota"
    simulated.until(lambda: storm.rows(database_url, count) == [(spaces,)], "the watcher has seen every limit", 60)
    before = _written(database_url)
    began = time.monotonic()
    with futures.ThreadPoolExecutor(CREATORS) as pool:
        denied = [text for text in pool.map(lambda ask: around.create(ask[0], ask[1], MEM_MIB), asks) if text]
    created_s = time.monotonic() - began
    bound.wait("every admitted pod is bound", lambda: len(bound.at) == spaces * FITS, 600)
    took_s = max(bound.at.values()) - began
    written = {name: (now - before[name]) / len(asks) for name, now in _written(database_url).items()}
    serving.report(
        f"{len(asks)} pods created at once, 3 webhooks, 2 extenders: {len(asks) / created_s:.0f} admitted or denied/s,"
        f" {spaces * FITS / took_s:.0f} bound/s; denied {len(denied)}; for each pod until it is bound:"
        f" {written['rows']:.1f} rows and {written['bytes'] / 1024:.1f} KiB of log written"
    )
    assert len(denied) == spaces * (PER_NAMESPACE - FITS)
    assert all(DENIED.search(text) for text in denied), denied[:3]
    assert _bind_failures(around) == []


def _limit(around: cluster.Cluster, namespace: str) -> None:
    hard = {"limits.nvidia.com/gpumem": str(FITS * MEM_MIB)}
    body = {"metadata": {"name": "gpu", "namespace": namespace}, "spec": {"hard": hard}}
    around.people.create(f"/api/v1/namespaces/{namespace}/resourcequotas", body)


def _onto_one_node(around: cluster.Cluster, bound: cluster.Bound) -> None:
    _emptied(around)  # a node takes 110 pods, and a burst that is spread fills it
    around.namespace("one")
    began = time.monotonic()
    for number in range(40):
        assert around.create("one", f"w{number}", MEM_MIB, node="wide") == ""
    bound.wait("40 pods are on the node", lambda: sum(space == "one" for space, _ in bound.at) == 40, 120)
    serving.report(f"40 pods onto one node of 16 cards: bound after {time.monotonic() - began:.1f} s")
    assert _bind_failures(around) == []


def _freed(around: cluster.Cluster, bound: cluster.Bound, times: int) -> None:
    """Fill what is left with pods of a whole card each, then free one card after another."""
    _emptied(around)
    around.namespace("whole")
    cards = NODES * CARDS + WIDE_CARDS
    for number in range(cards + times):
        assert around.create("whole", f"f{number:03}", cluster.MEMORY_MIB) == ""
    running: list[str] = []

    def placed() -> list[str]:
        return [name for space, name in bound.at if space == "whole"]

    bound.wait("every card is full", lambda: len(placed()) == cards, 300)
    running = placed()
    took = []
    for number in range(times):
        began = time.monotonic()
        around.delete("whole", running[number])
        bound.wait("the next pod is placed", functools.partial(_as_many, placed, cards + number + 1), 60)
        took.append(time.monotonic() - began)
    cuts = statistics.quantiles(took, n=100, method="inclusive")
    serving.report(f"from delete to next placement, {times} times: p50 {cuts[49]:.2f} s, p99 {cuts[98]:.2f} s")


def _emptied(around: cluster.Cluster) -> None:
    for pod in around.pods():
        around.delete(pod["metadata"]["namespace"], pod["metadata"]["name"])


def _as_many(placed: Callable[[], list[str]], many: int) -> bool:
    return len(placed()) == many


def _bind_failures(around: cluster.Cluster) -> list[str]:
    """What the scheduler said about failed binds."""
    notes = [one.get("note", "") for one in around.events() if one["reason"] in ("FailedScheduling", "BindingFailed")]
    return [note for note in notes if "nodes are available" not in note and "ledger" not in note]


def _written(database_url: str) -> dict[str, float]:
    """Rows and bytes of the write-ahead log so far."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
        rows = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del), pg_current_wal_lsn() - '0/0' FROM pg_stat_user_tables"
        made = connection.execute(rows).fetchone()
    assert made is not None
    return {"rows": float(made[0]), "bytes": float(made[1])}
