"""Made-up hours of use for a demonstration, marked as such. It must not know whose demonstration it is."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from accounting import ledger
from accounting.models import UsageHour
from hami_platform.domain import cost

HOUR_S: Final = 3600
MEASURED: Final = 0.97
"""Of the time; agents start, and miss a report now and then."""
SHARERS: Final = 2
"""Pods on a card in use, on average."""


@dataclass(frozen=True, slots=True)
class Habit:
    """How a namespace uses a model: on an ordinary working hour `share` of `cards` cards of `memory_mib` each."""

    namespace: str
    vendor: str
    model: str
    share: float
    cards: int
    memory_mib: int


def usage_simulate(*, days: int, habits: Sequence[Habit], seed: int) -> int:
    """Write the hours before the running one, days back; the number of rows. A second run adds nothing.

    The cards of a model are those of its most demanding habit; what no habit takes of them is idle.
    """
    now = ledger.database_time().replace(minute=0, second=0, microsecond=0)
    rows = [row for same in _by_model(habits) for row in _hours(same, now, days, seed)]
    UsageHour.objects.bulk_create(rows, batch_size=500, ignore_conflicts=True)
    return len(rows)


def _by_model(habits: Sequence[Habit]) -> Iterable[list[Habit]]:
    found: dict[tuple[str, str], list[Habit]] = {}
    for habit in habits:
        found.setdefault((habit.vendor, habit.model), []).append(habit)
    return found.values()


def _hours(habits: list[Habit], end: datetime, days: int, seed: int) -> Iterator[UsageHour]:
    """All habits of one model, hour by hour, and what they leave."""
    dice = {
        one: random.Random(f"{seed} {one.namespace} {one.model}")  # noqa: S311 - nobody must be unable to guess it
        for one in habits
    }
    there = max(one.cards for one in habits)
    thrift = {one: dice[one].uniform(0.05, 0.5) for one in habits}
    for back in range(days * 24, 0, -1):
        hour = end - timedelta(hours=back)
        cards = {one: one.cards * min(1.0, one.share * _rhythm(hour) * dice[one].uniform(0.75, 1.25)) for one in habits}
        scale = min(1.0, there / (sum(cards.values()) or 1))
        rows = [_row(one, hour, held * scale, thrift[one] * dice[one].uniform(0.7, 1.3)) for one, held in cards.items()]
        yield from rows
        yield _idle(habits[0], hour, there, rows)


def _row(habit: Habit, hour: datetime, cards: float, unused: float) -> UsageHour:
    """unused: the part of what is held and measured that is not used."""
    measured_us = int(cards * cost.HOUR_US * MEASURED)
    return UsageHour(
        cluster_id=ledger.cluster_id(),
        hour=hour,
        namespace=habit.namespace,
        owner=f"Deployment/{habit.namespace}",
        vendor=habit.vendor,
        model=habit.model,
        card_us=round(cards * cost.HOUR_US),
        measured_us=measured_us,
        unused_us=int(measured_us * unused),
        unbusy_us=int(measured_us * min(1.0, unused * 1.4)),
        slot_s=round(cards * SHARERS * HOUR_S),
        memory_mib_s=round(cards * 0.8 * habit.memory_mib * HOUR_S),
        core_percent_s=round(cards * 70 * HOUR_S),
        simulated=True,
    )


def _idle(habit: Habit, hour: datetime, cards: int, rows: list[UsageHour]) -> UsageHour:
    """What is left of all cards."""
    return UsageHour(
        cluster_id=ledger.cluster_id(),
        hour=hour,
        namespace="",
        vendor=habit.vendor,
        model=habit.model,
        card_us=max(0, cards * cost.HOUR_US - sum(row.card_us for row in rows)),
        memory_mib_s=max(0, cards * habit.memory_mib * HOUR_S - sum(row.memory_mib_s for row in rows)),
        core_percent_s=max(0, cards * 100 * HOUR_S - sum(row.core_percent_s for row in rows)),
        simulated=True,
    )


def _rhythm(hour: datetime) -> float:
    """Busy by day, half at night, a third at weekends."""
    if hour.weekday() >= 5:
        return 0.35
    return 1.0 if 7 <= hour.hour < 19 else 0.5
