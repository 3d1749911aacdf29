"""The periods of budgets, and where use goes from here: the pace of the last days with its spread.

A forecast is an estimate and says so by its band, so it is in floating-point numbers; what was used is exact, and not
worked out here. Knows neither clocks nor rows.
"""

from __future__ import annotations

import bisect
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction
from typing import Final

MONTH, QUARTER, ONCE = "month", "quarter", "once"
DAYS: Final = 7
"""Of which the pace is the mean: a whole week, so that weekends count as often as they come."""
HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
NEARLY_PERCENT: Final = 80


@dataclass(frozen=True, slots=True)
class Period:
    """From the start of a day of UTC until before the start of another."""

    since: datetime
    until: datetime

    @property
    def last_day(self) -> date:
        """The last day in it."""
        return (self.until - DAY).date()


def period_of(kind: str, day: date, first: date | None = None, last: date | None = None) -> Period:
    """The month or quarter that a day lies in, or the days from first to last, both included."""
    if kind == ONCE and first is not None and last is not None:
        return Period(_start(first), _start(last) + DAY)
    months = 3 if kind == QUARTER else 1
    begin = day.replace(month=(day.month - 1) // months * months + 1, day=1)
    after = begin.month - 1 + months
    return Period(_start(begin), _start(begin.replace(year=begin.year + after // 12, month=after % 12 + 1)))


@dataclass(frozen=True, slots=True)
class Pace:
    """Use of a day: the mean of the last `days` whole days, and how far single ones lie from it (the standard deviation
    of a sample; None: one day alone tells nothing of that)."""

    days: int
    mean: float
    deviation: float | None

    def ahead(self, used: float, hours: float) -> Ahead:
        """What use comes to after so many hours.

        The band is one standard deviation wide on either side, for days that differ by chance as the known ones did:
        √n for n days to come, and n/√d since the mean itself is known from d days only.
        """
        days = hours / 24
        middle = used + self.mean * days
        if self.deviation is None:
            return Ahead(middle, middle, middle)
        spread = self.deviation * math.sqrt(days + days * days / self.days)
        return Ahead(max(used, middle - spread), middle, middle + spread)

    def spent_after(self, used: float, limit: float, hours: int) -> Spent:
        """After how many whole hours the limit is reached, of those to come; None: not within them."""

        def first(which: str) -> int | None:
            # The high and the middle line rise. The low one is convex, so once it is over the limit it stays.
            found = bisect.bisect_left(
                range(hours + 1), True, key=lambda hour: getattr(self.ahead(used, hour), which) >= limit
            )
            return found if found <= hours else None

        return Spent(first("high"), first("middle"), first("low"))


@dataclass(frozen=True, slots=True)
class Ahead:
    """Use at some time to come: at the mean, and the band around it."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True, slots=True)
class Spent:
    """Hours until a budget is spent. None: not in this period."""

    earliest: int | None
    likely: int | None
    latest: int | None


def pace(days: Sequence[float]) -> Pace | None:
    """Of the use of each of the last whole days; None where none is known."""
    known = days[-DAYS:]
    if not known:
        return None
    return Pace(len(known), statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None)


def percent(used: Fraction | float, limit: Fraction | float) -> int:
    """Used per hundred of the limit, rounded down, so that 100 means all of it; 100 where nothing is planned and
    something was used."""
    return int(used * 100 / limit) if limit else (100 if used else 0)


def state(used: Fraction | float, limit: Fraction | float) -> str:
    """`spent`, `nearly` (from 80 % on), or empty."""
    if used and used >= limit:
        return "spent"
    return "nearly" if used and used * 100 >= limit * NEARLY_PERCENT else ""


def _start(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
