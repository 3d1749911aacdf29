"""A disk that is full, on SQLite: nothing is half written, everybody is told, and it goes on once there is room.

`max_page_count` makes SQLite fail as it does for ENOSPC: `database or disk is full`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection

from accounting import ledger, live_view
from accounting.services import audit, cluster_api, device_config
from tests.accounting.simulated import until
from tests.scheduler_ext.world import World, container, pod

pytestmark = [pytest.mark.only("sqlite"), pytest.mark.ledger]


@contextmanager
def no_room() -> Iterator[None]:
    """This thread's connection can make the file no larger; what free space it has is used up."""
    ((pages,),) = told("PRAGMA page_count")
    told(f"PRAGMA max_page_count = {pages}")
    try:
        yield
    finally:
        told("PRAGMA max_page_count = 1000000000")


def told(pragma: str) -> list[tuple[int]]:
    """What SQLite answers, read to its end: an unfinished statement keeps its snapshot, upon which nothing can be
    written any more once another thread has written."""
    with connection.cursor() as cursor:
        answer: list[tuple[int]] = cursor.execute(pragma).fetchall()
        return answer


def fill_up(world: World) -> int:
    """Admit pods until there is no room any more; how many were."""
    for number in range(10_000):
        answer = world.admit(pod(f"filler-{number}", container(gpu=1, gpumem=1)))
        if not answer["allowed"]:
            assert "cannot be checked now" in answer["status"]["message"]
            assert "full" in answer["status"]["message"]
            return number
    raise AssertionError("the disk never was full")


def test_a_full_disk_refuses_with_the_reason_and_leaves_nothing_half_written(world: World) -> None:
    waits = world.create(pod("waits"))
    with no_room():
        admitted = fill_up(world)
        answer = world.filter(waits)
        assert "full" in answer["Error"]
        assert not answer["NodeNames"]
        assert world.admit(pod("plain", {"name": "main", "image": "i"}))["allowed"]
        view = live_view.LiveView(ledger.cluster_id()).reload()
        assert len(view.pods) == admitted
        assert not any(row.shares for row in view.pods.values())
    until(lambda: not ledger.breaker.why, "the breaker is closed again")
    assert world.filter(waits)["NodeNames"] == ["n1"]
    assert world.bind(waits) == ""
    assert audit.differences(cluster_api.cluster_api(), config=device_config.device_config()) == []
