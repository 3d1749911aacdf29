"""Every process killed and stopped, every server lost, while pods come and go.

| done | expected, as docs/architecture.md says |
|---|---|
| kill -9, or SIGSTOP and SIGCONT, of one webhook, extender, watcher, worker, beat | the others serve; nothing is lost |
| PostgreSQL crashes and replays its log; is away for seconds | pods with devices are denied with the reason |
| Redis forgets everything; is away for seconds | decisions go on; ticks come back |
| the API server hangs up on everybody; cuts every watch | nothing is lost; what happened is seen afterwards |

After each: every pod that was admitted runs, no card gives more than it has (counted from annotations, and by SQL),
the self check finds no difference, and once the pods are gone nothing is held.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.accounting.simulated import until
from tests.chaos import cluster, own_servers, stand, storm, traffic
from tests.perf import serving

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

SETTLED_S = 120
ROLES = {"webhook": 2, "extender": 2, "watcher": 2, "worker": 1, "beat": 1}
# What each is stopped for: longer than the ledger's patience; the watcher for longer than its lease.
STOPPED_S = {"webhook": 4.0, "extender": 4.0, "watcher": 20.0, "worker": 4.0, "beat": 4.0}
EPOCH = "SELECT epoch FROM accounting_processlease WHERE name = 'watcher' AND until > clock_timestamp()"
TICKED = "SELECT succeeded_at FROM accounting_processlease WHERE name = 'pods'"


@dataclass
class World:
    """Everything that runs."""

    around: cluster.Cluster
    stand: stand.Stand
    database: own_servers.Postgres
    broker: own_servers.Redis
    bound: cluster.Bound

    def rows(self, query: str) -> list[tuple[object, ...]]:
        return storm.rows(self.stand.database_url, query)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Two webhooks, extenders and watchers, worker and beat, over servers of their own and a simulated cluster."""
    folder = tmp_path_factory.mktemp("faults")
    with contextlib.ExitStack() as stack:
        database, broker = stack.enter_context(own_servers.servers())
        around = stack.enter_context(cluster.Cluster(folder))
        settings = {**around.settings, "HAMI_REDIS_URL": broker.url}
        one = stack.enter_context(stand.standing(folder, database.url, **settings))
        for number in range(4):
            around.node(f"n{number}", 8)
        one.prepare()
        for role, many in ROLES.items():
            one.add(role, many)
        one.wait()
        around.open(one)
        bound = stack.enter_context(cluster.Bound(around))
        yield World(around, one, database, broker, bound)


@contextlib.contextmanager
def pods_coming_and_going(world: World, name: str) -> Iterator[traffic.Traffic]:
    """Traffic around a fault; afterwards all must be right, and nothing is left."""
    try:
        yield from _traffic(world, name)
        _settled(world, name)
    finally:
        for pod in world.around.pods(name):
            world.around.delete(name, pod["metadata"]["name"])
    nothing = storm.HELD_BY.format(name)
    until(lambda: world.rows(nothing) == [(0, 0)], "nothing is held any more", SETTLED_S)


def _traffic(world: World, name: str) -> Iterator[traffic.Traffic]:
    with traffic.Traffic(world.around, world.bound, name) as flow:
        flow.wait("pods are placed", "placed", 8)
        began = time.monotonic()
        yield flow
        flow.wait("pods are created after the fault", "created", 8)
        flow.wait("pods are placed after the fault", "placed", 8)
        created, placed = (traffic.longest_gap_s(list(one), began) for one in (flow.created, flow.placed))
        serving.report(f"{name}: longest time without an admission {created:.1f} s, without a placement {placed:.1f} s")


def _settled(world: World, name: str) -> None:
    until(lambda: all(_runs(pod) for pod in world.around.pods(name)), "every pod runs", SETTLED_S)
    assert cluster.over(world.around.given()) == {}
    assert world.rows(storm.OVER) == []
    assert world.rows(storm.TWICE) == []
    until(lambda: _same(world), "the self check finds no difference", SETTLED_S)


