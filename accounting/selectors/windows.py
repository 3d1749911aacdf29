"""Stretches of time that people ask about, in whole days of UTC: `7d`, `last-month`, or from one day to another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from hami_platform.domain.sentences import Sentence, phrase

DAY: Final = timedelta(days=1)
NAMES: Final = ("today", "yesterday", "7d", "30d", "month", "last-month")
DEFAULT: Final = "7d"
MOST_DAYS: Final = 3660


class BadWindow(ValueError):
    """What somebody asked for is no stretch of time. field: the parameter to mend."""

    def __init__(self, field: str, sentence: Sentence) -> None:
        super().__init__(f"{field}: {sentence}")
        self.field, self.sentence = field, sentence


@dataclass(frozen=True, slots=True)
class Window:
    """From since until before `until`. name: one of NAMES, or empty for days that somebody chose."""

    since: datetime
    until: datetime
    name: str = ""

    @property
    def last_day(self) -> date:
        """The last day that is wholly or partly in it."""
        return (self.until - timedelta(microseconds=1)).date()

    @property
    def hours(self) -> int:
        """Hours, counted whole where one has begun."""
        return -((self.since - self.until) // timedelta(hours=1))


def window_of(asked: Mapping[str, str], now: datetime) -> Window:
    """What `window`, or `from` and `to` (days, the last one included), ask for. Raises BadWindow."""
    first, last = asked.get("from", "").strip(), asked.get("to", "").strip()
    if first or last:
        return _chosen(first, last, now)
    name = asked.get("window", "").strip() or DEFAULT
    if name not in NAMES:
        raise BadWindow("window", phrase("one of %(names)s, or give from and to", names=", ".join(NAMES)))
    return Window(*_named(name, _start(now.astimezone(UTC).date()), now), name)


def _named(name: str, today: datetime, now: datetime) -> tuple[datetime, datetime]:
    month = today.replace(day=1)
    return {
        "today": (today, now),
        "yesterday": (today - DAY, today),
        "7d": (today - 6 * DAY, now),
        "30d": (today - 29 * DAY, now),
        "month": (month, now),
        "last-month": ((month - DAY).replace(day=1), month),
    }[name]


def _chosen(first: str, last: str, now: datetime) -> Window:
    end = _day("to", last) if last else now.astimezone(UTC).date()
    begin = _day("from", first) if first else end
    if begin > end:
        raise BadWindow("from", phrase("is after to"))
    if (end - begin).days > MOST_DAYS:
        raise BadWindow("from", phrase("more than %(n)s days before to", n=MOST_DAYS))
    return Window(_start(begin), min(_start(end) + DAY, max(now, _start(begin))))


def _day(field: str, text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise BadWindow(field, phrase("a day as 2026-01-31")) from error
    if not 2000 <= day.year <= 9000:
        raise BadWindow(field, phrase("a year from 2000 to 9000"))
    return day


def _start(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
