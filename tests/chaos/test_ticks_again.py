"""A tick that is delivered twice, at once or later, changes nothing; a late one does what is right now.

Every tick that beat sends is tried, against a simulated API server whose writes are counted.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import pytest
from django.db import connection

from accounting import live_view, tasks
from hami_platform import celery
from tests.accounting import flow, kube_objects, simulated
from tests.accounting.simulated import World

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.ledger]


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[World]:
    """A node, a pod that runs on it, one that waits for room, a lock."""
    with simulated.world(tmp_path) as one:
        one.node()
        tasks.pods()
        placed = one.placed("runs", mem=20000)
        one.status("runs", phase="Running", containerStatuses=[{"name": "main", **kube_objects.running()}])
        flow.filter_(one.pod("waits", mem=20000))
        assert placed["spec"]["nodeName"] == "n1"
        yield one


def ticks() -> list[Any]:
    """The tasks that beat sends."""
    celery.app.loader.import_default_modules()
    return [celery.app.tasks[entry["task"]] for entry in tasks.BEAT_SCHEDULE.values()]


def all_ticks() -> None:
    for one in ticks():
        one()


def twice_at_once() -> None:
    def run(task: Any) -> None:
        try:
            task()
        finally:
            connection.close()

    with futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(run, [*ticks(), *ticks()]))


def writes(world: World) -> int:
    """Requests that changed something at the API server."""
    return sum(many for (method, _), many in world.server.requests.items() if method != "GET")


def test_ticks_that_come_again_write_nothing(world: World) -> None:
    all_ticks()
    all_ticks()
    before = (live_view.live().refresh().clock, writes(world))
    all_ticks()
    twice_at_once()
    assert (live_view.live().refresh().clock, writes(world)) == before
    flow.view_is_true()


def test_ticks_that_come_late_do_what_is_right_now(world: World) -> None:
    """Sent when the pod ran, delivered when it is gone and another has its name and its room."""
    all_ticks()
    world.delete("runs")
    all_ticks()
    again = world.placed("runs", mem=4000)
    all_ticks()
    twice_at_once()
    assert flow.used_mib() == 4000
    assert flow.state(again) == "bound"
    flow.view_is_true()
