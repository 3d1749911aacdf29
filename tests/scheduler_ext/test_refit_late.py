"""A refit whose patch lands after the agent has given it up and handed out what it had read: the agent's word decides.

| the agent was given | when it says so | the annotations then | in the end, ledger and annotations |
|---|---|---|---|
| the old device | before the patch lands | old, then new | old |
| the old device | after all is settled | new | old |
| the new device | while both are held | unknown | new |
| what the ledger says | at any time | the same | the same, and nothing is written |
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from accounting import guard, ledger
from accounting.models import Finding, UsageInterval
from accounting.services import cluster_api, completions, reconcile, refits, seen
from accounting.services.device_config import device_config
from hami_platform import env
from scheduler_ext import refit
from tests.scheduler_ext.refitting import ALLOCATED, TO_ALLOCATE, TOKEN, ask, bound, clean, held, other, uuids
from tests.scheduler_ext.world import Obj, World, row

pytestmark = pytest.mark.ledger

POD = "/api/v1/namespaces/nlp/pods/p"


@pytest.fixture(autouse=True)
def with_token() -> Iterator[None]:
    refit.the_refitter.cache_clear()
    with env.override(internal_token=TOKEN):
        yield
    refit.the_refitter.cache_clear()


def report(made: Obj, *devices: str) -> None:
    uid = made["metadata"]["uid"]
    assert completions.completion_report(uid=uid, container="main", node="n1", devices=devices)


def begin(world: World, made: Obj, target: str) -> refits.RefitPlan:
    asked = refits.RefitAsk(made["metadata"]["uid"], "nlp", "p", "n1", 0, frozenset({target}))
    plan = refits.refit_begin(ask=asked, seen=seen.from_object(world.get("p"), device_config()), config=device_config())
    assert isinstance(plan, refits.RefitPlan)
    return plan


def tick(made: Obj) -> None:
    """The comparison, once what is open is old enough."""
    with guard.writing():
        one = row(made["metadata"]["uid"])
        if refits.MARK in one.wire:
            one.wire[refits.MARK]["at"] = (ledger.database_time() - timedelta(seconds=11)).isoformat()
            one.save(update_fields=["wire"])
    reconcile.pods_reconcile(cluster_api.cluster_api(), config=device_config())


def test_a_patch_that_lands_after_the_old_device_was_reported_is_undone(world: World) -> None:
    made = bound(world)
    own, free = other(world)
    plan = begin(world, made, free)
    report(made, own)
    world.patch(POD, {"metadata": {"annotations": plan.annotations}})
    refits.refit_settle(uid=made["metadata"]["uid"], annotations=plan.annotations, config=device_config(), at=plan.at)
    assert held() == {own: 3000, free: 3000}, "the process that wrote must not let go of what the container has"
    tick(made)
    assert held() == {own: 3000}
    assert uuids(world) == uuids(world, key=TO_ALLOCATE) == [own]
    assert refits.MARK not in row(made["metadata"]["uid"]).wire
    assert clean()


def test_what_was_settled_follows_a_report_that_comes_later(world: World) -> None:
    made = bound(world)
    own, free = other(world)
    assert ask(world, made, free)["succeeded"]
    report(made, own)
    assert held() == {own: 3000, free: 3000}
    tick(made)
    assert held() == {own: 3000}
    assert uuids(world) == [own]
    assert UsageInterval.objects.get(ended_at=None).uuid == own
    assert clean()


def test_a_consumed_row_stays_consumed(world: World) -> None:
    made = bound(world)
    own, free = other(world)
    assert ask(world, made, free)["succeeded"]
    world.patch(POD, {"metadata": {"annotations": {TO_ALLOCATE: ";"}}})
    report(made, own)
    tick(made)
    assert world.get("p")["metadata"]["annotations"][TO_ALLOCATE] == ";"
    assert uuids(world) == [own]


@pytest.mark.parametrize("written", [False, True])
def test_a_report_of_the_new_device_settles_a_refit_of_which_nobody_knew(world: World, written: bool) -> None:
    made = bound(world)
    _, free = other(world)
    plan = begin(world, made, free)
    if written:
        world.patch(POD, {"metadata": {"annotations": plan.annotations}})
    report(made, free)
    tick(made)
    assert held() == {free: 3000}
    assert uuids(world) == [free]
    assert clean()


def test_a_report_of_what_the_ledger_says_opens_nothing_and_may_be_repeated(world: World) -> None:
    made = bound(world)
    own, _ = other(world)
    before = world.get("p")["metadata"]["resourceVersion"]
    for _ in range(2):
        report(made, own)
    tick(made)
    assert world.get("p")["metadata"]["resourceVersion"] == before
    assert held() == {own: 3000}
    assert not Finding.objects.exists()


def test_a_reported_container_is_not_moved_any_more(world: World) -> None:
    made = bound(world)
    own, free = other(world)
    report(made, own)
    assert ask(world, made, free)["failureReason"] == "container 0 has its devices already"
    assert uuids(world) == [own]


@pytest.mark.parametrize("said", [("GPU-elsewhere",), ("GPU-n1-0", "GPU-n1-1")])
def test_a_report_that_cannot_be_so_is_a_finding_and_changes_nothing(world: World, said: tuple[str, ...]) -> None:
    made = bound(world)
    own, _ = other(world)
    report(made, *said)
    tick(made)
    assert held() == {own: 3000}
    assert uuids(world, key=ALLOCATED) == [own]
    found = Finding.objects.get(kind="handed-out-otherwise")
    assert found.message == f"container main was given {', '.join(said)}, and the ledger says {own}"


def test_while_the_api_server_is_away_both_stay_held(world: World) -> None:
    made = bound(world)
    own, free = other(world)
    assert ask(world, made, free)["succeeded"]
    report(made, own)
    world.api.fault.fail(r"/pods/p$", method="PATCH", status=409, times=None)
    tick(made)
    world.api.fault.lift()
    assert held() == {own: 3000, free: 3000}
    tick(made)
    assert held() == {own: 3000}
