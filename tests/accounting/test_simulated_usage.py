"""A made-up past: marked as such, the same for the same seed, and never what is being measured now."""

from __future__ import annotations

import pytest
from django.db.models import Sum

from accounting import ledger
from accounting.models import UsageHour
from accounting.services import simulated_usage
from hami_platform.domain import cost

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]
HABIT = simulated_usage.Habit("nlp", "NVIDIA", "A100", share=0.5, cards=4, memory_mib=81920)


def rows() -> list[tuple[object, ...]]:
    return list(UsageHour.objects.values_list("hour", "slot_s", "memory_mib_s", "core_percent_s", "simulated"))


def test_every_hour_of_every_day_is_there_and_marked() -> None:
    simulated_usage.usage_simulate(days=3, habits=[HABIT], seed=1)
    found = UsageHour.objects.exclude(namespace="")
    assert len({one.hour for one in found}) == len(found) == 72
    assert all(one.simulated for one in found)
    assert max(one.hour for one in found) < ledger.database_time().replace(minute=0, second=0, microsecond=0)


def test_made_up_hours_waste_some_of_what_is_held() -> None:
    simulated_usage.usage_simulate(days=2, habits=[HABIT], seed=1)
    for one in UsageHour.objects.exclude(namespace=""):
        assert 0 < one.unused_us < one.unbusy_us <= one.measured_us < one.card_us


def test_a_second_run_adds_nothing() -> None:
    simulated_usage.usage_simulate(days=2, habits=[HABIT], seed=1)
    before = rows()
    simulated_usage.usage_simulate(days=2, habits=[HABIT], seed=1)
    assert rows() == before


def test_nobody_uses_more_than_there_is() -> None:
    busy = simulated_usage.Habit("nlp", "NVIDIA", "A100", share=1.0, cards=4, memory_mib=81920)
    simulated_usage.usage_simulate(days=7, habits=[busy], seed=1)
    assert max(UsageHour.objects.values_list("memory_mib_s", flat=True)) <= 4 * 81920 * 3600


def test_habits_of_a_model_and_idle_time_come_to_its_cards() -> None:
    two = [simulated_usage.Habit(name, "NVIDIA", "A100", share=0.9, cards=4, memory_mib=81920) for name in ("a", "b")]
    simulated_usage.usage_simulate(days=3, habits=two, seed=1)
    sums = dict(UsageHour.objects.values_list("hour").annotate(us=Sum("card_us")))
    assert all(abs(us - 4 * cost.HOUR_US) <= 1 for us in sums.values())
    assert len(sums) == 72
