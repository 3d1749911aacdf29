"""Leadership is visible: who is in office under which epoch, when that changed, and what a fenced process is told."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from accounting import guard, ledger, live_view
from accounting.models import Journal, NodeLock, ProcessLease
from accounting.selectors import health
from accounting.services import flights, watch_terms
from tests.accounting import flow, kube_objects

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]


def take(holder: str) -> int:
    """The holder before has died."""
    ProcessLease.objects.update(until=None)
    epoch = flights.lease_take(name=ledger.WATCHER, holder=holder, ttl_s=60)
    assert epoch is not None
    return epoch


def test_each_change_of_the_watcher_in_office_is_recorded_once() -> None:
    flow.cluster()
    for holder in ("one", "two"):
        epoch = take(holder)
        assert watch_terms.term_begin(holder=holder, epoch=epoch)
        assert not watch_terms.term_begin(holder=holder, epoch=epoch)
    shown = health.health(live_view.live().refresh())
    assert [(one.holder, one.epoch) for one in shown.changes if one.what == "watcher"] == [("two", 2), ("one", 1)]
    assert shown.watcher is not None
    assert (shown.watcher.holder, shown.watcher.held) == ("two", True)
    flow.view_is_true()


def test_a_process_that_was_replaced_begins_no_term() -> None:
    flow.cluster()
    old = take("one")
    take("two")
    before = Journal.objects.count()
    with pytest.raises(ledger.Fenced):
        watch_terms.term_begin(holder="one", epoch=old)
    assert Journal.objects.count() == before


def test_the_page_shows_office_jobs_and_locks_to_operators_alone() -> None:
    flow.cluster()
    flow.run(kube_objects.pod(mem=1000, inits=[kube_objects.container("load", mem=1)]))  # bound: its node is locked
    with guard.writing():
        NodeLock.objects.update(first_seen_at=ledger.database_time() - timedelta(hours=1))
    watch_terms.term_begin(holder="watcher-7", epoch=take("watcher-7"))
    with flights.single_flight("audit", holder="worker-1", ttl_s=60):
        pass
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("root", password="x"))
    page = client.get("/health").content.decode()
    for text in ("epoch 1 began: watcher-7", "audit", "worker-1", "nlp/p1", "overdue", "compared in full"):
        assert text in page, text
    nobody = Client()
    nobody.force_login(get_user_model().objects.create_user("ann", password="x"))
    assert nobody.get("/health").status_code == 403
