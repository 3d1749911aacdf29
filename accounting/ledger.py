"""The ledger transaction: one writer at a time, in an order that everybody can follow.

`transaction()` takes the cluster's Clock, gives out the database's time, and appends the Journal. It must not know
what services write. With `statements`, `bulk` and `lookups`, the only module with SQL of a particular database.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Any

from django.db import InterfaceError, InternalError, OperationalError, connection
from django.db import transaction as db

from accounting import guard
from accounting.breaker import Breaker, LedgerUnavailable
from accounting.entry import Entry
from accounting.models import Clock, Cluster, Journal, ProcessLease
from hami_platform import env

__all__ = ["Entry", "Fenced", "LedgerUnavailable", "breaker", "cluster_id", "database_time", "snapshot", "transaction"]

WATCHER = "watcher"
_PAUSED_TOO_LONG = "25P03"  # source: PostgreSQL 15, appendix A, idle_in_transaction_session_timeout
_WAITED_TOO_LONG, _TURNS = "55P03", 3  # the same, lock_not_available; how often one waits


class Fenced(Exception):
    """A process that lost its lease tried to write. It must stop; its successor has taken over."""


_local = threading.local()
_clusters: dict[str, int] = {}


def cluster_id() -> int:
    """Primary key of the cluster this process serves (setting CLUSTER); made on first use.

    Cached only outside a transaction, so that a rolled-back creation (tests) leaves no stale key.
    """
    name = env.current().cluster
    if name not in _clusters:
        cluster, _ = Cluster.objects.get_or_create(name=name)
        if not Clock.objects.filter(cluster=cluster).exists():
            _found(cluster)
        if connection.in_atomic_block:
            return int(cluster.pk)
        _clusters[name] = cluster.pk
    return _clusters[name]


def forget_cluster() -> None:
    """Drop the cached key: the database was replaced (tests, restore)."""
    _clusters.clear()


def _found(cluster: Cluster) -> None:
    """Make the Clock of a new cluster, with a first revision so that every View has a row to stand on."""
    with db.atomic(), guard.writing():
        clock, made = Clock.objects.get_or_create(cluster=cluster, defaults={"incarnation": _drawn(database_time())})
        if made:
            entry = Entry(clock, 1, database_time(), cause="cluster_found", actor="")
            entry.record("clock", "incarnation", incarnation=clock.incarnation)
            entry.write()


@contextmanager
def transaction(*, cause: str, actor: str = "", fence: int | None = None, gather: bool = False) -> Iterator[Entry]:
    """Run the block as the ledger's one writer; journal what it records; commit, or leave no trace.

    May be nested: the inner block joins the outer one's revision, under a savepoint. `fence` is the watcher epoch
    that must still be current (Fenced otherwise). gather: the block reads nothing that it writes, so that what goes
    through its Entry may be written by one message at its end (not if nested: the outer block may read). Raises
    LedgerUnavailable when the database or the Clock cannot be had in time.
    """
    running: Entry | None = getattr(_local, "entry", None)
    if running is not None:
        yield from _nested(running)
        return
    breaker.check()
    depth = len(connection.atomic_blocks)
    try:
        with ExitStack() as block:
            entry = _begun(block, cause, actor, fence)
            entry.depth, entry.gathers = depth, gather
            _local.entry = entry
            try:
                with guard.writing():
                    yield entry
                    entry.write()
            finally:
                _local.entry = None
    except (OperationalError, InterfaceError, InternalError) as fault:
        if not lost(fault):
            raise
        breaker.trip(f"database: {_first_line(fault)}")
        raise LedgerUnavailable(f"database: {_first_line(fault)}") from fault


def _nested(running: Entry) -> Iterator[Entry]:
    before, gathers = len(running.rows), running.gathers
    running.gathers = False  # what is written under a savepoint falls with it
    try:
        with db.atomic():
            yield running
    except BaseException:
        del running.rows[before:]
        raise
    finally:
        running.gathers = gathers


def _begun(block: ExitStack, cause: str, actor: str, fence: int | None) -> Entry:
    """The transaction, which ends with the block, once it has the Clock. In a long queue that moves it waits again."""
    turns = _TURNS
    while True:
        try:
            with ExitStack() as attempt:
                attempt.enter_context(db.atomic())
                entry = _take_clock(cause, actor, fence)
                block.push(attempt.pop_all())
                return entry
        except OperationalError as fault:
            turns -= 1
            if not turns or connection.in_atomic_block or not _queue_moves(fault):
                raise


def _queue_moves(fault: OperationalError) -> bool:
    """Whether the Clock was not had in time although whoever has it now goes on."""
    if getattr(fault.__cause__, "sqlstate", "") != _WAITED_TOO_LONG:
        return False
    with connection.cursor() as cursor:
        cursor.execute(_RESTS_SQL, (cluster_id(), env.current().lock_timeout_s / 2))
        return cursor.fetchone() is None


def _take_clock(cause: str, actor: str, fence: int | None) -> Entry:
    """Lock the Clock as a statement of its own; whatever is re-checked must be read by later statements."""
    cluster = cluster_id()
    clock, at = _locked(cluster)
    if fence is not None and not ProcessLease.objects.filter(cluster_id=cluster, name=WATCHER, epoch=fence).exists():
        raise Fenced(f"watcher epoch {fence} is over")
    return Entry(clock, clock.revision + 1, at, cause, actor)


def revocable() -> bool:
    """Whether this thread is inside a database transaction that is not the ledger's own (an admin view's): what ledger
    transactions in it have written can still be rolled back, so nobody else may be shown it. A test case's own
    does not count."""
    around = list(connection.atomic_blocks)
    if (running := current()) is not None:
        around = around[: running.depth]
    return any(not getattr(block, "_from_testcase", False) for block in around)  # Django's mark, as for durable blocks


def current() -> Entry | None:
    """This thread's running ledger transaction, if any."""
    entry: Entry | None = getattr(_local, "entry", None)
    return entry


