"""Hourly sums of use, recomputed from the intervals: running it again gives the same rows."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta

from django.db.models import Min, Q

from accounting import ledger
from accounting.models import ProcessLease, UsageHour, UsageInterval

JOB = "rollup"
"""Name under which the last run that ended well is recorded."""

MOST_HOURS = 31 * 24
"""An outage longer than this leaves a gap; a repair by hand would recompute it."""


def hours_rollup() -> int:
    """Recompute the running hour, the one before, and all since the last run that ended well; the number of rows
    written."""
    now = ledger.database_time()
    hour = _whole(now)
    back = 1 + max(1, int((hour - _whole(_since(now))) / timedelta(hours=1)))
    return sum(_hour(hour - timedelta(hours=ago), now) for ago in range(min(back, MOST_HOURS)))


def _whole(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def _since(now: datetime) -> datetime:
    """When the sums were last true: the last good run, or else the first use that was ever recorded."""
    cluster = ledger.cluster_id()
    last = ProcessLease.objects.filter(cluster=cluster, name=JOB).values_list("succeeded_at", flat=True).first()
    first = UsageInterval.objects.filter(cluster=cluster).aggregate(at=Min("started_at"))["at"]
    return last or first or now


def _hour(hour: datetime, now: datetime) -> int:
    end = min(hour + timedelta(hours=1), now)
    cluster = ledger.cluster_id()
    sums: dict[tuple[str, str, str], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    running = UsageInterval.objects.filter(
        Q(ended_at=None) | Q(ended_at__gt=hour), cluster=cluster, started_at__lt=end, simulated=False
    )
    for one in running.iterator():
        seconds = (min(one.ended_at or end, end) - max(one.started_at, hour)).total_seconds()
        total = sums[one.namespace, one.vendor, one.model]
        for place, amount in enumerate((one.slots, one.memory_mib, one.core_percent)):
            total[place] += max(0.0, seconds) * amount
    for (namespace, vendor, model), (slots, memory, cores) in sums.items():
        UsageHour.objects.update_or_create(
            cluster_id=cluster,
            hour=hour,
            namespace=namespace,
            vendor=vendor,
            model=model,
            simulated=False,
            defaults={"slot_s": round(slots), "memory_mib_s": round(memory), "core_percent_s": round(cores)},
        )
    return len(sums)
