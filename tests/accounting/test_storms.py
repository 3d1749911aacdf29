"""Many at once, and one that stops: the last room is given out exactly once, and nobody waits for a stopped process.

| storm | asks | room | granted |
|---|---|---|---|
| one device | 64 placements | 5 | 5 |
| eight nodes of one device, one pod each | 64 placements | 8 | 8 |
| 16 nodes of 8 devices, namespace limit | 64 placements | 5 | 5 |
| admission | 100 claims | 7 | 7 |
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any, TypeVar

import psycopg
import pytest
from django.db import connection

from accounting import ledger, live_view
from accounting.models import Pod
from accounting.services import claims, placements, seen
from tests import builders, threads
from tests.accounting import flow, kube_objects
from tests.accounting.celery_processes import database_url
from tests.accounting.simulated import until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.ledger]
T = TypeVar("T")


def at_once(many: int, ask: Callable[[int], T]) -> list[T]:
    """The answers of `many` threads that begin together. One that finds the ledger away asks again, as its caller
    would."""
    gate = threading.Barrier(many)

    def one(number: int) -> T:
        try:
            gate.wait(30)
            while True:
                try:
                    return ask(number)
                except ledger.LedgerUnavailable:
                    connection.close()  # the probe needs one
                    until(lambda: not ledger.breaker.why, "the ledger is back")
        finally:
            connection.close()

    with futures.ThreadPoolExecutor(many) as pool:
        return list(pool.map(one, range(many)))


def placed(many: int, **amounts: Any) -> list[str]:
    """The nodes that so many pods got from /filter at once."""
    names = tuple(live_view.live().refresh().states)
    asked = [seen.from_object(kube_objects.pod(f"p{n}", **amounts), flow.CONFIG) for n in range(many)]
    answers = at_once(many, lambda n: placements.placement_reserve(seen=asked[n], candidates=names, config=flow.CONFIG))
    assert not any(answer.error for answer in answers)
    return sorted(answer.node for answer in answers if answer.node)


def test_64_placements_on_one_device_that_fits_5() -> None:
    flow.cluster()
    assert placed(64, mem=4900) == ["n1"] * 5
    assert flow.used_mib() == 5 * 4900
    assert Pod.objects.filter(state="reserved").count() == 5
    flow.view_is_true()


def test_h60_24_pods_of_2000_at_once_on_a_device_that_fits_23() -> None:
    flow.cluster(kube_objects.node("n1", builders.device("GPU-n1", memory_mib=46068, slots=30)))
    assert len(placed(24, mem=2000)) == 23
    assert flow.used_mib() == 46000


def test_h61_three_pods_of_half_a_device_at_once_two_are_placed() -> None:
    flow.cluster()
    assert len(placed(3, mem=12288)) == 2
    assert flow.used_mib() == 24576


def test_64_placements_on_eight_nodes_that_fit_one_pod_each() -> None:
    nodes = [f"n{number}" for number in range(8)]
    flow.cluster(*(kube_objects.node(name) for name in nodes))
    assert placed(64, mem=20000) == nodes
    flow.view_is_true()


def test_64_placements_under_a_namespace_limit_that_fits_5() -> None:
    flow.cluster(
        *(
            kube_objects.node(f"n{n:02}", *(builders.device(f"GPU-{n}-{i}", index=i) for i in range(8)))
            for n in range(16)
        )
    )
    flow.limit(memory_mib=5000)
    assert len(placed(64, mem=1000)) == 5
    assert flow.charged_mib() == 5000
    flow.view_is_true()


def admitted(many: int, *, mem: int) -> list[claims.ClaimAnswer]:
    """What admission says to so many pods at once."""
    request = seen.from_object(kube_objects.pod(mem=mem), flow.CONFIG).request
    asks = [claims.ClaimAsk(f"review-{n}", "nlp", request, name=f"p{n}") for n in range(many)]
    return at_once(many, lambda n: claims.claim_take(asks[n]))


def test_h25_three_pods_created_at_once_two_fit_the_quota() -> None:
    flow.cluster()
    flow.limit(memory_mib=10000)
    answers = admitted(3, mem=4000)
    (denied,) = [answer for answer in answers if not answer.granted]
    assert "needs 4000, free 2000" in denied.message
    assert flow.charged_mib() == 8000


def test_100_admissions_with_quota_for_7() -> None:
    flow.cluster()
    flow.limit(memory_mib=7000)
    answers = admitted(100, mem=1000)
    assert sum(answer.granted for answer in answers) == 7
    assert all("7000" in answer.message for answer in answers if not answer.granted)
    assert flow.charged_mib() == 7000
    flow.view_is_true()


def take_clock(session: psycopg.Connection) -> None:
    """As a process does that stops then."""
    session.execute(ledger._TURN_WAIT_SQL.encode(), (ledger.cluster_id(),))
    session.execute("SELECT 1 FROM accounting_clock FOR UPDATE")


@pytest.mark.only("postgresql")
def test_a_stopped_holder_of_the_clock_stops_nobody_else(django_assert_num_queries: Callable[..., object]) -> None:
    """It holds the lock all the time: that the others get an answer at all is what counts."""
    flow.cluster()
    with psycopg.connect(database_url()) as stopped:
        take_clock(stopped)
        with pytest.raises(ledger.LedgerUnavailable, match="lock timeout"):
            flow.admit(kube_objects.pod("first", mem=1000))
        with django_assert_num_queries(0), pytest.raises(ledger.LedgerUnavailable):  # type: ignore[attr-defined]
            flow.admit(kube_objects.pod("second", mem=1000))
    until(lambda: not ledger.breaker.why, "closed by itself")
    assert flow.admit(kube_objects.pod("third", mem=1000)).granted


@pytest.mark.only("postgresql")
def test_a_process_that_stops_inside_a_ledger_transaction_loses_it() -> None:
    """As in production, where its connection carries the time-out: the server ends it."""
    flow.cluster()
    stopped = psycopg.connect(database_url(), options="-c idle_in_transaction_session_timeout=1500")
    try:
        take_clock(stopped)
        with pytest.raises(ledger.LedgerUnavailable):
            flow.admit(kube_objects.pod("first", mem=1000))
        until(lambda: not ledger.breaker.why, "closed by itself, nobody released anything")
        assert flow.admit(kube_objects.pod("second", mem=1000)).granted
    finally:
        stopped.close()


@pytest.mark.only("postgresql")
def test_whoever_waits_for_the_clock_waits_for_one_lock_alone() -> None:
    """PostgreSQL allows the time-out anew for each lock. Waiting for a row takes two, one after the other: a stopped
    process's second waiter would outlast its first one, get the Clock, and hold it stopped once more."""
    flow.cluster()
    held, waits = threading.Event(), "SELECT locktype FROM pg_locks WHERE NOT granted"

    def hold() -> None:
        with ledger.transaction(cause="test"):
            held.wait(30)

    def wait() -> None:
        with contextlib.suppress(ledger.LedgerUnavailable), ledger.transaction(cause="test"):
            pass

    with futures.ThreadPoolExecutor(4) as pool, psycopg.connect(database_url(), autocommit=True) as other:
        pool.submit(threads.alone, hold)
        until(lambda: other.execute("SELECT 1 FROM pg_locks WHERE mode = 'RowShareLock'").fetchall(), "it is held")
        for _ in range(3):
            pool.submit(threads.alone, wait)
        until(lambda: other.execute(waits).fetchall(), "somebody waits")
        kinds = {kind for _ in range(20) for (kind,) in other.execute(waits).fetchall()}
        held.set()
    assert kinds == {"advisory"}


