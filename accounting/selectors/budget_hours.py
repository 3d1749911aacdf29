"""Sums of use over the stretches of time that budgets ask about, by namespace and kind of device: one query for all of
them, since nobody should pay for a query per budget.

Stretches are cut where a period or a price begins and at each of the last days, so that within one every hour counts
alike. Knows no budget.
"""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from fractions import Fraction
from typing import Any, Final

from django.db.models import Case, IntegerField, Max, Min, Sum, Value, When

from accounting import ledger
from accounting.models import UsageHour
from hami_platform.domain import budgets, cost, prices, quota
from hami_platform.domain.budgets import DAY, Period
from hami_platform.domain.prices import PriceRow

FINISHED_S: Final = 3600
"""Periods that are over change only when an end is told late: looked at once an hour."""
Kind = tuple[str, str]
"""Vendor and model."""
Worth = Callable[[Kind, date], Fraction | None]
"""What an hour of a whole device counts on a day. 0: the kind is not meant; None: it is, and there is no price."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Use of one kind of device by one namespace from `start` on, until the next cut."""

    start: datetime
    kind: Kind
    card_us: int
    simulated: bool


Pieces = dict[str, tuple[Piece, ...]]
"""By namespace."""


@dataclass(frozen=True, slots=True)
class Hours:
    """end: the last whole hour that is summed up ends then. first: the first hour on record; None: there is none.
    stamp: when hours were last summed up; None: never."""

    running: Pieces
    finished: Pieces
    end: datetime
    first: datetime | None
    stamp: datetime | None

    def used(self, names: Collection[str], period: Period, worth: Worth) -> tuple[Fraction, set[str]]:
        """(what use in the period comes to, models that have no price)."""
        total, unpriced = Fraction(), set[str]()
        for one in self._within(names, period):
            each = worth(one.kind, one.start.date())
            if each is None and one.card_us:
                unpriced.add(one.kind[1] or one.kind[0])
            total += (each or Fraction()) * one.card_us / cost.HOUR_US
        return total, unpriced

    def days(self, names: Collection[str], worth: Worth) -> list[float]:
        """What use came to on each of the last whole days that are on record, oldest first."""
        starts = [self.end - n * DAY for n in range(budgets.DAYS, 0, -1)]
        known = [start for start in starts if self.first is not None and start >= self.first]
        found = dict.fromkeys(known, Fraction())
        for one in _of(self.running, names):
            if known and known[0] <= one.start < self.end:
                day = self.end + (one.start - self.end) // DAY * DAY
                found[day] += (worth(one.kind, one.start.date()) or Fraction()) * one.card_us / cost.HOUR_US
        return [float(found[start]) for start in known]

    def simulated(self, names: Collection[str], period: Period, worth: Worth) -> bool:
        """Whether some of the use in the period is made up for a demonstration."""
        return any(
            one.simulated for one in self._within(names, period) if worth(one.kind, one.start.date()) != Fraction()
        )

    def _within(self, names: Collection[str], period: Period) -> Iterable[Piece]:
        pieces = self.finished if period.until <= self.end else self.running
        return (one for one in _of(pieces, names) if period.since <= one.start < period.until)


def hours(
    periods: Sequence[Period], table: Iterable[PriceRow], at: datetime, stamp: datetime | None, *, fresh_s: int = 0
) -> Hours:
    """What these periods ask for, up to a time. stamp: when hours were last summed up. fresh_s: older sums will
    do."""
    end = at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    over = [one for one in periods if one.until <= end]
    cuts = _price_starts(table)
    recent = {end - n * DAY for n in range(budgets.DAYS + 1)}
    running = _edges({one.since for one in periods if one.until > end} | recent, cuts)
    finished = _edges({at for one in over for at in (one.since, one.until)}, cuts)
    return Hours(
        running=_known(stamp, fresh_s, running, None),
        finished=_known(stamp, max(FINISHED_S, fresh_s), finished, finished[-1]) if finished else {},
        end=end,
        first=UsageHour.objects.filter(cluster=ledger.cluster_id()).aggregate(at=Min("hour"))["at"],
        stamp=stamp,
    )


def worth(selector: quota.Selector, table: Sequence[PriceRow], currency: str) -> Worth:
    """In whole devices, or in a currency by the prices of each day."""

    @functools.cache
    def of(kind: Kind, day: date) -> Fraction | None:
        if not quota.covers(selector, *kind):
            return Fraction()
        if not currency:
            return Fraction(1)
        price = prices.price_of(table, *kind, day)
        return price.hour_cents / 100 if price is not None and price.currency == currency else None

    return of


def segments(period: Period, table: Iterable[PriceRow]) -> list[tuple[datetime, datetime]]:
    """The period, cut where some price begins."""
    edges = _edges({period.since, period.until}, _price_starts(table))
    return list(itertools.pairwise(at for at in edges if at <= period.until))


def _price_starts(table: Iterable[PriceRow]) -> set[datetime]:
    return {datetime.combine(one.valid_from, time(), UTC) for one in table}


def _of(pieces: Pieces, names: Iterable[str]) -> Iterable[Piece]:
    return itertools.chain.from_iterable(pieces.get(name, ()) for name in names)


def _edges(wanted: set[datetime], cuts: set[datetime]) -> tuple[datetime, ...]:
    """In their order, with the cuts that lie between them."""
    first = min(wanted, default=None)
    return tuple(sorted(wanted | {at for at in cuts if first is not None and at > first}))


def _known(stamp: datetime | None, fresh_s: int, edges: tuple[datetime, ...], until: datetime | None) -> Pieces:
    """Sums change once a minute, and open pages and scrapes ask more often."""
    if stamp is None:
        return _sums(edges, until)
    age = int(stamp.timestamp()) // fresh_s if fresh_s else stamp
    return _kept(ledger.cluster_id(), age, edges, until)


@functools.lru_cache(maxsize=4)
def _kept(_cluster: int, _age: object, edges: tuple[datetime, ...], until: datetime | None) -> Pieces:
    return _sums(edges, until)


def _sums(edges: tuple[datetime, ...], until: datetime | None) -> Pieces:
    rows = UsageHour.objects.filter(cluster=ledger.cluster_id(), hour__gte=edges[0]).exclude(namespace="")
    rows = rows if until is None else rows.filter(hour__lt=until)
    cuts = [When(hour__lt=after, then=Value(n)) for n, after in enumerate(edges[1:])]
    stretch = Case(*cuts, default=Value(len(edges) - 1), output_field=IntegerField())
    made_up = Max(Case(When(simulated=True, then=Value(1)), default=Value(0)))
    grouped = rows.order_by().annotate(stretch=stretch).values("stretch", "namespace", "vendor", "model")
    found: dict[str, list[Piece]] = defaultdict(list)
    row: Any
    for row in grouped.annotate(us=Sum("card_us"), made_up=made_up):
        kind = row["vendor"], row["model"]
        found[row["namespace"]].append(Piece(edges[row["stretch"]], kind, row["us"], bool(row["made_up"])))
    return {name: tuple(pieces) for name, pieces in found.items()}
