"""Made-up hours of use for a demonstration, marked as such. It must not know whose demonstration it is."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from accounting import ledger
from accounting.models import UsageHour

HOUR_S: Final = 3600
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
    """Write the hours before the running one, days back; the number of rows. A second run adds nothing."""
    now = ledger.database_time().replace(minute=0, second=0, microsecond=0)
    cluster = ledger.cluster_id()
    rows = [row for habit in habits for row in _hours(cluster, habit, now, days, seed)]
    UsageHour.objects.bulk_create(rows, batch_size=500, ignore_conflicts=True)
    return len(rows)


def _hours(cluster: int, habit: Habit, end: datetime, days: int, seed: int) -> Iterator[UsageHour]:
    dice = random.Random(f"{seed} {habit.namespace} {habit.model}")  # noqa: S311 - nobody must be unable to guess it
    for back in range(days * 24, 0, -1):
        hour = end - timedelta(hours=back)
        cards = habit.cards * min(1.0, habit.share * _rhythm(hour) * dice.uniform(0.75, 1.25))
        yield UsageHour(
            cluster_id=cluster,
            hour=hour,
            namespace=habit.namespace,
            vendor=habit.vendor,
            model=habit.model,
            slot_s=round(cards * SHARERS * HOUR_S),
            memory_mib_s=round(cards * 0.8 * habit.memory_mib * HOUR_S),
            core_percent_s=round(cards * 70 * HOUR_S),
            simulated=True,
        )


def _rhythm(hour: datetime) -> float:
    """Busy by day, half at night, a third at weekends."""
    if hour.weekday() >= 5:
        return 0.35
    return 1.0 if 7 <= hour.hour < 19 else 0.5
