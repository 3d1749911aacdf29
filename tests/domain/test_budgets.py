"""Periods of budgets, and the pace by which their end is foretold."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_platform.domain import budgets

days = st.dates(date(2001, 1, 1), date(2099, 12, 31))
week = st.lists(st.floats(0, 1000), min_size=1, max_size=7)
hours = st.integers(0, 400)


@given(st.sampled_from((budgets.MONTH, budgets.QUARTER)), days)
def test_periods_follow_each_other_without_gap_and_hold_their_day(kind: str, day: date) -> None:
    found = budgets.period_of(kind, day)
    assert found.since.date() <= day <= found.last_day
    assert budgets.period_of(kind, found.until.date()).since == found.until
    assert budgets.period_of(kind, found.last_day) == found == budgets.period_of(kind, found.since.date())
    months = {(found.since.date() + timedelta(n)).month for n in range((found.until - found.since).days)}
    assert len(months) == (3 if kind == budgets.QUARTER else 1)


def test_a_quarter_begins_with_january_april_july_or_october() -> None:
    assert budgets.period_of("quarter", date(2026, 11, 30)) == budgets.Period(
        datetime(2026, 10, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    )


def test_days_for_once_are_included_to_the_last() -> None:
    found = budgets.period_of("once", date(2026, 1, 1), date(2026, 3, 30), date(2026, 4, 2))
    assert (found.until - found.since, found.last_day) == (timedelta(4), date(2026, 4, 2))


@given(st.floats(0, 100), st.integers(2, 7), st.floats(0, 1000), hours)
def test_even_use_goes_on_as_a_line_without_a_band(day: float, known: int, used: float, ahead: int) -> None:
    found = budgets.pace([day] * known)
    assert found is not None
    end = found.ahead(used, ahead)
    assert end.low == pytest.approx(end.middle) == pytest.approx(end.high)
    assert end.middle == pytest.approx(used + day * ahead / 24)


@given(week, st.floats(0, 1000), hours)
def test_the_band_holds_the_line_and_nothing_is_given_back(known: list[float], used: float, ahead: int) -> None:
    found = budgets.pace(known)
    assert found is not None
    end = found.ahead(used, ahead)
    assert used <= end.low <= end.middle + 1e-9
    assert end.middle <= end.high


@given(week, st.floats(0, 1000), st.floats(0, 5000), hours)
def test_the_hour_at_which_it_is_spent_is_the_first_one(
    known: list[float], used: float, limit: float, ahead: int
) -> None:
    found = budgets.pace(known)
    assert found is not None

    def first(which: str) -> int | None:
        return next((n for n in range(ahead + 1) if getattr(found.ahead(used, n), which) >= limit), None)

    spent = found.spent_after(used, limit, ahead)
    assert (spent.earliest, spent.likely, spent.latest) == (first("high"), first("middle"), first("low"))


def test_one_day_alone_has_no_band_and_none_no_pace() -> None:
    one = budgets.pace([24.0])
    assert one == budgets.Pace(1, 24.0, None)
    assert one.ahead(10.0, 24) == budgets.Ahead(34.0, 34.0, 34.0)
    assert budgets.pace([]) is None


def test_the_band_grows_with_the_time_to_come() -> None:
    found = budgets.pace([10.0, 14.0])
    assert found is not None
    widths = [found.ahead(0, n).high - found.ahead(0, n).middle for n in (24, 48, 240)]
    assert widths == sorted(widths)
    assert widths[0] == pytest.approx(8**0.5 * 1.5**0.5)


@pytest.mark.parametrize(
    "used, limit, state, percent",
    [(0, 10, "", 0), (7.99, 10, "", 79), (8, 10, "nearly", 80), (9.999, 10, "nearly", 99), (10, 10, "spent", 100),
     (25, 10, "spent", 250), (0, 0, "", 0), (1, 0, "spent", 100)],
)  # fmt: skip
def test_four_fifths_are_nearly_and_all_is_spent(used: float, limit: float, state: str, percent: int) -> None:
    assert (budgets.state(used, limit), budgets.percent(used, limit)) == (state, percent)
