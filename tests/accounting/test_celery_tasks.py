"""The tasks themselves: one run at a time whoever delivers them, and what is away costs one line."""

from __future__ import annotations

import contextlib
import json
import pathlib
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import connection

from accounting import ledger, live_view, tasks
from accounting.models import ProcessLease
from accounting.selectors import freshness
from accounting.services import flights
from accounting.services.cluster_api import cluster_api_use
from hami_platform.kube import client
from tests.accounting import flow

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.ledger]


@contextlib.contextmanager
def unreachable_cluster(folder: pathlib.Path) -> Iterator[None]:
    """A kubeconfig of a server that nobody runs."""
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": ""}}],
        "current-context": "c",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    api = client.KubeClient(client.Config(kubeconfig=str(path)))
    cluster_api_use(api)
    try:
        yield
    finally:
        cluster_api_use(None)
        api.close()


def test_the_same_task_delivered_twice_at_once_runs_once() -> None:
    """Also within one process, whose threads share its name."""
    flow.cluster()
    began, may_end = threading.Event(), threading.Event()
    times: list[str] = []

    def slow() -> None:
        times.append("first")
        began.set()
        assert may_end.wait(30)

    def first() -> None:
        try:
            tasks._alone("job", 60, slow)
        finally:
            connection.close()

    thread = threading.Thread(target=first)
    thread.start()
    assert began.wait(30)
    tasks._alone("job", 60, lambda: times.append("second"))
    may_end.set()
    thread.join(30)
    assert times == ["first"]
    tasks._alone("job", 60, lambda: times.append("third"))
    assert times == ["first", "third"]


def test_an_api_server_that_is_away_costs_one_line_and_the_next_tick_tries_again(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    flow.cluster()
    with unreachable_cluster(tmp_path):
        for _ in range(2):
            tasks.pods()
    lines = [record for record in caplog.records if "tick_failed" in record.getMessage()]
    assert [line.exc_info for line in lines] == [None, None]
    lease = ProcessLease.objects.get(name="pods")
    assert (lease.until, lease.succeeded_at, lease.epoch) == (None, None, 2)


def test_a_run_that_ended_well_says_when() -> None:
    flow.cluster()
    tasks.due()
    assert ProcessLease.objects.get(name="leases").succeeded_at is not None


def test_a_fault_in_our_own_code_is_not_hidden_and_gives_the_lease_back() -> None:
    flow.cluster()
    with pytest.raises(ZeroDivisionError):
        tasks._alone("job", 60, lambda: 1 // 0)
    lease = ProcessLease.objects.get(name="job")
    assert (lease.until, lease.succeeded_at) == (None, None)
    with flights.single_flight("job", holder="next", ttl_s=60) as mine:
        assert mine


def test_pages_say_how_old_reconciliation_is() -> None:
    flow.cluster()
    flights.lease_take(name=ledger.WATCHER, holder="one", ttl_s=60)
    assert "never run" in freshness.freshness(live_view.live().refresh()).problem
    with flights.single_flight(freshness.RECONCILE, holder="one", ttl_s=60):
        pass
    assert freshness.freshness(live_view.live().refresh()).problem == ""
    long_ago = ledger.database_time() - timedelta(seconds=500)
    ProcessLease.objects.filter(name="pods").update(succeeded_at=long_ago)
    assert "Reconciliation is 50" in freshness.freshness(live_view.live().refresh()).problem


def test_pages_watch_a_task_that_is_ticked() -> None:
    assert tasks.BEAT_SCHEDULE[freshness.RECONCILE]["schedule"] < freshness.OLD_S
