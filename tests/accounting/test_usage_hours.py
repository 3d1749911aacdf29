"""Who used devices for how long: from what pods' statuses say, hour by hour, to the microsecond."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from django.db.models import Sum

from accounting import ledger
from accounting.models import LateUsage, Registration, UsageHour, UsageInterval
from accounting.services import flights, nodes, registrations, rollups
from tests import builders
from tests.accounting import flow, kube_objects

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]

HOUR = timedelta(hours=1)
HOUR_US = 3_600_000_000


def past(hours: int) -> datetime:
    """The start of an hour that has passed."""
    return ledger.database_time().replace(minute=0, second=0, microsecond=0) - hours * HOUR


def text(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def ran(name: str, start: datetime, end: datetime | None, **fields: Any) -> None:
    """A pod that the kubelet took on at `start`, and that has ended if `end` is given: seen only now."""
    owner = fields.pop("owner", "")
    pod = kube_objects.pod(name, **fields)
    if owner:
        kind, who = owner.split("/")
        pod["metadata"]["ownerReferences"] = [{"controller": True, "kind": kind, "name": who}]
    pod["status"]["startTime"] = text(start)
    flow.run(pod)
    if end is not None:
        ended = {"terminated": {"exitCode": 0, "finishedAt": text(end)}}
        pod["status"] |= {"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": ended}]}
        pod["metadata"]["resourceVersion"] = str(int(pod["metadata"]["resourceVersion"]) + 100_000)
        flow.show(pod)


def registered_since(at: datetime) -> None:
    with ledger.transaction(cause="test"):
        Registration.objects.update(started_at=at)


def hours(at: datetime) -> dict[str, int]:
    """Namespace → microseconds of whole devices in one hour; "" is idle time."""
    rows = UsageHour.objects.filter(hour=at).values_list("namespace").annotate(us=Sum("card_us"))
    return dict(rows)


def test_h64_four_quarters_of_a_card_for_an_hour_are_one_gpu_hour() -> None:
    flow.cluster()
    at = past(3)
    registered_since(at - HOUR)
    for n in range(4):
        ran(f"p{n}", at, at + HOUR, mem=6144, cores=25, owner=f"Job/j{n}")
    rollups.hours_rollup()
    assert hours(at) == {"nlp": HOUR_US}
    assert hours(at - HOUR) == hours(at + HOUR) == {"": HOUR_US}
    by_owner = dict(UsageHour.objects.filter(hour=at).values_list("owner", "card_us"))
    assert by_owner == {f"Job/j{n}": HOUR_US // 4 for n in range(4)}


def test_what_nobody_held_is_idle_time() -> None:
    flow.cluster()
    at = past(3)
    registered_since(at)
    ran("p", at + HOUR / 4, at + HOUR / 2, mem=6144)
    rollups.hours_rollup()
    assert hours(at) == {"nlp": HOUR_US // 16, "": HOUR_US - HOUR_US // 16}
    idle = UsageHour.objects.get(hour=at, namespace="")
    assert idle.memory_mib_s == 24576 * 3600 - 6144 * 900


def test_pods_count_from_what_their_status_says_however_late_that_is_seen() -> None:
    flow.cluster()
    at = past(5)
    registered_since(at)
    with flights.single_flight(rollups.JOB, holder="test", ttl_s=60):
        rollups.hours_rollup()
    ran("p", at + HOUR, at + 3 * HOUR, mem=24576)
    assert LateUsage.objects.count() > 0
    rollups.hours_rollup()
    assert [hours(at + n * HOUR).get("nlp", 0) for n in range(4)] == [0, HOUR_US, HOUR_US, 0]
    assert LateUsage.objects.count() == 0


def test_a_node_with_a_wrong_clock_moves_nothing_beyond_the_pods_life() -> None:
    flow.cluster()
    ran("future", ledger.database_time() + HOUR, ledger.database_time() + 2 * HOUR, mem=100)
    ran("ancient", datetime(1999, 1, 1, tzinfo=UTC), datetime(2000, 1, 1, tzinfo=UTC), mem=100)
    now = ledger.database_time()
    for one in UsageInterval.objects.all():
        assert one.ended_at is not None
        assert datetime(2026, 1, 1, tzinfo=UTC) <= one.started_at <= one.ended_at <= now


def test_rolling_up_again_changes_nothing() -> None:
    flow.cluster()
    at = past(3)
    ran("p", at, at + HOUR / 3, mem=6144, cores=10)
    rollups.hours_rollup()
    columns = ("hour", "namespace", "owner", "model", "card_us", "slot_s", "memory_mib_s", "core_percent_s")
    before = list(UsageHour.objects.filter(hour__lt=past(0)).values_list(*columns))
    rollups.hours_rollup()
    assert list(UsageHour.objects.filter(hour__lt=past(0)).values_list(*columns)) == before


def test_a_device_that_is_held_counts_also_while_nobody_registers_it() -> None:
    flow.cluster()
    at = past(3)
    ran("p", at, at + HOUR / 2, mem=12288)
    rollups.hours_rollup()
    assert hours(at) == {"nlp": HOUR_US // 4, "": HOUR_US // 4}


def test_more_held_than_there_is_charges_no_more_than_there_is() -> None:
    flow.cluster()
    at = past(3)
    ran("a", at, None, mem=20000)
    with ledger.transaction(cause="test"):
        first = UsageInterval.objects.get()
        for n in range(2):
            first.pk, first.pod_uid, first.namespace = None, f"other-{n}", "cv"
            first.save(force_insert=True)
    rollups.hours_rollup()
    assert sum(hours(at).values()) == HOUR_US
    assert Fraction(hours(at)["cv"], hours(at)["nlp"]) == 2


def test_registrations_follow_what_a_node_offers() -> None:
    flow.cluster()
    assert [(one.uuid, one.memory_mib, one.ended_at) for one in Registration.objects.all()] == [("GPU-n1", 24576, None)]
    flow.observe_nodes(kube_objects.node("n1", builders.device("GPU-n1", memory_mib=30000)))
    old, new = Registration.objects.order_by("pk")
    assert (old.memory_mib, old.ended_at) == (24576, new.started_at)
    nodes.nodes_gone(["n1"])
    assert not Registration.objects.filter(ended_at=None).exists()


def test_what_was_registered_before_registrations_were_kept_is_found_by_the_tick() -> None:
    flow.cluster()
    with ledger.transaction(cause="test"):
        Registration.objects.all().delete()
    assert registrations.registrations_check() == 1
    assert Registration.objects.get().uuid == "GPU-n1"
    assert registrations.registrations_check() == 0
