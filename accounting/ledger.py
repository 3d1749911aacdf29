"""The ledger transaction: one writer at a time, in an order that everybody can follow.

`transaction()` takes the cluster's Clock, gives out the database's time, and appends the Journal. It must not know
what services write. With `statements`, `bulk` and `lookups`, the only module with SQL of a particular database.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Any

from django.db import InterfaceError, InternalError, OperationalError, connection
from django.db import transaction as db
from django.db.models import Q
from psycopg.pq import TransactionStatus

from accounting import guard
from accounting.breaker import Breaker, LedgerUnavailable
from accounting.entry import Entry
from accounting.models import Clock, Cluster, Journal, ProcessLease
from accounting.statements import Asked, Query, Statement, fetch
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
def transaction(
    *,
    cause: str,
    actor: str = "",
    fence: int | None = None,
    gather: bool = False,
    since: int = 0,
    first: Sequence[Asked] = (),
) -> Iterator[Entry]:
    """Run the block as the ledger's one writer; journal what it records; commit, or leave no trace.

    May be nested: the inner block joins the outer one's revision, under a savepoint. `fence` is the watcher epoch
    that must still be current (Fenced otherwise). gather: the block reads nothing that it writes, so that what goes
    through its Entry may be written by one message at its end (not if nested: the outer block may read). since, first:
    the Journal since a revision, and what else the block reads first (`Entry.answer`), by the message that takes the
    Clock. Raises LedgerUnavailable when the database or the Clock cannot be had in time.
    """
    running: Entry | None = getattr(_local, "entry", None)
    if running is not None:
        yield from _nested(running)
        return
    breaker.check()
    depth = len(connection.atomic_blocks)
    try:
        with ExitStack() as block:
            entry = _begun(block, cause, actor, fence, since, first)
            entry.depth, entry.gathers = depth, gather
            _local.entry = entry
            try:
                with guard.writing():
                    yield entry
                    entry.write(_end(depth))
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


def _begun(block: ExitStack, cause: str, actor: str, fence: int | None, since: int, first: Sequence[Asked]) -> Entry:
    """The transaction, which ends with the block, once it has the Clock. In a long queue that moves it waits again."""
    turns = _TURNS
    while True:
        try:
            with ExitStack() as attempt:
                attempt.enter_context(db.atomic())
                entry = _take_clock(cause, actor, fence, since, first)
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


def _take_clock(cause: str, actor: str, fence: int | None, since: int, first: Sequence[Asked]) -> Entry:
    """Lock the Clock as a statement of its own; whatever is re-checked must be read by later statements."""
    cluster = cluster_id()
    fencing = [_LEASE.asked(cluster, fence)] if fence is not None else []
    together = connection.vendor == "postgresql"  # SQLite's is read when it is needed
    journal = [_SINCE.asked(cluster, since)] if since and together else []
    asked = [*fencing, *journal, *first]
    clock, at, found = _locked(cluster, asked)
    if fencing and not found[fencing[0]]:
        raise Fenced(f"watcher epoch {fence} is over")
    entry = Entry(clock, clock.revision + 1, at, cause, actor)
    entry.journal = found[journal[0]] if journal else ()
    entry.first = {one: found[one] for one in first}
    return entry


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


def journal_since(cluster: int, revision: int) -> Sequence[tuple[int, str, str, str]]:
    """(revision, tag, kind, key) of the revision's first row and of all rows after that revision, in order."""
    running = current()
    if running is not None and running.clock.cluster_id == cluster:
        there = [row for row in running.journal if row[0] >= revision]
        if there and there[0][0] == revision:
            return there
    return _SINCE.rows(cluster, revision)


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
_SINCE = Query(
    lambda cluster, revision: (
        Journal.objects.filter(Q(revision__gt=revision) | Q(seq=0), cluster=cluster, revision__gte=revision)
        .order_by("revision", "seq")
        .values_list("revision", "tag", "kind", "key")
    )
)
_LEASE = Query(
    lambda cluster, epoch: (
        ProcessLease.objects.filter(cluster=cluster, name=WATCHER, epoch=epoch).order_by().values_list("epoch")
    )
)


def _locked(cluster: int, asked: Sequence[Asked]) -> tuple[Clock, datetime, dict[Asked, list[tuple[Any, ...]]]]:
    """The Clock, locked (SQLite: by BEGIN IMMEDIATE), and after that the time and what was asked. Raises
    Clock.DoesNotExist."""
    clock, now = Statement(_CLOCK_SQL, (cluster,)), Statement(_NOW[connection.vendor], ())
    before: list[Statement] = []
    if connection.vendor == "postgresql":
        clock = Statement(f"{_CLOCK_SQL} FOR UPDATE", (cluster,))
        before = [*_begin(), Statement(_TURN_WAIT_SQL, (cluster,))]
    found, ((at,),), *answers = fetch([*before, clock, now, *(one.statement for one in asked)])[len(before) :]
    if not found:
        raise Clock.DoesNotExist(f"cluster {cluster} has no clock")
    read = {one: one.read(rows) for one, rows in zip(asked, answers, strict=True)}
    return Clock.from_db(connection.alias, _CLOCK, found[0]), _time(at), read


def _begin() -> list[Statement]:
    """BEGIN, if Django's driver would send it as a message of its own: it leaves it out in autocommit, and takes the
    transaction for begun whoever began it."""
    raw = connection.connection
    if raw.info.transaction_status != TransactionStatus.IDLE:
        return []
    raw.autocommit = True
    return [Statement("BEGIN", ())]


def _end(depth: int) -> list[Statement]:
    """COMMIT, if the transaction is the ledger's own: what Django commits then is committed already."""
    ours = connection.vendor == "postgresql" and not depth and not connection.needs_rollback
    return [Statement("COMMIT", ())] if ours else []


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