@pytest.mark.only("postgresql")
def test_a_queue_that_moves_is_waited_in_again_and_denies_nobody() -> None:
    """Each of three holds the Clock for longer than half of one wait's patience, and does something all the time."""
    flow.cluster()
    gate = threading.Barrier(4)

    def busy() -> None:
        gate.wait(30)
        with ledger.transaction(cause="test"), connection.cursor() as cursor:
            for _ in range(12):
                cursor.execute("SELECT pg_sleep(0.05)")

    def ask() -> claims.ClaimAnswer:
        gate.wait(30)
        return flow.admit(kube_objects.pod("p", mem=1000))

    with futures.ThreadPoolExecutor(4) as pool:
        works = [pool.submit(threads.alone, work) for work in (busy, busy, busy)]
        assert pool.submit(threads.alone, ask).result(60).granted
        for one in works:
            one.result(60)
    assert not ledger.breaker.why


@pytest.mark.only("postgresql")
def test_after_the_server_has_ended_every_session_only_one_call_fails() -> None:
    """Of a pool of dead connections the probe leaves none to those who come after it."""
    flow.cluster()
    assert ready_in_each_of(6)
    with psycopg.connect(database_url(), autocommit=True) as other:
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        other.execute(f"{ended} AND datname = current_database()")
    with pytest.raises(ledger.LedgerUnavailable):
        flow.admit(kube_objects.pod("first", mem=1000))
    connection.close()
    until(lambda: not ledger.breaker.why, "closed by itself")
    assert ready_in_each_of(6)


def ready_in_each_of(many: int) -> bool:
    """Ask in so many threads, each with a connection of its own until all have asked."""
    gate = threading.Barrier(many)

    def one(_: int) -> bool:
        try:
            return live_view.live().refresh().ready
        finally:
            gate.wait(30)
            connection.close()

    with futures.ThreadPoolExecutor(many) as pool:
        return all(pool.map(one, range(many)))
