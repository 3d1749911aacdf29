"""One pod's bind that comes many times at once."""

from __future__ import annotations

from concurrent import futures
from typing import Any

import pytest
from django.db import connection

from tests.scheduler_ext.world import World, total_mib

pytestmark = pytest.mark.ledger


def at_once(world: World, pods: list[dict[str, Any]]) -> list[str]:
    """What each bind said."""

    def one(pod: dict[str, Any]) -> str:
        try:
            return World(world.api, world.kube).bind(pod)
        finally:
            connection.close()

    with futures.ThreadPoolExecutor(len(pods)) as pool:
        return list(pool.map(one, pods))


def test_one_pod_bound_eight_times_at_once_is_bound_once_and_held_once(world: World) -> None:
    made = world.placed("p")
    assert set(at_once(world, [made] * 8)) == {""}
    assert world.get("p")["spec"]["nodeName"] == "n1"
    assert total_mib() == 3000