def database_time() -> datetime:
    """The database's clock now (not the transaction's start): all leases and ages use it."""
    with connection.cursor() as cursor:
        cursor.execute(_NOW[connection.vendor])
        return _time(cursor.fetchone()[0])


def journal_since(cluster: int, revision: int) -> list[tuple[int, str, str, str]]:
    """(revision, tag, kind, key) of the revision's first row and of all rows after that revision, in order."""
    with connection.cursor() as cursor:
        cursor.execute(_SINCE, (cluster, revision, revision))
        found: list[tuple[int, str, str, str]] = cursor.fetchall()
    return found


# -- Statements of every transaction and refresh, written out: making them anew costs more. PostgreSQL takes several at
# -- once, each with a snapshot of its own, so that what follows a lock sees what was committed before it was given.

_CLOCK = ("id", "cluster_id", "revision", "tag", "incarnation", "compared", "pruned_through")
_CLOCK_SQL = f"SELECT {', '.join(_CLOCK)} FROM {Clock._meta.db_table} WHERE cluster_id = %s"  # noqa: S608
# The wait for a row is two waits, each with lock_timeout of its own: a stopped process's second waiter outlasted its
# first, got the Clock, and the others lost twice as long. Here everybody waits once, in the order of arrival.
_TURN_WAIT_SQL = "SELECT pg_advisory_xact_lock(1751215465, %s)"  # the first number is "hami" in ASCII
_RESTS_SQL = (
    "SELECT 1 FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' AND l.granted"
    " AND l.classid = 1751215465 AND l.objid = %s AND a.datname = current_database()"
    " AND a.state_change < clock_timestamp() - %s * interval '1 second'"
)
_NOW = {"postgresql": "SELECT clock_timestamp()", "sqlite": "SELECT strftime('%Y-%m-%dT%H:%M:%f', 'now')"}
_SINCE = (
    f"SELECT revision, tag, kind, key FROM {Journal._meta.db_table} WHERE cluster_id = %s AND revision >= %s"  # noqa: S608
    " AND (revision > %s OR seq = 0) ORDER BY revision, seq"
)


