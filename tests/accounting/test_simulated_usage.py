"""A made-up past: marked as such, the same for the same seed, and never what is being measured now."""

from __future__ import annotations

import pytest

from accounting import ledger
from accounting.models import UsageHour
from accounting.services import simulated_usage

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]
HABIT = simulated_usage.Habit("nlp", "NVIDIA", "A100", share=0.5, cards=4, memory_mib=81920)


def rows() -> list[tuple[object, ...]]:
    return list(UsageHour.objects.values_list("hour", "slot_s", "memory_mib_s", "core_percent_s", "simulated"))


def test_every_hour_of_every_day_is_there_and_marked() -> None:
    simulated_usage.usage_simulate(days=3, habits=[HABIT], seed=1)
    found = UsageHour.objects.all()
    assert len({one.hour for one in found}) == len(found) == 72
    assert all(one.simulated for one in found)
    assert max(one.hour for one in found) < ledger.database_time().replace(minute=0, second=0, microsecond=0)


def test_a_second_run_adds_nothing() -> None:
    simulated_usage.usage_simulate(days=2, habits=[HABIT], seed=1)
    before = rows()
    simulated_usage.usage_simulate(days=2, habits=[HABIT], seed=1)
    assert rows() == before


def test_nobody_uses_more_than_there_is() -> None:
    busy = simulated_usage.Habit("nlp", "NVIDIA", "A100", share=1.0, cards=4, memory_mib=81920)
    simulated_usage.usage_simulate(days=7, habits=[busy], seed=1)
    assert max(UsageHour.objects.values_list("memory_mib_s", flat=True)) <= 4 * 81920 * 3600
