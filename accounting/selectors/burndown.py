"""One budget looked at closely: what was left from hour to hour, where it goes, and who used it.

It must not know how a line is drawn.
"""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final

from django.db.models import Sum

from accounting import ledger
from accounting.models import UsageHour
from accounting.selectors import budget_hours, budgets, usage_report
from accounting.selectors.budget_hours import Kind, Worth
from accounting.selectors.budgets import HOURS, Burn, Standing
from hami_platform.domain import cost
from hami_platform.domain.budgets import HOUR, Period

POINTS: Final = 190
"""Of a line, at most: a month in steps of four hours."""
BY: Final = ("namespace", "owner", "model")


@dataclass(frozen=True, slots=True)
class Point:
    """What is left at a time, and what would be at an even pace. left: None for times to come; low, middle, high: None
    for those that have passed, and where nothing can be foretold."""

    at: datetime
    even: float
    left: float | None = None
    low: float | None = None
    middle: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class BurnDown:
    """The line of one amount. spent_at: the hour in which it was spent; None: it is not. step_h: between points."""

    burn: Burn
    points: tuple[Point, ...]
    spent_at: datetime | None
    step_h: int


@dataclass(frozen=True, slots=True)
class Holder:
    """What one namespace, owner or model used of a budget. cents: None where the budget counts no money."""

    parts: tuple[str, ...]
    card_us: int
    cents: int | None
    share_permille: int

    @property
    def device_hours(self) -> Fraction:
        """Hours of whole devices."""
        return Fraction(self.card_us, cost.HOUR_US)


def burndowns(standing: Standing) -> list[BurnDown]:
    """Of each amount of a budget."""
    hours = _hours(standing.names, standing.period, standing.at)
    table = usage_report.price_rows() if any(burn.money for burn in standing.burns) else []
    return [
        _line(standing.period, burn, hours, budgets.worth_of(standing.row, table, burn.unit)) for burn in standing.burns
    ]


def holders(standing: Standing, by: str) -> list[Holder]:
    """Who used it, most first. Their times sum to what is used, and so do their cents."""
    table = usage_report.price_rows()
    counted = budgets.worth_of(standing.row, table, HOURS)
    currency = standing.row.currency if standing.row.amount is not None else ""
    priced = budgets.worth_of(standing.row, table, currency) if currency else None
    time: dict[tuple[str, ...], int] = defaultdict(int)
    money: dict[tuple[str, ...], Fraction] = defaultdict(Fraction)
    for start, end in budget_hours.segments(standing.period, table):
        for row in _by_holder(standing.names, start, end):
            kind, day = (row["vendor"], row["model"]), start.astimezone(UTC).date()
            if counted(kind, day):
                parts = _parts(row, by)
                time[parts] += row["us"]
                money[parts] += ((priced and priced(kind, day)) or Fraction()) * 100 * row["us"] / cost.HOUR_US
    cents = cost.apportioned(dict(sorted(money.items())))
    whole = sum(time.values())
    found = [
        Holder(parts, us, cents[parts] if priced else None, round(us * 1000 / whole) if whole else 0)
        for parts, us in time.items()
    ]
    return sorted(found, key=lambda one: (-one.card_us, one.parts))


def _parts(row: dict[str, Any], by: str) -> tuple[str, ...]:
    if by == "model":
        return row["vendor"], row["model"]
    return (row["namespace"], row["owner"]) if by == "owner" else (row["namespace"],)


def _by_holder(names: Collection[str], start: datetime, end: datetime) -> Iterable[dict[str, Any]]:
    rows: Any = UsageHour.objects.filter(
        cluster=ledger.cluster_id(), hour__gte=start, hour__lt=end, namespace__in=names
    )
    found: Iterable[dict[str, Any]] = (
        rows.order_by().values("namespace", "owner", "vendor", "model").annotate(us=Sum("card_us"))
    )
    return found


Sums = dict[datetime, tuple[tuple[Kind, int], ...]]
"""Hour → (kind of device, microseconds of whole devices)."""


def _hours(names: frozenset[str], period: Period, stamp: datetime | None) -> Sums:
    """Kept while the same sums stand: open pages ask more often."""
    if stamp is None:
        return _read(names, period)
    return _kept(ledger.cluster_id(), stamp, names, period)


@functools.lru_cache(maxsize=8)
def _kept(_cluster: int, _stamp: datetime, names: frozenset[str], period: Period) -> Sums:
    return _read(names, period)


def _read(names: frozenset[str], period: Period) -> Sums:
    rows: Any = UsageHour.objects.filter(
        cluster=ledger.cluster_id(), hour__gte=period.since, hour__lt=period.until, namespace__in=names
    )
    found: dict[datetime, list[tuple[Kind, int]]] = defaultdict(list)
    for row in rows.order_by("hour").values("hour", "vendor", "model").annotate(us=Sum("card_us")):
        found[row["hour"]].append(((row["vendor"], row["model"]), row["us"]))
    return {hour: tuple(each) for hour, each in found.items()}


def _line(period: Period, burn: Burn, hours: Sums, worth: Worth) -> BurnDown:
    used = [(hour, _worth(hour, each, worth)) for hour, each in sorted(hours.items())]
    whole = (period.until - period.since) // HOUR
    step = max(1, -(-whole // POINTS))
    at = [period.since + n * HOUR for n in range(0, whole, step)] + [period.until]
    points = tuple(_points(period, burn, at, used))
    return BurnDown(burn, points, _spent_at(burn, used), step)


def _worth(hour: datetime, each: Sequence[tuple[Kind, int]], worth: Worth) -> Fraction:
    day = hour.astimezone(UTC).date()
    return sum(((worth(kind, day) or Fraction()) * us / cost.HOUR_US for kind, us in each), Fraction())


def _points(
    period: Period, burn: Burn, times: Sequence[datetime], used: Sequence[tuple[datetime, Fraction]]
) -> Iterator[Point]:
    """At each of these times, and at the one until which all is known; that has both what is and where it goes."""
    limit, whole = float(burn.limit), period.until - period.since
    spent, rest = Fraction(), iter([*used, (period.until, Fraction())])
    hour, more = next(rest)
    for at in sorted({*times, burn.at}):
        even = limit * (1 - (at - period.since) / whole)
        left = None
        if at <= burn.at:
            while hour < at:
                spent += more
                hour, more = next(rest)
            left = limit - float(burn.used if at == burn.at else spent)  # with what the running hour has so far
        ahead = burn.pace.ahead(float(burn.used), (at - burn.at) / HOUR) if burn.pace and at >= burn.at else None
        if ahead is None:
            yield Point(at, even, left)
        else:
            yield Point(at, even, left, limit - ahead.high, limit - ahead.middle, limit - ahead.low)


def _spent_at(burn: Burn, used: Sequence[tuple[datetime, Fraction]]) -> datetime | None:
    if burn.state != "spent" or not burn.limit:
        return None
    sums = itertools.accumulate(amount for _, amount in used)
    return next((hour for (hour, _), total in zip(used, sums, strict=True) if total >= burn.limit), None)
