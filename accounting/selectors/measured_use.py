"""What agents measured over some time, as the domain's values: of each share and of each whole device, slot by slot.

A pod's containers on a device are added up. Where a pod was alone on a device, what was measured of the device is the
pod's. It must not know what follows from it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from accounting import ledger
from accounting.models import Measurement
from accounting.selectors.stretches import Stretch, us_of
from hami_platform.domain import waste
from hami_platform.domain.waste import SLOT_US, Reading, Readings

Place = tuple[str, str]
"""Node and device uuid."""


@dataclass(frozen=True, slots=True)
class Slots:
    """By device: (pod uid, empty for the whole device; first microsecond of the slot) → what was measured."""

    readings: dict[Place, dict[tuple[str, int], Reading]]

    def of(self, stretch: Stretch) -> Readings:
        """What was measured of the stretch's uses, by their number."""
        here = self.readings.get((stretch.key[0], stretch.key[2]), {})

        def reading(number: int, slot_us: int) -> Reading | None:
            found = here.get((stretch.pods[number], slot_us))
            return found if found is not None or not alone(number, slot_us) else here.get(("", slot_us))

        def alone(number: int, slot_us: int) -> bool:
            return all(
                n == number or use.end_us <= slot_us or use.start_us >= slot_us + SLOT_US
                for n, use in enumerate(stretch.uses)
            )

        return reading

    def knows(self, stretch: Stretch) -> bool:
        """Whether anything was measured of its device."""
        return (stretch.key[0], stretch.key[2]) in self.readings


def slots(start: datetime, end: datetime, uuids: Collection[str] | None = None) -> Slots:
    """What was measured between the two times, of these devices if named; the first and last slot are whole."""
    rows = Measurement.objects.filter(cluster=ledger.cluster_id(), slot__gte=slot_start(start), slot__lt=end)
    rows = rows if uuids is None else rows.filter(uuid__in=uuids)
    columns = ("node", "uuid", "pod_uid", "slot", "memory_peak_mib", "core_used_percent")
    return Slots(_readings(rows.order_by().values_list(*columns).iterator()))


def slot_start(at: datetime) -> datetime:
    """Start of the slot that a time lies in."""
    return datetime.fromtimestamp(at.timestamp() // (SLOT_US // 10**6) * (SLOT_US // 10**6), at.tzinfo)


def judged(stretch: Stretch, measured: Slots) -> list[waste.Judged]:
    """What the stretch's uses held and did not use."""
    return waste.judged(stretch.card, stretch.uses, measured.of(stretch))


def _readings(rows: Iterable[Any]) -> dict[Place, dict[tuple[str, int], Reading]]:
    found: dict[Place, dict[tuple[str, int], Reading]] = defaultdict(dict)
    for node, uuid, pod, slot, memory_mib, core_percent in rows:
        here, key = found[node, uuid], (pod, us_of(slot))
        before = here.get(key)
        if before is None:
            here[key] = Reading(memory_mib, core_percent)
        else:
            here[key] = Reading(_sum(before.memory_mib, memory_mib), _sum(before.core_percent, core_percent))
    return found


def _sum(one: int | None, other: int | None) -> int | None:
    """Of two containers: unknown if one is."""
    return None if one is None or other is None else one + other
