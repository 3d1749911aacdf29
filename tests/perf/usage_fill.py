"""Gives a filled database a past: 30 days of hourly sums by owner, open intervals of every pod, and measurements."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

OWNERS = 5
"""Of each namespace."""
DAYS = 30
PART = 250
"""Rows in one transaction: on a busy machine more take longer than a transaction may."""
PLANNED = 50
"""Namespaces with a budget."""


def past_fill() -> None:
    """As the worker and the agents would have left it."""
    from accounting import ledger, live_view
    from accounting.models import Measurement, Share, UsageHour, UsageInterval
    from accounting.services import budgets, flights, measurements, registrations, rollups

    view = live_view.live().refresh()
    now, cluster = ledger.database_time(), ledger.cluster_id()
    hour = now.replace(minute=0, second=0, microsecond=0)
    names = [("", ""), *((name, f"Job/j{n}") for name in view.namespaces for n in range(OWNERS))]
    UsageHour.objects.bulk_create(
        (
            UsageHour(
                cluster_id=cluster, hour=hour - timedelta(hours=back), namespace=name, owner=owner, vendor="NVIDIA",
                model="NVIDIA A100", card_us=3_600_000_000, memory_mib_s=1, core_percent_s=1,
            )
            for back in range(2, DAYS * 24)
            for name, owner in names
        ),
        batch_size=1000,
    )  # fmt: skip
    registrations.registrations_check()
    shares = Share.objects.values_list("pod__uid", "pod__namespace", "pod__node", "uuid", "memory_mib", "pod__name")
    intervals = [
        UsageInterval(
            cluster_id=cluster, pod_uid=pod, namespace=namespace, pod_name=name, node=node, vendor="NVIDIA",
            uuid=uuid, model="NVIDIA A100", slots=1, memory_mib=memory_mib, core_percent=10,
            started_at=now - timedelta(hours=2),
        )
        for pod, namespace, node, uuid, memory_mib, name in shares
    ]  # fmt: skip
    for start in range(0, len(intervals), PART):
        with ledger.transaction(cause="fill"):
            UsageInterval.objects.bulk_create(intervals[start : start + PART])
    slot = measurements.slot_of(now)
    measured = [
        Measurement(
            cluster_id=cluster, slot=slot - timedelta(minutes=10 * n), at=slot, node=node, uuid=uuid, pod_uid=pod,
            container="main", memory_used_mib=100, memory_peak_mib=100, core_used_percent=0,
        )
        for n in range(6)
        for pod, _, node, uuid, _, _ in shares
    ]  # fmt: skip
    for start in range(0, len(measured), PART):
        Measurement.objects.bulk_create(measured[start : start + PART], ignore_conflicts=True)
    with flights.single_flight(rollups.JOB, holder="fill", ttl_s=600):
        rollups.hours_rollup()
    for name in sorted(view.namespaces)[:PLANNED]:
        plan = budgets.Plan(device_hours=10_000, amount=Decimal(50_000), currency="EUR", period="quarter")
        budgets.budget_set(namespace=name, plan=plan, reason="fill")
    _readings(now)


def _readings(now: datetime) -> None:
    """Every device as its agent read it just now."""
    from accounting.models import Device, DeviceReading

    DeviceReading.objects.bulk_create(
        (
            DeviceReading(
                device_id=pk, at=now, memory_used_mib=100, core_used_percent=pk % 101, temperature_c=30 + pk % 60,
                temperature_limit_c=90, power_w=300, power_limit_w=400, slowed="heat_software" if pk % 97 == 0 else "",
            )
            for pk in Device.objects.values_list("pk", flat=True)
        ),
        batch_size=1000,
    )  # fmt: skip