def _locked(cluster: int) -> tuple[Clock, datetime]:
    """The Clock, locked (SQLite: by BEGIN IMMEDIATE), and the time after that. Raises Clock.DoesNotExist."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(f"{_TURN_WAIT_SQL}; {_CLOCK_SQL} FOR UPDATE; {_NOW['postgresql']}", (cluster, cluster))
            cursor.nextset()
            row = cursor.fetchone()
            cursor.nextset()
        else:
            cursor.execute(_CLOCK_SQL, (cluster,))
            row = cursor.fetchone()
            cursor.execute(_NOW[connection.vendor])
        at = _time(cursor.fetchone()[0])
    if row is None:
        raise Clock.DoesNotExist(f"cluster {cluster} has no clock")
    return Clock.from_db(connection.alias, _CLOCK, row), at


def _time(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value).replace(tzinfo=UTC)


@contextmanager
def snapshot() -> Iterator[None]:
    """Reads in the block see one state of the database, Clock included, without stopping writers.

    Inside a ledger transaction nothing else can write, so nothing is needed there.
    """
    if connection.in_atomic_block:
        yield
    elif connection.vendor == "postgresql":
        with db.atomic(), connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            # A View of a large cluster: long reads, and long pauses between them in which rows become values.
            cursor.execute("SET LOCAL statement_timeout = 60000")
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 60000")
            yield
    else:
        with connection.cursor() as cursor:
            cursor.execute("BEGIN DEFERRED")  # atomic() would take SQLite's write lock
            try:
                yield
            finally:
                cursor.execute("ROLLBACK")


@contextmanager
def losable() -> Iterator[None]:
    """A transaction of rows outside the ledger whose commit does not wait for the disk: after a crash of the database
    server the last of them may be missing, never half of one."""
    with db.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL synchronous_commit = off")
        yield


def incarnation_draw(entry: Entry) -> None:
    """Start a new history: the database was restored or replaced. Nothing is ready until a full compare with the API
    server."""
    drawn = _drawn(entry.at)
    Clock.objects.filter(pk=entry.clock.pk).update(incarnation=drawn)
    entry.record("clock", "incarnation", incarnation=drawn)


def _drawn(at: datetime) -> str:
    """A name for a history. Names are ordered as they are drawn: one that is older than a View has known comes out of a
    backup."""
    return f"{at.astimezone(UTC):%Y%m%d%H%M%S%f}{secrets.token_hex(6)}"


def compared_set(entry: Entry) -> None:
    """A full compare with the API server was finished for the current incarnation."""
    clock = Clock.objects.get(pk=entry.clock.pk)
    if clock.compared != clock.incarnation:
        Clock.objects.filter(pk=clock.pk).update(compared=clock.incarnation)
        entry.record("clock", "compared", compared=clock.incarnation)


def _probe() -> None:
    """Whether the Clock can be locked. Runs in the breaker's own thread, on a connection of its own."""
    dead_drop()
    try:
        with db.atomic():
            Clock.objects.select_for_update().filter(cluster__name=env.current().cluster).first()
    finally:
        connection.close()


def dead_drop() -> None:
    """Drop kept connections whose server has ended: else one call after the other would meet one of them."""
    pool = getattr(connection, "pool", None)  # PostgreSQL's
    if pool is not None and not pool.closed:
        pool.check()


def lost(fault: Exception) -> bool:
    """Whether the database is at fault, and not what was asked of it.

    PostgreSQL calls it an internal error when it ends a session that paused in a transaction for too long.
    """
    return not isinstance(fault, InternalError) or getattr(fault.__cause__, "sqlstate", "") == _PAUSED_TOO_LONG


def _first_line(fault: Exception) -> str:
    return (str(fault).splitlines() or [type(fault).__name__])[0]


breaker = Breaker(_probe)