def _runs(pod: cluster.Obj) -> bool:
    return bool(pod["status"].get("phase") == "Running")


def _same(world: World) -> bool:
    try:
        return "no difference" in world.stand.manage("selfcheck")
    except AssertionError:
        return False


@pytest.mark.parametrize("role", ROLES)
def test_a_killed_process_loses_nothing(world: World, role: str) -> None:
    victim = _active(world, role)
    with pods_coming_and_going(world, f"kill-{role}") as flow:
        epoch = world.rows(EPOCH)
        victim.kill()
        flow.wait("the others admit", "created", 8)
        if role == "watcher":
            until(lambda: world.rows(EPOCH) not in ([], epoch), "the standby has taken over", 30)
        victim.start()
        victim.wait()


@pytest.mark.parametrize("role", ROLES)
def test_a_stopped_process_loses_nothing(world: World, role: str) -> None:
    victim = _active(world, role)
    with pods_coming_and_going(world, f"stop-{role}") as flow:
        epoch = world.rows(EPOCH)
        victim.pause()
        try:
            time.sleep(STOPPED_S[role])  # the stop's length is what is given, not a wait for something
            flow.wait("the others admit", "created", 4)
        finally:
            victim.resume()
        if role == "watcher":
            until(lambda: world.rows(EPOCH) not in ([], epoch), "the standby has taken over", 30)
            over = ("fenced", "watch_interrupted")  # or its session was ended inside a transaction
            until(lambda: any(one in victim.process.tail(200) for one in over), "it knows that its term is over", 30)


def _active(world: World, role: str) -> stand.Member:
    """The one that works: of two watchers the one with the lease."""
    members = world.stand.of(role)
    if role != "watcher":
        return members[0]
    ((holder,),) = world.rows("SELECT holder FROM accounting_processlease WHERE name = 'watcher'")
    return next(one for one in members if str(holder) in one.process.tail(1_000_000))


def test_postgres_that_crashes_loses_nothing_that_was_said(world: World) -> None:
    with pods_coming_and_going(world, "crash-postgres"):
        world.database.crash()


def test_while_postgres_is_away_pods_with_devices_are_denied_and_others_run(world: World) -> None:
    with pods_coming_and_going(world, "no-postgres"):
        world.database.stop()
        try:
            denied = world.around.create_once("no-postgres", "asks", traffic.MEM_MIB)
            assert "cannot be checked now" in denied
            assert world.around.create_once("no-postgres", "plain", None) == ""
            until(lambda: not any(one.ready() for one in world.stand.of("webhook")), "the webhooks say so", 30)
        finally:
            world.database.start()
    for one in world.stand.members:
        assert one.process.alive(), one.role


@pytest.mark.parametrize("how", ["flushed", "away"])
def test_without_redis_decisions_go_on_and_ticks_come_back(world: World, how: str) -> None:
    with pods_coming_and_going(world, f"redis-{how}") as flow:
        if how == "flushed":
            world.broker.flush()
        else:
            world.broker.kill()
        flow.wait("pods are placed without it", "placed", 8)
        before = world.rows(TICKED)
        if how == "away":
            world.broker.start()
        until(lambda: world.rows(TICKED) != before, "a tick has run again", 90)


def _outage(world: World) -> None:
    world.around.api.fault.outage()
    time.sleep(5)  # the outage's length is what is given
    world.around.api.fault.lift()


def _cut(world: World) -> None:
    for _ in range(5):
        world.around.api.fault.cut_watches()
        time.sleep(0.2)
    world.around.api.fault.compact()
    world.around.api.fault.cut_watches()


@pytest.mark.parametrize("fault", [_outage, _cut], ids=["outage", "cut"])
def test_an_api_server_that_is_away_loses_nothing(world: World, fault: Callable[[World], None]) -> None:
    with pods_coming_and_going(world, f"api-{fault.__name__.strip('_')}"):
        fault(world)
