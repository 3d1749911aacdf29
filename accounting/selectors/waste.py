"""What pods held and did not use, one by one, with its price: from who held what and what was measured of it, slot by
slot. By namespace, tenant, owner and model the hourly sums tell the same (`usage_report`); for pods they would be too
many, so they are worked out when somebody asks, for as much as can be.

It must not know how it is shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC
from fractions import Fraction
from typing import Any, Final

from django.db.models import Q

from accounting import ledger
from accounting.models import Measurement, UsageInterval
from accounting.selectors import measured_use, stretches, usage_report
from accounting.selectors.access import Reach
from accounting.selectors.held_time import HeldTime
from accounting.selectors.measured_use import Slots
from accounting.selectors.stretches import Stretch
from accounting.selectors.usage_report import Scope
from accounting.selectors.windows import Window
from hami_platform.domain import cost, prices
from hami_platform.domain.prices import PriceRow
from hami_platform.domain.view import View
from hami_platform.domain.waste import Judged

ROWS_MOST: Final = 60_000
"""Measurements that are looked at: 400 pods of one container for a day, in about a second."""
INTERVALS_MOST: Final = 10_000
Key = tuple[str, int]
"""Pod uid and price."""


@dataclass(slots=True)
class PodWaste(HeldTime):
    """What one pod held."""

    uid: str
    namespace: str
    name: str
    owner: str


def pods(view: View, reach: Reach, window: Window, scope: Scope) -> list[PodWaste] | None:
    """Of pods that held something in the window, the most waste first. None: there is too much to look at; a namespace
    or fewer days would do."""
    names = None if reach.everything and scope.everybody else usage_report.namespaces_of(view, reach, scope)
    uuids = None if names is None else _devices(names, window)
    if _too_many(window, uuids):
        return None
    table = usage_report.price_rows()
    book = _Book()
    for start, end in usage_report.segments(window, table):
        measured = measured_use.slots(start, end, uuids)
        for one in stretches.stretches(start, end, uuids=uuids):
            if not scope.model or one.kind[1] == scope.model:
                book.add(one, measured, prices.price_of(table, *one.kind, start.astimezone(UTC).date()))
    # Only now, so that nobody's cents depend on who asks.
    return [one for one in book.closed(table) if names is None or one.namespace in names]


class _Book:
    """Adds up uses by pod, exactly; rounds once, at the end."""

    def __init__(self) -> None:
        self.pods: dict[str, PodWaste] = {}
        self.sums: dict[str, Judged] = defaultdict(Judged)
        self.time: dict[str, dict[Key, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
        self.waste: dict[str, dict[Key, Fraction]] = defaultdict(lambda: defaultdict(Fraction))

    def add(self, stretch: Stretch, measured: Slots, price: PriceRow | None) -> None:
        for number, each in enumerate(measured_use.judged(stretch, measured)):
            if not each.held:
                continue
            uid, holder = stretch.pods[number], stretch.uses[number].holder
            namespace, owner = stretches.namespace_and_owner(holder)
            self.pods.setdefault(uid, PodWaste(uid, namespace, stretch.names[number], owner))
            sums = self.sums[uid]
            for name in ("held", "measured", "unused", "unbusy"):
                setattr(sums, name, getattr(sums, name) + getattr(each, name))
            if price is not None:
                self.time[price.currency][uid, price.id] += each.held
                self.waste[price.currency][uid, price.id] += each.unused

    def closed(self, table: Iterable[PriceRow]) -> list[PodWaste]:
        hours = {one.id: one.hour_cents for one in table}
        for uid, sums in self.sums.items():
            one = self.pods[uid]
            one.card_us, one.measured_us = round(sums.held), int(sums.measured)
            one.unused_us, one.unbusy_us = int(sums.unused), int(sums.unbusy)
        for name, money in (("cents", self.time), ("unused_cents", self.waste)):
            for currency, times in money.items():
                for uid, cents in cost.charges_cents(dict(sorted(times.items())), hours).items():
                    getattr(self.pods[uid], name)[currency] = cents
        return sorted(self.pods.values(), key=lambda one: (-one.unused_us, one.namespace, one.name))


def _devices(names: Collection[str], window: Window) -> frozenset[str]:
    """The devices of which these namespaces held something; others hold the same ones, and count there too."""
    rows = _intervals(window).filter(namespace__in=names).order_by()
    return frozenset(rows.values_list("uuid", flat=True).distinct())


def _too_many(window: Window, uuids: frozenset[str] | None) -> bool:
    measured: Any = Measurement.objects.filter(
        cluster=ledger.cluster_id(), slot__gte=measured_use.slot_start(window.since), slot__lt=window.until
    )
    held = _intervals(window)
    if uuids is not None:
        measured, held = measured.filter(uuid__in=uuids), held.filter(uuid__in=uuids)
    most = ((measured, ROWS_MOST), (held, INTERVALS_MOST))
    return any(rows.order_by()[: limit + 1].count() > limit for rows, limit in most)


def _intervals(window: Window) -> Any:
    return UsageInterval.objects.filter(
        Q(ended_at=None) | Q(ended_at__gt=window.since),
        cluster=ledger.cluster_id(), simulated=False, started_at__lt=window.until,
    )  # fmt: skip
