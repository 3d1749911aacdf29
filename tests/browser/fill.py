"""Fills the throw-away ledger of a browser test: run as a process of its own, with the product's settings.

Commands: `all` fills it; `late` adds a pod, as the watcher would while somebody looks.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any

import django

PASSWORD = "correct horse battery"
WHY: dict[str, Any] = {"reason": "set up for a look", "actor": "root"}


def everything() -> None:
    """Two nodes, a MIG card, pods in every state, limits, a hold, a refusal, a finding."""
    from accounting import ledger, models
    from accounting.services import devices, findings, holds, namespaces, people, quotas, tenants
    from hami_platform.domain.devices import MigPlacement, MigUse
    from hami_platform.domain.quota import Limits
    from tests.accounting import rows
    from tests.accounting.rows import Given

    models.User.objects.create_superuser("root", password=PASSWORD)
    models.User.objects.create_user("ann", password=PASSWORD)
    models.User.objects.create_user("eve", password=PASSWORD)
    models.User.objects.create_user("kay", password=PASSWORD)
    for n in range(1, 6):
        rows.node(f"n{n}", count=8)
    rows.node(
        "m1", count=2, model="NVIDIA A100-PCIE-40GB", mode="mig", memory_mib=40960, mig_profiles=rows.mig_profiles()
    )
    tenants.tenant_save(name="labs", **WHY)
    namespaces.namespace_save(name="nlp", tenant="labs", **WHY)
    quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=40960, pod_devices=4), **WHY)
    quotas.quota_set(tenant="labs", limits=Limits(devices=8, core_percent=400), **WHY)
    tenants.tenant_save(name="spare", **WHY)
    namespaces.namespace_save(name="edge", tenant="spare", **WHY)
    quotas.quota_set(tenant="spare", limits=Limits(devices=8), **WHY)
    tenants.tenant_save(name="desk", **WHY)  # whose limits two people change at once
    quotas.quota_set(tenant="desk", limits=Limits(devices=6), **WHY)
    for person in ("ann", "kay"):
        people.role_grant(role="member", user=person, namespace="nlp", **WHY)
    rows.pod("train", shares=[Given(memory_mib=8192), Given(memory_mib=12000, kind="init", container="load")])
    for name in ("shop", "till"):
        rows.pod(name, namespace="edge", node="n5", shares=[Given(f"GPU-n5-{n}", 2048) for n in range(2)])
    rows.pod("gone", namespace="cv", state="releasing")
    rows.pod("next", state="claimed", claim_charges=[rows.charge()], shares=())
    rows.pod("big", namespace="cv", state="waiting", shares=(), asks=rows.requests.DeviceRequest("NVIDIA", 9, 90000))
    rows.pod("slice", node="m1", shares=[Given("GPU-m1-0", 19968, 42, mig=MigUse("3g.20gb", MigPlacement(4, 4)))])
    card = {"vendor": "NVIDIA", "uuid": "GPU-n1-0", "node": "n1"}
    devices.device_edit(cordoned=True, reserved_mib=512, note="fan is loud", **card, **WHY)
    holds.hold_add(
        amounts=holds.Amounts(1000, 0, 1), expires_at=ledger.database_time() + timedelta(days=1), **card, **WHY
    )
    now = ledger.database_time()
    models.Refusal.objects.create(
        cluster_id=ledger.cluster_id(), pod_uid="uid-next", at=now, since=now, reason="CardInsufficientCore",
        summary="0/5 nodes: 5 CardInsufficientCore",
    )  # fmt: skip
    models.Trace.objects.create(
        cluster_id=ledger.cluster_id(), pod_uid="uid-big", namespace="cv", pod_name="big", verdict="refused",
        summary="0/6 nodes: 6 CardInsufficientMemory", reason="CardInsufficientMemory", first_at=now, last_at=now,
    )  # fmt: skip
    models.DeniedAsk.objects.create(
        cluster_id=ledger.cluster_id(), namespace="nlp", owner="ReplicaSet/web",
        message="exceeding resource quota: needs 8, free 2 of 8 devices, used 6, quota nlp/default",
        first_at=now, last_at=now, times=3,
    )  # fmt: skip
    with ledger.transaction(cause="test") as entry:
        late = "locked since 2026-11-30 08:00:00 UTC, more than twice the time-out"
        findings.finding_raise(entry, kind="node-lock-stuck", subject="n2", message=late, evidence={})
    used()


def used() -> None:
    """Hours of use with prices, and a share that is held and not used."""
    from decimal import Decimal

    from accounting import ledger
    from accounting.models import Registration, UsageInterval
    from accounting.services import measurements, prices, registrations, rollups
    from accounting.services.measurements import Sample

    registrations.registrations_check()
    day = ledger.database_time().date() - timedelta(days=40)
    prices.price_set(vendor="NVIDIA", model_pattern="*A10", device_hour=Decimal("1.2"), valid_from=day, **WHY)
    with ledger.transaction(cause="test") as entry:
        hour = timedelta(hours=1)
        Registration.objects.update(started_at=entry.at - 60 * hour)
        shared = {"cluster_id": entry.clock.cluster_id, "node": "n1", "vendor": "NVIDIA", "model": "NVIDIA A10"}
        shared |= {"slots": 1, "memory_mib": 8192, "core_percent": 20}
        for n in range(12):
            UsageInterval.objects.create(
                **shared, pod_uid=f"uid-old{n}", namespace=("nlp", "cv", "web")[n % 3], owner=f"Job/j{n % 4}",
                pod_name=f"old{n}", uuid=f"GPU-n1-{n % 8}", started_at=entry.at - (40 - 2 * n) * hour,
                ended_at=entry.at - (20 - n) * hour,
            )  # fmt: skip
        UsageInterval.objects.create(
            **shared, pod_uid="uid-train", namespace="nlp", pod_name="train", uuid="GPU-n1-0",
            started_at=entry.at - 9 * hour,
        )  # fmt: skip
    rollups.hours_rollup()
    planned()
    samples = [
        Sample("GPU-n1-0", "uid-train", "main", 900, 0),
        Sample("GPU-n1-0", memory_used_mib=9000, core_used_percent=12),
    ]
    measurements.measurements_store(node="n1", age_s=0, samples=samples)
    read()


def read() -> None:
    """How the devices of n4 are, as its agent last read it: each a step warmer than the one before; the last fell off
    the bus."""
    from accounting.services import measurements
    from accounting.services.measurements import Condition, Sample

    slowed = [(), (), (), (), (), (), ("heat_software",)]
    warm = [
        Sample(f"GPU-n4-{n}", "", "", 2000 * n, 14 * n, Condition(35 + 9 * n, 90, 60 + 40 * n, 300, slowed[n]))
        for n in range(7)
    ]
    gone = Sample("GPU-n4-7", condition=Condition(xid=79, xid_age_s=600, ailment="XID 79"))
    measurements.measurements_store(node="n4", age_s=0, samples=[*warm, gone])


def planned() -> None:
    """A budget that is spent, and one of a tenant that is set in a test."""
    from decimal import Decimal

    from accounting import ledger
    from accounting.services import budgets

    today = ledger.database_time().date()
    days: dict[str, Any] = {"period": "once", "first_day": today - timedelta(20), "last_day": today + timedelta(10)}
    plan = budgets.Plan(device_hours=10, amount=Decimal(100), currency="EUR", **days)
    budgets.budget_set(namespace="nlp", plan=plan, **WHY)
    budgets.budget_set(tenant="spare", plan=budgets.Plan(device_hours=500), **WHY)


def late() -> None:
    """One more running pod."""
    from tests.accounting import rows

    rows.pod("latecomer", shares=[rows.Given("GPU-n2-3", 6000)], node="n2")


if __name__ == "__main__":
    django.setup()
    {"all": everything, "late": late}[sys.argv[1]]()
