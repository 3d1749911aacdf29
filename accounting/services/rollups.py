"""Hourly sums of use and of idle time, recomputed from intervals and registrations: running it again gives the same
rows.

A device counts while it is registered, and while somebody holds it: so nobody's time is lost where a registration was
seen late. The sums of an hour are whole microseconds, and come to exactly the time that devices were there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Final

from django.db.models import Min

from accounting import ledger
from accounting.models import LateUsage, ProcessLease, Registration, UsageHour, UsageInterval
from accounting.selectors import measured_use, stretches, usage_report
from accounting.selectors.stretches import Kind, Stretch
from accounting.services import registrations
from hami_platform.domain import cost

JOB = usage_report.ROLLUP
"""Name under which the last run that ended well is recorded."""

MOST_HOURS = 31 * 24
"""An outage longer than this leaves a gap; a repair by hand would recompute it."""

IN_FLIGHT: Final = timedelta(minutes=5)
"""A transaction that took its time before the last run may have committed after it."""

SECOND_US: Final = 1_000_000

Holder = tuple[str, str]
"""Namespace and owner; both empty: nobody."""
IDLE: Final[Holder] = ("", "")


@dataclass(slots=True)
class Sums:
    """Of one holder and kind of device, over an hour: whole-device microseconds, held and by what was measured of them,
    and amounts × microseconds."""

    card_us: Fraction = field(default_factory=Fraction)
    measured_us: Fraction = field(default_factory=Fraction)
    unused_us: Fraction = field(default_factory=Fraction)
    unbusy_us: Fraction = field(default_factory=Fraction)
    slots: int = 0
    memory_mib: int = 0
    core_percent: int = 0


def hours_rollup() -> int:
    """Recompute the running hour and every one that may have changed since the last run that ended well; the number of
    rows written."""
    registrations.registrations_check()
    cluster, now = ledger.cluster_id(), ledger.database_time()
    late = dict(LateUsage.objects.filter(cluster=cluster).values_list("pk", "since"))
    first = max(_whole(min([_since(now), *late.values()])), _whole(now) - timedelta(hours=MOST_HOURS - 1))
    written = sum(_hour(first + timedelta(hours=n), now) for n in range(_hours(first, now)))
    LateUsage.objects.filter(pk__in=list(late)).delete()
    return written


def _whole(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _hours(first: datetime, now: datetime) -> int:
    return 1 + (_whole(now) - first) // timedelta(hours=1)


def _since(now: datetime) -> datetime:
    """When the sums were last true: the last good run, or else the first use that was ever recorded."""
    cluster = ledger.cluster_id()
    last = ProcessLease.objects.filter(cluster=cluster, name=JOB).values_list("succeeded_at", flat=True).first()
    if last is not None:
        return last - IN_FLIGHT
    firsts = (rows.objects.filter(cluster=cluster).aggregate(at=Min("started_at"))["at"] for rows in _SOURCES)
    return min((at for at in firsts if at is not None), default=now)


_SOURCES: Final = (UsageInterval, Registration)


def _hour(hour: datetime, now: datetime) -> int:
    """Replace the rows of one hour. What was measured counts when the hour is over: until then some is missing."""
    end = min(hour + timedelta(hours=1), now)
    found: dict[tuple[Kind, Holder], Sums] = defaultdict(Sums)
    measured = measured_use.slots(hour, end) if end == hour + timedelta(hours=1) else None
    for one in stretches.stretches(hour, end):
        _add(found, one)
        if measured is not None:
            _judge(found, one, measured)
    rows = list(_rows(hour, found))
    with ledger.losable():
        UsageHour.objects.filter(cluster=ledger.cluster_id(), hour=hour, simulated=False).delete()
        UsageHour.objects.bulk_create(rows, batch_size=500)
    return len(rows)


def _add(found: dict[tuple[Kind, Holder], Sums], one: Stretch) -> None:
    """What one device came to, to its holders and to nobody."""
    card, idle = one.card, found[one.kind, IDLE]
    idle.memory_mib += card.memory_mib * (card.end_us - card.start_us)
    idle.core_percent += card.core_percent * (card.end_us - card.start_us)
    if not one.uses:  # most devices of a quiet night; no fractions for them
        idle.card_us += card.end_us - card.start_us
        return
    for (_, holder), time in cost.card_time(card, one.uses).items():
        found[one.kind, IDLE if holder is None else holder].card_us += time  # type: ignore[index]
    for use, slots in zip(one.uses, one.slots, strict=True):
        time_us = max(0, min(use.end_us, card.end_us) - max(use.start_us, card.start_us))
        sums = found[one.kind, use.holder]  # type: ignore[index]
        sums.slots += slots * time_us
        for name in ("memory_mib", "core_percent"):
            held = getattr(use, name) * time_us
            setattr(sums, name, getattr(sums, name) + held)
            setattr(idle, name, getattr(idle, name) - held)


def _judge(found: dict[tuple[Kind, Holder], Sums], one: Stretch, measured: measured_use.Slots) -> None:
    """What was held and not used."""
    if not measured.knows(one):
        return
    for use, each in zip(one.uses, measured_use.judged(one, measured), strict=True):
        sums = found[one.kind, use.holder]  # type: ignore[index]
        sums.measured_us += each.measured
        sums.unused_us += each.unused
        sums.unbusy_us += each.unbusy


def _rows(hour: datetime, found: Mapping[tuple[Kind, Holder], Sums]) -> Iterable[UsageHour]:
    whole = _apportioned(found)
    for (kind, (namespace, owner)), sums in sorted(found.items(), key=lambda item: item[0]):
        if whole[kind, (namespace, owner)] or sums.slots:
            yield UsageHour(
                cluster_id=ledger.cluster_id(),
                hour=hour,
                namespace=namespace,
                owner=owner,
                vendor=kind[0],
                model=kind[1],
                card_us=whole[kind, (namespace, owner)],
                measured_us=int(sums.measured_us),
                unused_us=int(sums.unused_us),
                unbusy_us=int(sums.unbusy_us),
                slot_s=round(sums.slots / SECOND_US),
                memory_mib_s=max(0, round(sums.memory_mib / SECOND_US)),
                core_percent_s=max(0, round(sums.core_percent / SECOND_US)),
            )


def _apportioned(found: Mapping[tuple[Kind, Holder], Sums]) -> dict[tuple[Kind, Holder], int]:
    """Whole microseconds, per kind of device, since each kind's time is a whole number."""
    by_kind: dict[Kind, dict[tuple[Kind, Holder], Fraction]] = defaultdict(dict)
    for key in sorted(found):
        by_kind[key[0]][key] = found[key].card_us
    return {key: time for parts in by_kind.values() for key, time in cost.apportioned(parts).items()}
