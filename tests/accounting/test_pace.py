"""How many things a ledger transaction takes on: as many as fit into the time that others can wait."""

from __future__ import annotations

from accounting.services import pace


def test_before_anything_was_measured_it_takes_a_few() -> None:
    assert pace.Pace().size(serving=True) == pace.Pace().size(serving=False) == pace.FIRST


def test_as_many_as_fit_into_what_others_can_wait() -> None:
    one = pace.Pace()
    one.took(100, 0.1)
    assert one.size(serving=True) == 10
    assert one.size(serving=False) == 200


def test_slow_things_are_taken_a_few_at_a_time_all_the_same() -> None:
    one = pace.Pace()
    one.took(10, 60.0)
    assert (one.size(serving=True), one.size(serving=False)) == (pace.LEAST, pace.IDLE_LEAST)


def test_what_a_small_one_took_says_little_of_a_large_one() -> None:
    one = pace.Pace()
    one.took(10, 0.0)
    assert one.size(serving=True) == 10 * pace.GROWTH
    one.took(1000, 0.0)
    assert one.size(serving=False) == pace.MOST
