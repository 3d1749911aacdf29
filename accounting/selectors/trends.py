"""How use went, hour by hour: of the cluster, of namespaces and tenants from the hourly sums; of a node or a device
from the intervals themselves, beside what was measured. None where nothing is known.

It must not know how a line is drawn.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Final

from django.db.models import Avg, Q, Sum
from django.db.models.functions import TruncHour
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounting import ledger
from accounting.models import Measurement, UsageHour
from accounting.selectors import stretches, usage_report
from hami_platform.domain import cost

HOUR: Final = timedelta(hours=1)
DAY_H: Final = 24
WEEK_H: Final = 7 * DAY_H

Values = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """One line. kind: held, there or measured. name: in the reader's language."""

    kind: str
    name: str | Promise
    values: Values


@dataclass(frozen=True, slots=True)
class Trend:
    """Lines over the same hours. unit: what the values count. top: the greatest value there can be; None: unknown."""

    hours: tuple[datetime, ...]
    unit: str | Promise
    series: tuple[Series, ...]
    top: float | None = None

    @property
    def known(self) -> bool:
        """Whether there is anything to draw."""
        return any(value is not None for one in self.series for value in one.values)


def hours_before(now: datetime, count: int) -> tuple[datetime, ...]:
    """The starts of the last `count` hours, the running one included."""
    last = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return tuple(last - HOUR * n for n in range(count - 1, -1, -1))


def cluster_trend(hours: Sequence[datetime]) -> Trend:
    """Whole devices that were held, of those that were there, on average over each hour."""
    rows, until = _known(hours, None)
    held = {hour: us for hour, (us, _all) in rows.items()}
    there = {hour: us for hour, (_held, us) in rows.items()}
    series = (
        Series("there", _("registered"), _devices(hours, there, until)),
        Series("held", _("held"), _devices(hours, held, until)),
    )
    return Trend(tuple(hours), _("devices"), series)


def scope_trend(hours: Sequence[datetime], namespaces: Collection[str]) -> Trend:
    """Whole devices that these namespaces held, on average over each hour."""
    rows, until = _known(hours, frozenset(namespaces))
    held = {hour: us for hour, (us, _all) in rows.items()}
    return Trend(tuple(hours), _("devices"), (Series("held", _("held"), _devices(hours, held, until)),))


def device_trend(hours: Sequence[datetime], now: datetime, *, node: str, uuid: str = "") -> Trend:
    """Per hundred of a device, or of all of a node's devices: held, and measured busy, hour by hour."""
    there: dict[int, int] = defaultdict(int)
    held: dict[int, Fraction] = defaultdict(Fraction)
    for one in stretches.stretches(hours[0], now, node=node, uuid=uuid):
        for (hour, holder), time in cost.card_time(one.card, one.uses).items():
            there[hour] += 0
            held[hour] += time if holder is not None else 0
        for hour in range(one.card.start_us - one.card.start_us % cost.HOUR_US, one.card.end_us, cost.HOUR_US):
            there[hour] += min(one.card.end_us, hour + cost.HOUR_US) - max(one.card.start_us, hour)
    parts = [(stretches.us_of(hour), hour) for hour in hours]
    share = tuple(float(held[us] * 100 / there[us]) if there.get(us) else None for us, _hour in parts)
    busy = _busy(hours, node=node, uuid=uuid)
    series = [Series("held", _("held"), share)]
    if any(value is not None for value in busy):
        series.append(Series("measured", _("cores measured busy"), busy))
    return Trend(tuple(hours), "%", tuple(series), top=100.0)


def _known(
    hours: Sequence[datetime], namespaces: frozenset[str] | None
) -> tuple[dict[datetime, tuple[int, int]], datetime | None]:
    """(sums by hour, until when they were made). They change once a minute, and open pages ask more often."""
    stamp = usage_report.summed_at()
    if stamp is None:
        return _sums(hours, namespaces), None
    return _kept(ledger.cluster_id(), stamp, tuple(hours), namespaces), stamp


@functools.lru_cache(maxsize=32)
def _kept(
    _cluster: int, _stamp: datetime, hours: tuple[datetime, ...], namespaces: frozenset[str] | None
) -> dict[datetime, tuple[int, int]]:
    return _sums(hours, namespaces)


def _sums(hours: Sequence[datetime], namespaces: Collection[str] | None) -> dict[datetime, tuple[int, int]]:
    """Hour → (held, all) in microseconds of whole devices."""
    rows = UsageHour.objects.filter(cluster=ledger.cluster_id(), hour__gte=hours[0], hour__lte=hours[-1])
    if namespaces is not None:
        rows = rows.filter(namespace__in=namespaces)
    sums = rows.order_by().values("hour").annotate(held=Sum("card_us", filter=~Q(namespace="")), all=Sum("card_us"))
    return {row["hour"]: (row["held"] or 0, row["all"] or 0) for row in sums}


def _devices(hours: Sequence[datetime], sums: dict[datetime, int], until: datetime | None) -> Values:
    """Averages. Unknown are hours before the first that was summed up, and the one that was running then: part of an
    hour is no average of it. Others without a row are 0."""
    first = min(sums, default=None)

    def known(hour: datetime) -> bool:
        return first is not None and hour >= first and (until is None or hour + HOUR <= until)

    return tuple(sums.get(hour, 0) / cost.HOUR_US if known(hour) else None for hour in hours)


def _busy(hours: Sequence[datetime], *, node: str, uuid: str) -> Values:
    """Mean of the devices' measured cores, per hundred."""
    rows = Measurement.objects.filter(cluster=ledger.cluster_id(), pod_uid="", slot__gte=hours[0], node=node)
    rows = rows.filter(uuid=uuid) if uuid else rows
    means = rows.order_by().values(hour=TruncHour("slot", tzinfo=UTC)).annotate(busy=Avg("core_used_percent"))
    found = {row["hour"]: row["busy"] for row in means}
    return tuple(found.get(hour) for hour in hours)
