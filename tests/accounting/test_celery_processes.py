"""Worker and beat for real, without a watcher.

| broker | filesystem, Redis |
| what happens while nobody watches | a pod ends, a status changes: right after the next tick |
| what waits in the queue | stale ticks are dropped, the same tick twice runs once at a time |
| what is away | the database, the API server: one line a tick |
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from accounting import live_view
from accounting.models import ProcessLease
from tests.accounting import flow, kube_objects, simulated
from tests.accounting.celery_processes import Installation, database_url, redis_of_this_worker
from tests.accounting.simulated import World, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.ledger]
START_S = 60.0


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[World]:
    with simulated.world(tmp_path) as one:
        one.node()
        one.node("n2")
        yield one


@pytest.fixture(params=["filesystem", "redis"])
def installed(request: pytest.FixtureRequest, world: World, tmp_path: pathlib.Path) -> Installation:
    redis = redis_of_this_worker(request.getfixturevalue("redis_url")) if request.param == "redis" else ""
    return Installation(tmp_path, database_url(), str(tmp_path / "kubeconfig"), redis)


def runs(task: str) -> int:
    """How often a task has run; each run is a new holder of its lease."""
    lease = ProcessLease.objects.filter(name=task).first()
    return lease.epoch if lease else 0


def done(task: str) -> bool:
    return ProcessLease.objects.filter(name=task).exclude(succeeded_at=None).exists()


def test_all_comes_right_by_ticks_alone(installed: Installation, world: World) -> None:
    with installed.running("worker"):
        with installed.running("beat"):
            until(lambda: live_view.live().refresh().ready, "the first tick compares everything", START_S)
        ends, starts = world.placed("ends", mem=8000), world.placed("starts", "n2", mem=4000)
        world.delete("ends")
        world.status("starts", phase="Running", containerStatuses=[{"name": "main", **kube_objects.running()}])
        with installed.running("beat"):  # a new beat ticks at once
            until(lambda: flow.state(ends) is None, "released", START_S)
            until(lambda: flow.state(starts) == "running", "its status applied", START_S)
    assert (flow.used_mib("GPU-n1"), flow.used_mib("GPU-n2")) == (0, 4000)
    assert done("pods")
    flow.view_is_true()


def test_after_a_long_outage_stale_ticks_do_not_run(installed: Installation) -> None:
    installed.send(("due", 150, -5), ("waiting", 150, -5), ("due", 1, 600))
    with installed.running("worker"):
        until(lambda: done("leases"), "the tick that is not stale", START_S)
        installed.send(("rollup", 1, 600))
        until(lambda: done("rollup"), "the queue is empty", START_S)
    assert (runs("leases"), runs("wake")) == (1, 0)


def test_a_database_that_is_away_costs_one_line_a_tick(tmp_path: pathlib.Path) -> None:
    installed = Installation(tmp_path, "postgresql://nobody@127.0.0.1:1/none")
    installed.send(("due", 2, 600))
    with installed.running("worker") as log:
        until(lambda: log.read_text().count("tick_failed") == 2, "both ticks gave up", START_S)
    assert "Traceback" not in log.read_text()
