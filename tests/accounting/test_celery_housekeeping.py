"""Roll-ups and retention: run twice they change nothing, and what is still needed stays."""

from __future__ import annotations

from datetime import timedelta

import pytest

from accounting import guard, ledger, live_view
from accounting.models import DeniedAsk, Finding, Journal, Pod, ProcessLease, Refusal, Trace, UsageHour, UsageInterval
from accounting.services import observe, retention, rollups
from hami_platform import env
from tests.accounting import flow, kube_objects

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]


def cluster() -> int:
    return ledger.cluster_id()


def test_refusals_of_pods_that_are_gone_are_dropped_others_stay() -> None:
    flow.cluster()
    for name in ("waits", "gone"):
        flow.show(kube_objects.pod(name, mem=99999))
    observe.pods_gone(["uid-gone"])
    old = ledger.database_time() - timedelta(hours=2)
    for uid in ("uid-waits", "uid-gone", "uid-never-seen"):
        Refusal.objects.create(cluster_id=cluster(), pod_uid=uid, at=old, since=old)
    fresh = ledger.database_time()
    Refusal.objects.create(cluster_id=cluster(), pod_uid="uid-asked-just-now", at=fresh, since=fresh)
    retention.retention_run()
    assert set(Refusal.objects.values_list("pod_uid", flat=True)) == {"uid-waits", "uid-asked-just-now"}


def test_what_people_were_told_is_kept_for_the_days_that_the_settings_say() -> None:
    flow.cluster()
    now = ledger.database_time()
    for days in (1, 30):
        at = now - timedelta(days=days)
        who = {"namespace": "nlp", "first_at": at, "last_at": at}
        DeniedAsk.objects.create(cluster_id=cluster(), owner=f"Job/{days}", message="m", **who)
        Trace.objects.create(cluster_id=cluster(), pod_uid=f"u{days}", verdict="refused", summary="s", **who)
        for repaired in (at, None):
            Finding.objects.create(
                cluster_id=cluster(), kind="k", subject=f"{days} {repaired}", message="m", found_at=at,
                last_seen_at=at, repaired_at=repaired,
            )  # fmt: skip
    retention.retention_run()
    assert [one.owner for one in DeniedAsk.objects.all()] == ["Job/1"]
    assert [one.pod_uid for one in Trace.objects.all()] == ["u1"]
    assert Finding.objects.filter(repaired_at=None).count() == 2, "open ones stay"
    assert Finding.objects.exclude(repaired_at=None).count() == 1


def test_a_view_behind_the_pruned_journal_loads_anew() -> None:
    flow.cluster()
    flow.run(kube_objects.pod(mem=4000))
    behind = live_view.LiveView(cluster())
    behind.reload()
    flow.limit(memory_mib=10000)
    flow.limit(memory_mib=20000)
    with guard.writing():
        Journal.objects.update(at=ledger.database_time() - timedelta(days=99))
    assert retention.journal_prune(days=30) > 0
    assert retention.journal_prune(days=30) == 0
    assert behind.refresh() == live_view.live().refresh()
    assert flow.used_mib() == 4000


def test_ended_pods_go_after_their_days_and_their_use_stays() -> None:
    flow.cluster()
    flow.run(kube_objects.pod(mem=4000))
    observe.pods_gone(["uid-p1"])
    with guard.writing():
        Pod.objects.update(ended_at=ledger.database_time() - timedelta(days=env.current().trace_keep_days + 1))
    retention.retention_run()
    assert not Pod.objects.exists()
    assert UsageInterval.objects.count() == 1
    flow.view_is_true()


def test_rolling_up_twice_gives_the_same_hours() -> None:
    flow.cluster()
    flow.run(kube_objects.pod(mem=4000))
    observe.pods_gone(["uid-p1"])
    columns = ("hour", "namespace", "card_us", "slot_s", "memory_mib_s", "core_percent_s")
    rollups.hours_rollup()
    before = list(UsageHour.objects.exclude(namespace="").values(*columns))  # idle time goes on
    rollups.hours_rollup()
    assert list(UsageHour.objects.exclude(namespace="").values(*columns)) == before
    assert before


def test_hours_missed_while_no_worker_ran_are_made_up_for() -> None:
    flow.cluster()
    flow.run(kube_objects.pod(mem=1000))
    now = ledger.database_time().replace(minute=30, second=0, microsecond=0)
    with guard.writing():
        UsageInterval.objects.update(started_at=now - timedelta(hours=50), ended_at=now - timedelta(hours=40))
    rollups.hours_rollup()
    assert sum(UsageHour.objects.filter(namespace="nlp").values_list("memory_mib_s", flat=True)) == 10 * 3600 * 1000
    UsageHour.objects.all().delete()
    ProcessLease.objects.create(cluster_id=cluster(), name=rollups.JOB, succeeded_at=now - timedelta(hours=42))
    rollups.hours_rollup()
    assert sum(UsageHour.objects.filter(namespace="nlp").values_list("memory_mib_s", flat=True)) == 2.5 * 3600 * 1000
