"""The ledger transaction: one writer at a time, in an order that everybody can follow.

`transaction()` takes the cluster's Clock, gives out the database's time, and appends the Journal. It must not know
what services write. The only module with SQL of a particular database.
"""

from __future__ import annotations

import secrets
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.db import InterfaceError, OperationalError, connection
from django.db import transaction as db

from accounting import guard
from accounting.breaker import Breaker, LedgerUnavailable
from accounting.models import Clock, Cluster, Journal, ProcessLease
from hami_platform import env

__all__ = ["Entry", "Fenced", "LedgerUnavailable", "breaker", "cluster_id", "database_time", "snapshot", "transaction"]

WATCHER = "watcher"


class Fenced(Exception):
    """A process that lost its lease tried to write. It must stop; its successor has taken over."""


@dataclass
class Entry:
    """The running ledger transaction: its place in the order, its time, and what it has changed so far."""

    clock: Clock
    revision: int
    at: datetime
    cause: str
    actor: str
    rows: list[Journal] = field(default_factory=list)

    def record(self, kind: str, key: str | int, **values: Any) -> None:
        """Journal that the row `key` of `kind` changed; `values` are what readers of the activity want to see."""
        self.rows.append(
            Journal(
                cluster_id=self.clock.cluster_id,
                revision=self.revision,
                at=self.at,
                kind=kind,
                key=str(key),
                cause=self.cause,
                actor=self.actor,
                values=values,
            )
        )

    def write(self) -> None:
        """Give the recorded rows their revision. A transaction that changed nothing takes none."""
        if not self.rows:
            return
        tag = secrets.token_hex(8)
        for seq, row in enumerate(self.rows):
            row.seq, row.tag = seq, tag
        Journal.objects.bulk_create(self.rows, batch_size=500)
        Clock.objects.filter(pk=self.clock.pk).update(revision=self.revision, tag=tag)


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
        clock, made = Clock.objects.get_or_create(cluster=cluster, defaults={"incarnation": uuid.uuid4().hex})
        if made:
            entry = Entry(clock, 1, database_time(), cause="cluster_found", actor="")
            entry.record("clock", "incarnation", incarnation=clock.incarnation)
            entry.write()


@contextmanager
def transaction(*, cause: str, actor: str = "", fence: int | None = None) -> Iterator[Entry]:
    """Run the block as the ledger's one writer; journal what it records; commit, or leave no trace.

    May be nested: the inner block joins the outer one's revision, under a savepoint. `fence` is the watcher epoch
    that must still
    be current (Fenced otherwise). Raises LedgerUnavailable when the database or the Clock cannot be had in time.
    """
    running: Entry | None = getattr(_local, "entry", None)
    if running is not None:
        yield from _nested(running)
        return
    breaker.check()
    try:
        with db.atomic():
            entry = _take_clock(cause, actor, fence)
            _local.entry = entry
            try:
                with guard.writing():
                    yield entry
                    entry.write()
            finally:
                _local.entry = None
    except (OperationalError, InterfaceError) as fault:
        breaker.trip(f"database: {_first_line(fault)}")
        raise LedgerUnavailable(f"database: {_first_line(fault)}") from fault


def _nested(running: Entry) -> Iterator[Entry]:
    before = len(running.rows)
    try:
        with db.atomic():
            yield running
    except BaseException:
        del running.rows[before:]
        raise


def _take_clock(cause: str, actor: str, fence: int | None) -> Entry:
    """Lock the Clock as a statement of its own; whatever is re-checked must be read by later statements."""
    cluster = cluster_id()
    clock = Clock.objects.select_for_update().get(cluster_id=cluster)
    if fence is not None and not ProcessLease.objects.filter(cluster_id=cluster, name=WATCHER, epoch=fence).exists():
        raise Fenced(f"watcher epoch {fence} is over")
    return Entry(clock, clock.revision + 1, database_time(), cause, actor)


def current() -> Entry | None:
    """This thread's running ledger transaction, if any."""
    entry: Entry | None = getattr(_local, "entry", None)
    return entry


def database_time() -> datetime:
    """The database's clock now (not the transaction's start): all leases and ages use it."""
    sql = "SELECT strftime('%Y-%m-%dT%H:%M:%f', 'now')"
    if connection.vendor == "postgresql":
        sql = "SELECT clock_timestamp()"
    with connection.cursor() as cursor:
        cursor.execute(sql)
        value = cursor.fetchone()[0]
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
            cursor.execute("SET LOCAL statement_timeout = 60000")
            yield
    else:
        with connection.cursor() as cursor:
            cursor.execute("BEGIN DEFERRED")  # atomic() would take SQLite's write lock
            try:
                yield
            finally:
                cursor.execute("ROLLBACK")


def incarnation_draw(entry: Entry) -> None:
    """Start a new history: the database was restored or replaced. Nothing is ready until a full compare with the API
    server."""
    drawn = uuid.uuid4().hex
    Clock.objects.filter(pk=entry.clock.pk).update(incarnation=drawn)
    entry.record("clock", "incarnation", incarnation=drawn)


def compared_set(entry: Entry) -> None:
    """A full compare with the API server was finished for the current incarnation."""
    clock = Clock.objects.get(pk=entry.clock.pk)
    if clock.compared != clock.incarnation:
        Clock.objects.filter(pk=clock.pk).update(compared=clock.incarnation)
        entry.record("clock", "compared", compared=clock.incarnation)


def _probe() -> None:
    """Whether the Clock can be locked. Runs in the breaker's own thread, on a connection of its own."""
    try:
        with db.atomic():
            Clock.objects.select_for_update().filter(cluster__name=env.current().cluster).first()
    finally:
        connection.close()


def _first_line(fault: Exception) -> str:
    return (str(fault).splitlines() or [type(fault).__name__])[0]


breaker = Breaker(_probe)
