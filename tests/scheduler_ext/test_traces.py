"""What is kept of a refusal: since when, and whether the pod could ever run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from accounting import ledger
from accounting.models import Refusal
from accounting.services import leases, quotas
from hami_platform.domain import quota
from scheduler_ext import traces
from tests.scheduler_ext.world import World, container, pod, row


def refusal(made: dict[str, Any]) -> Refusal:
    World.flush()
    return Refusal.objects.get(pod_uid=made["metadata"]["uid"])


def asks(world: World, name: str, mib: int) -> dict[str, Any]:
    return world.create(pod(name, container(gpu=1, gpumem=mib)))


def test_more_than_any_device_has_never_fits(world: World) -> None:
    made = asks(world, "p", 99999)
    world.filter(made)
    assert refusal(made).never_fits
    assert refusal(made).never_fits_since is not None


def test_what_would_fit_if_nothing_ran_is_only_refused_now(world: World) -> None:
    for name in ("a", "b"):
        assert world.filter(asks(world, name, 20000))["NodeNames"]
    made = asks(world, "p", 20000)
    world.filter(made)
    assert not refusal(made).never_fits
    assert refusal(made).never_fits_since is None


def test_nodes_outside_the_scheduler_s_sample_count_too(world: World) -> None:
    world.node("n2", cards=4)
    world.compare()
    made = world.create(pod("p", container(gpu=3, gpumem=1000)))
    world.filter(made, "n1")
    assert not refusal(made).never_fits


def test_a_limit_below_the_request_never_fits_until_it_is_raised(world: World) -> None:
    made = asks(world, "p", 3000)
    world.filter(made)
    Refusal.objects.all().delete()
    quotas.quota_set(namespace="nlp", reason="t", actor="t", limits=quota.Limits(device_memory_mib=2000))
    world.filter(made)
    assert refusal(made).never_fits
    quotas.quota_set(namespace="nlp", reason="t", actor="t", limits=quota.Limits(device_memory_mib=4000))
    assert world.filter(made)["NodeNames"]


def test_a_bigger_node_ends_it(world: World) -> None:
    made = world.create(pod("p", container(gpu=3, gpumem=24000)))
    world.filter(made)
    assert refusal(made).never_fits
    world.node("n2", cards=4)
    world.compare()
    world.filter(made, "n1")
    assert not refusal(made).never_fits
    assert refusal(made).never_fits_since is None


def test_after_ten_minutes_its_claim_is_given_up(world: World) -> None:
    made = asks(world, "p", 99999)
    world.compare()
    world.filter(made)
    long_ago = ledger.database_time() - timedelta(seconds=601)
    assert refusal(made).never_fits
    leases.leases_tick()
    assert row(made["metadata"]["uid"]).state == "claimed"
    Refusal.objects.update(never_fits_since=long_ago)
    leases.leases_tick()
    assert (row(made["metadata"]["uid"]).state, row(made["metadata"]["uid"]).suspended) == ("waiting", True)


@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "in three"])
def test_a_placement_ends_a_refusal_and_the_next_one_begins_anew(world: World, together: bool) -> None:
    first, placed, second = (
        traces.Decided("u", "nlp", "p", verdict, reason="CardInsufficientMemory" if verdict == "refused" else "")
        for verdict in ("refused", "placed", "refused")
    )
    for batch in [[first, placed, second]] if together else [[first], [placed], [second]]:
        before = ledger.database_time()
        traces.write(batch)
    assert Refusal.objects.get(pod_uid="u").since >= before
