"""The ledger itself: order, journal, nesting, guard, and Views that notice what happened to the database."""

from __future__ import annotations

import contextlib

import pytest
from django.db import transaction

from accounting import guard, ledger, live_view
from accounting.models import Clock, Journal, NodeLock, Pod, Tenant
from accounting.services import reconcile, retention, tenants
from hami_platform.domain.view import View
from tests.accounting import flow, kube_objects

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]


def write_and_fail() -> None:
    """A ledger transaction that writes and journals a row, and then fails."""
    with ledger.transaction(cause="broken") as entry:
        NodeLock.objects.create(cluster_id=entry.clock.cluster_id, node="x", first_seen_at=entry.at)
        entry.record("lock", "x")
        raise ZeroDivisionError


def test_writes_outside_a_ledger_transaction_are_refused() -> None:
    cluster = ledger.cluster_id()
    for write in (
        lambda: Tenant.objects.create(cluster_id=cluster, name="a"),
        lambda: Tenant.objects.update(note="x"),
        lambda: Tenant.objects.all().delete(),
        lambda: Tenant.objects.bulk_create([Tenant(cluster_id=cluster, name="b")]),
        lambda: Tenant.objects.bulk_update([], ["note"]),
        lambda: Tenant.objects.update_or_create(cluster_id=cluster, name="c"),
    ):
        with pytest.raises(guard.LedgerWriteRefused):
            write()


def test_revisions_rise_by_one_and_nothing_recorded_takes_none() -> None:
    flow.cluster()
    before = live_view.live().refresh().clock.revision
    with ledger.transaction(cause="nothing"):
        pass
    tenants.tenant_save(name="a", reason="test", actor="ann")
    assert live_view.live().refresh().clock.revision == before + 1
    row = Journal.objects.get(revision=before + 1)
    assert (row.kind, row.cause, row.actor, row.seq) == ("tenant", "tenant_save", "ann", 0)


def test_a_nested_transaction_joins_the_outer_one() -> None:
    flow.cluster()
    with ledger.transaction(cause="outer") as outer, ledger.transaction(cause="inner") as inner:
        assert inner is outer


def test_a_nested_failure_takes_its_rows_and_its_journal_along() -> None:
    flow.cluster()
    with ledger.transaction(cause="outer"), pytest.raises(ZeroDivisionError):
        write_and_fail()
    assert not NodeLock.objects.exists()
    assert not Journal.objects.filter(kind="lock").exists()


def test_a_failed_transaction_leaves_no_trace() -> None:
    flow.cluster()
    before = live_view.live().refresh()
    with pytest.raises(ZeroDivisionError):
        write_and_fail()
    assert live_view.live().refresh() is before


def test_an_admin_view_s_own_transaction_may_surround_several() -> None:
    flow.cluster()
    before = live_view.live().refresh().clock.revision
    with transaction.atomic():
        tenants.tenant_save(name="a", reason="test", actor="ann")
        tenants.tenant_save(name="b", reason="test", actor="ann")
    assert live_view.live().refresh().clock.revision == before + 2
    flow.view_is_true()


def test_what_a_surrounding_transaction_may_still_roll_back_is_shown_to_nobody_else() -> None:
    flow.cluster()
    before = live_view.live().refresh()
    with contextlib.suppress(ZeroDivisionError), transaction.atomic():
        tenants.tenant_save(name="a", reason="test", actor="ann")
        tenants.tenant_save(name="b", parent="a", reason="test", actor="ann")
        assert len(live_view.live().refresh().tenants) == 2, "its own writer sees them"
        assert live_view.live().now is before
        raise ZeroDivisionError
    assert live_view.live().refresh() is before
    assert before.ready
    flow.view_is_true()


def test_nothing_is_placed_before_the_first_full_compare() -> None:
    flow.observe_nodes(kube_objects.node())
    answer = flow.filter_(kube_objects.pod(mem=1), "n1")
    assert "not ready" in answer.error
    assert answer.node == ""


def test_a_view_behind_the_pruning_reloads() -> None:
    flow.cluster()
    stale = live_view.LiveView(ledger.cluster_id())
    stale.refresh()
    tenants.tenant_save(name="a", reason="test", actor="ann")
    retention.journal_prune(days=-1)
    with guard.writing():
        Journal.objects.filter(revision__lt=Clock.objects.get().revision).delete()
        Clock.objects.update(pruned_through=Clock.objects.get().revision - 1)
    assert [row.name for row in stale.refresh().tenants.values()] == ["a"]
    assert stale.refresh().ready


def test_a_view_ahead_of_a_restored_database_draws_a_new_incarnation() -> None:
    flow.cluster()
    old = live_view.live().refresh().clock
    flow.run(kube_objects.pod(mem=100))
    live_view.live().refresh()
    with guard.writing():  # the backup of one revision before comes back
        Journal.objects.filter(revision__gt=old.revision).delete()
        Pod.objects.all().delete()
        Clock.objects.update(revision=old.revision, tag=old.tag)
    after = live_view.live().refresh()
    assert after.clock.incarnation != old.incarnation
    assert not after.ready
    assert not after.pods


def test_a_backup_of_an_earlier_incarnation_is_noticed_too() -> None:
    """Restored twice: the incarnation that comes back with the second backup was left before."""
    flow.cluster()
    old = Clock.objects.get()
    with ledger.transaction(cause="restored") as entry:
        ledger.incarnation_draw(entry)
    reconcile.compared()
    before = live_view.live().refresh()
    with guard.writing():
        Journal.objects.filter(revision__gt=old.revision).delete()
        old.save()
    after = live_view.live().refresh()
    assert not after.ready
    assert after.clock.incarnation not in (old.incarnation, before.clock.incarnation)


def test_another_history_of_the_same_length_is_noticed_by_its_tag() -> None:
    flow.cluster()
    old = live_view.live().refresh().clock
    with guard.writing():
        Journal.objects.filter(revision=old.revision).update(tag="another")
        Clock.objects.update(tag="another")
    after = live_view.live().refresh()
    assert after.clock.incarnation != old.incarnation
    assert not after.ready


def test_who_is_second_to_publish_a_view_takes_the_first_one_and_folds_nothing_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flow.cluster()
    live = live_view.LiveView(ledger.cluster_id())
    live.refresh()
    flow.limit(memory_mib=1000)
    fold, folded = live._next, []

    def raced(base: View) -> View:
        folded.append(base)
        found = fold(base)
        if len(folded) == 1:
            live.refresh()  # by another thread
        return found

    monkeypatch.setattr(live, "_next", raced)
    assert live.refresh() is live.now
    assert len(folded) == 2
    flow.view_is_true()
