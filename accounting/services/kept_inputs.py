"""Keeps what decisions were taken on, so that they can be taken again: hour by hour, within a budget of disk.

Called by the thread that writes decisions, never by whoever decides. What is kept of an hour goes all at once, the
oldest hour first. Must not know: how inputs are spelled, nor how decisions are taken again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Generic, TypeVar

from django.db import connection, models
from django.db.models import F

from accounting import live_view
from accounting.models import InputHour, InputPiece
from accounting.services import decision_inputs, device_config
from hami_platform import env, metrics

K = TypeVar("K")

PART: Final = 4
"""One process keeps at most this part of the budget in one hour, so that a burst does not drive out all before it."""
AT_ONCE: Final = 500
INSERTED: Final = 100
"""Few, so that decisions get the interpreter between two statements when an hour begins."""
MIB: Final = 1024 * 1024
ROW_BYTES: Final = 150
"""What PostgreSQL 15 needs beside the body of a piece, indexes included; measured."""

_kept = metrics.counter(
    "hami_platform_decision_inputs_bytes_total", "Bytes of what decisions were taken on, kept to take them again."
)


class NotKept(StrEnum):
    """Why there is nothing to take a decision again with."""

    NOTHING = "nothing"
    """There was none: the pod's node was settled, or something failed."""
    OFF = "off"
    BUDGET = "budget"
    SPELLING = "spelling"
    POD = "pod"
    """It was taken on the pod's text alone, which may hold secrets."""


@dataclass(frozen=True, slots=True)
class Kept(Generic[K]):
    """A batch, spelled. hashes: of the decisions whose inputs are kept once it is written; why_not: of the others."""

    hashes: Mapping[K, str]
    why_not: Mapping[K, NotKept]
    pieces: decision_inputs.Pieces = field(default_factory=decision_inputs.Pieces)
    hour: int = 0


def hour_of(at: datetime) -> datetime:
    """The hour with which the inputs of a decision written at this time are kept."""
    return at.replace(minute=0, second=0, microsecond=0)


class Keeper(Generic[K]):
    """This process's. Not for several threads at once."""

    def __init__(self) -> None:
        self._standing: tuple[object, ...] = ()
        self._speller = decision_inputs.Speller()
        self._hour = 0
        self._left_bytes = 0

    def spell(self, cluster: int, now: datetime, grounds: Mapping[K, decision_inputs.Grounds]) -> Kept[K]:
        """What must be written. Nothing may be spelled after it before `write` has done that."""
        budget = env.current().trace_inputs_mib * MIB
        why_not = {key: NotKept.NOTHING for key, own in grounds.items() if not own}
        asked = {key: own for key, own in grounds.items() if own}
        if not budget or not asked:
            return Kept({}, why_not | dict.fromkeys(asked, NotKept.OFF))
        self._stand(cluster, now, budget)
        pieces = decision_inputs.Pieces()
        hashes: dict[K, str] = {}
        for key, own in asked.items():
            if _size_bytes(pieces) >= self._left_bytes:
                why_not[key] = NotKept.BUDGET
            elif (found := self._spelled(own, pieces)) is None:
                return Kept({}, why_not | dict.fromkeys(asked, NotKept.SPELLING))
            else:
                hashes[key] = found
        return Kept(hashes, why_not, pieces, self._hour)

    def write(self, kept: Kept[K]) -> None:
        """Write the pieces. Call in the transaction of the decisions, after them: one writer of an hour waits for
        another here."""
        rows = [InputPiece(hour_id=kept.hour, digest=digest, body=body) for digest, body in kept.pieces.items()]
        if not rows:
            return
        InputPiece.objects.bulk_create(rows, batch_size=INSERTED, ignore_conflicts=True)
        size = _size_bytes(kept.pieces)
        if not InputHour.objects.filter(pk=kept.hour).update(size_bytes=F("size_bytes") + size):
            raise LookupError(f"the kept hour {kept.hour} is gone")  # the database was replaced
        self._left_bytes -= size
        _kept.inc(size)

    def forget(self) -> None:
        """Spell everything anew: what was spelled may not have been written."""
        self._standing = ()

    def _spelled(self, own: decision_inputs.Grounds, pieces: decision_inputs.Pieces) -> str | None:
        try:
            return self._speller.spell(own, device_config.source(), pieces)
        except (ValueError, OverflowError, TypeError):
            self.forget()
            return None

    def _stand(self, cluster: int, now: datetime, budget: int) -> None:
        """Begin anew with each hour and each history of the ledger."""
        standing = (cluster, hour_of(now), live_view.live().now.clock.incarnation)
        if standing == self._standing:
            return
        row, _ = InputHour.objects.get_or_create(cluster_id=cluster, hour=hour_of(now))
        self._speller, self._hour = decision_inputs.Speller(), row.pk
        self._left_bytes = budget // PART
        self._standing = () if connection.in_atomic_block else standing  # what a test writes is taken back


def _size_bytes(pieces: decision_inputs.Pieces) -> int:
    return pieces.size_bytes + ROW_BYTES * len(pieces)


def source(cluster: int, hour: datetime) -> decision_inputs.Source:
    """The pieces of that hour."""

    def found(digests: Iterable[str]) -> dict[str, bytes]:
        wanted = list(digests)
        rows = InputPiece.objects.filter(hour__cluster=cluster, hour__hour=hour)
        known: dict[str, bytes] = {}
        for start in range(0, len(wanted), AT_ONCE):
            some = rows.filter(digest__in=wanted[start : start + AT_ONCE]).order_by()
            known |= {digest: bytes(body) for digest, body in some.values_list("digest", "body")}
        return known

    return found


def hour_exists(cluster: int, hour: datetime) -> bool:
    """Whether anything of that hour is still kept."""
    return InputHour.objects.filter(cluster=cluster, hour=hour).exists()


def inputs_drop(cluster: int, now: datetime, *, days: int, budget_mib: int) -> int:
    """Drop hours older than that, and the oldest while all together are above the budget, never the current one; the
    number of pieces dropped."""
    current = hour_of(now)
    hours = InputHour.objects.filter(cluster=cluster, hour__lt=current).order_by("hour")
    total = InputHour.objects.filter(cluster=cluster).aggregate(all=models.Sum("size_bytes"))["all"] or 0
    dropped = 0
    for row in hours:
        if row.hour >= current - timedelta(days=days) and total <= budget_mib * MIB:
            break
        total -= row.size_bytes
        dropped += _drop(row)
    return dropped


def _drop(row: InputHour) -> int:
    """In batches: an hour may hold more than one statement may take."""
    dropped = 0
    while keys := list(row.pieces.order_by().values_list("pk", flat=True)[:AT_ONCE]):
        dropped += InputPiece.objects.filter(pk__in=keys).delete()[0]
    row.delete()
    return dropped
