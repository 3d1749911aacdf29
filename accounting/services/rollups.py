"""Hourly sums of use, recomputed from the intervals: running it again gives the same rows."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta

from django.db.models import Q

from accounting import ledger
from accounting.models import UsageHour, UsageInterval

RECENT_HOURS = 2


def hours_rollup() -> int:
    """Recompute the running hour and the one before; the number of rows written."""
    now = ledger.database_time()
    hour = now.replace(minute=0, second=0, microsecond=0)
    return sum(_hour(hour - timedelta(hours=back), now) for back in range(RECENT_HOURS))


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
