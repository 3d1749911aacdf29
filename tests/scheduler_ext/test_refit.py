"""`/refit`, row by row of what HAMi's does; and what becomes of it when the API server fails in every way.

| the patch | annotations | the ledger holds | the answer |
|---|---|---|---|
| written | new | new | succeeded |
| conflict | as they were | old, then tried again | by the next try |
| refused | as they were | old | failed |
| no answer, written | new | new | succeeded |
| no answer, not written | as they were | old | failed |
| no answer, and nobody can ask | unknown | old and new, until somebody can | failed |
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from accounting import guard, ledger
from accounting.models import Finding, Pod, UsageInterval
from accounting.services import cluster_api, quotas, reconcile, refits, seen
from accounting.services.device_config import device_config
from hami_platform import env
from hami_platform.domain import quota
from scheduler_ext import refit
from tests import builders
from tests.scheduler_ext.refitting import (
    ALLOCATED,
    TO_ALLOCATE,
    TOKEN,
    ask,
    bound,
    cards,
    clean,
    four,
    held,
    other,
    uuids,
)
from tests.scheduler_ext.world import Obj, World, container, pod, row, total_mib

pytestmark = pytest.mark.ledger

POD = r"/pods/p$"


@pytest.fixture(autouse=True)
def with_token() -> Iterator[None]:
    refit.the_refitter.cache_clear()
    with env.override(internal_token=TOKEN):
        yield
    refit.the_refitter.cache_clear()


# -- what is moved, and what is not ------------------------------------------------------------------------------------


def test_a_container_moves_to_an_allowed_device_with_its_amounts(world: World) -> None:
    made = bound(world)
    own, free = other(world)
    assert ask(world, made, free) == {"succeeded": True, "containerDevices": f"{free},NVIDIA,3000,0:"}
    notes = world.get("p")["metadata"]["annotations"]
    assert notes[TO_ALLOCATE] == notes[ALLOCATED] == f"{free},NVIDIA,3000,0:;"
    assert held() == {free: 3000}
    assert "refit" not in row(made["metadata"]["uid"]).wire
    assert clean()
    world.flush()
    said = {one["reason"]: one["message"] for one in world.kube.get("/api/v1/namespaces/nlp/events")["items"]}
    assert said["NumaRefitSucceed"] == f"NUMA refit moved container 0 from [{own}] to [{free}]"


def test_a_device_that_is_allowed_already_stays_and_nothing_is_written(world: World) -> None:
    made = bound(world)
    own, free = other(world)
    before = world.get("p")["metadata"]["resourceVersion"]
    assert ask(world, made, own, free) == {"succeeded": True, "containerDevices": f"{own},NVIDIA,3000,0:"}
    assert world.get("p")["metadata"]["resourceVersion"] == before


def test_only_nvidia_is_moved(world: World) -> None:
    made = bound(world)
    answer = ask(world, made, other(world)[1], deviceType="DCU")
    assert answer == {"succeeded": False, "failureReason": "devices of DCU are not moved, only NVIDIA"}


def test_mig_instances_are_not_moved(world: World) -> None:
    made = bound(world)
    own, free = other(world)
    cards(world, builders.device(own, mode="mig"), builders.device(free, index=1))
    assert ask(world, made, free)["failureReason"] == "MIG instances are not moved"
    assert uuids(world) == [own]


@pytest.mark.parametrize(
    "changes, says",
    [
        ({"podUID": "another"}, "has another uid"),
        ({"podName": "another"}, "not found"),
        ({"nodeName": "n2"}, "on node n1"),
        ({"containerIndex": 1}, "not from 0 to 0"),
        ({"containerIndex": -1}, "not from 0 to 0"),
        ({"containerName": "side"}, "container 0 is main, not side"),
        ({"podUID": ""}, "missing podUID"),
        ({"allowedDeviceUUIDs": []}, "1 to 512 entries"),
        ({"allowedDeviceUUIDs": ["GPU-x"] * 513}, "1 to 512 entries"),
        ({"containerIndex": "0"}, "containerIndex"),
    ],
)
def test_what_is_asked_about_must_be_that_pod_and_container(world: World, changes: Obj, says: str) -> None:
    made = bound(world)
    before = held()
    answer = ask(world, made, other(world)[1], **changes)
    assert not answer["succeeded"]
    assert says in answer["failureReason"]
    assert held() == before


def test_the_containers_name_may_be_given(world: World) -> None:
    made = bound(world)
    assert ask(world, made, other(world)[1], containerName="main")["succeeded"]


def test_devices_that_are_handed_out_already_are_not_moved(world: World) -> None:
    made = bound(world)
    world.patch("/api/v1/namespaces/nlp/pods/p", {"metadata": {"annotations": {TO_ALLOCATE: ";"}}})
    answer = ask(world, made, other(world)[1])
    assert answer["failureReason"] == "container 0 has no devices left to allocate"


def test_an_unbound_pod_is_not_moved(world: World) -> None:
    made = world.placed("p")
    answer = ask(world, made, "GPU-n1-0", "GPU-n1-1")
    assert "reserved, not waiting for its devices" in answer["failureReason"]


def test_a_row_of_different_amounts_is_not_moved(world: World) -> None:
    cards(
        world,
        builders.device("GPU-a", memory_mib=10000),
        builders.device("GPU-b", index=1, memory_mib=20000),
        builders.device("GPU-c", index=2, memory_mib=20000, cordoned=True),
    )
    amounts: Obj = {"gpu": 2, "gpumem-percentage": 50}
    body = pod("p", container(**amounts), annotations={"nvidia.com/use-gpuuuid": "GPU-a,GPU-b"})
    made = bound(world, body)
    assert ask(world, made, "GPU-b", "GPU-c")["failureReason"] == "its devices differ in memory or cores"


def test_its_own_row_is_given_back_first(world: World) -> None:
    cards(world, *(builders.device(f"GPU-{one}", index=i, memory_mib=10000) for i, one in enumerate("abc")))
    made = bound(world, pod("p", container(gpu=2, gpumem=9000)))
    old = set(uuids(world))
    kept = min(old)
    (free,) = {"GPU-a", "GPU-b", "GPU-c"} - old
    assert ask(world, made, kept, free)["succeeded"]
    assert held() == {kept: 9000, free: 9000}
    assert set(uuids(world)) == {kept, free}


def test_nothing_allowed_that_fits_is_said_with_the_reason_and_changes_nothing(world: World) -> None:
    made = bound(world)
    own, free = other(world)
    big = pod("big", container(gpu=1, gpumem=builders.device("x").memory_mib - 1000))
    big["metadata"]["annotations"] = {"nvidia.com/use-gpuuuid": free}
    assert world.filter(world.create(big))["NodeNames"]
    answer = ask(world, made, free)
    assert answer["failureReason"].startswith("AllowedDeviceSetUnmatched: 1/1 CardInsufficientMemory")
    assert uuids(world) == [own]
    world.flush()
    reasons = {one["reason"] for one in world.kube.get("/api/v1/namespaces/nlp/events")["items"]}
    assert "NumaRefitFailed" in reasons


def test_what_the_pod_wants_of_devices_still_counts(world: World) -> None:
    body = pod("p", annotations={"nvidia.com/nouse-gpuuuid": "GPU-n1-1"})
    made = bound(world, body)
    assert "CardUuidMismatch" in ask(world, made, "GPU-n1-1")["failureReason"]


def test_the_policy_chooses_among_the_allowed(world: World) -> None:
    four(world)
    busy = pod("busy", container(gpu=1, gpumem=2000), annotations={"nvidia.com/use-gpuuuid": "GPU-b"})
    world.filter(world.create(busy))
    note = {"nvidia.com/use-gpuuuid": "GPU-a,GPU-b,GPU-c", "hami.io/gpu-scheduler-policy": "binpack"}
    made = bound(world, pod("p", container(gpu=1, gpumem=3000), annotations=note))
    allowed = [uuid for uuid in ("GPU-a", "GPU-b", "GPU-c", "GPU-d") if uuid not in uuids(world)]
    assert ask(world, made, *allowed)["succeeded"]
    assert uuids(world)[0] in {"GPU-a", "GPU-c"}, "GPU-d is not wanted"


def test_only_that_row_of_both_annotations_changes(world: World) -> None:
    made = bound(world, pod("p", container("main", gpu=1, gpumem=3000), container("side", gpu=1, gpumem=1000)))
    first, second = uuids(world), uuids(world, 1)
    free = next(uuid for uuid in ("GPU-n1-0", "GPU-n1-1") if uuid not in second)
    assert ask(world, made, free, containerIndex=1, containerName="side")["succeeded"]
    for key in (TO_ALLOCATE, ALLOCATED):
        assert uuids(world, key=key) == first
        assert uuids(world, 1, key) == [free]
    assert total_mib() == 4000
    assert clean()


def test_an_init_and_an_app_that_follow_each_other_on_one_card_do_not_add_up(world: World) -> None:
    body = pod("p", container(gpu=1, gpumem=14000), init=[container("load", gpu=1, gpumem=14000)])
    made = bound(world, body)
    cards_ = {"GPU-n1-0", "GPU-n1-1"}
    (app,) = uuids(world, 1)
    (free,) = cards_ - {app}
    assert ask(world, made, free, containerIndex=1)["succeeded"]
    assert ask(world, made, free, containerIndex=0)["succeeded"]
    assert held() == {free: 14000}


def test_a_limit_on_the_new_devices_model_refuses(world: World) -> None:
    cards(world, builders.device("GPU-a", model="NVIDIA A"), builders.device("GPU-b", index=1, model="NVIDIA B"))
    quotas.quota_set(
        namespace="nlp", reason="test", actor="test", limits=quota.Limits(memory_mib=1000),
        selector=quota.Selector("NVIDIA", "NVIDIA B"),
    )  # fmt: skip
    made = bound(world)
    assert uuids(world) == ["GPU-a"]
    assert "ResourceQuotaNotFit" in ask(world, made, "GPU-b")["failureReason"]
    assert held() == {"GPU-a": 3000}


# -- when the API server fails -----------------------------------------------------------------------------------------


def test_after_a_conflict_it_is_tried_again(world: World) -> None:
    made = bound(world)
    _, free = other(world)
    world.api.fault.fail(POD, method="PATCH", status=409)
    assert ask(world, made, free)["succeeded"]
    assert held() == {free: 3000}
    assert clean()


@pytest.mark.parametrize("status, says", [(409, "kept changing"), (422, "cannot be written")])
def test_a_patch_that_is_always_refused_leaves_all_as_it_was(world: World, status: int, says: str) -> None:
    made = bound(world)
    own, free = other(world)
    world.api.fault.fail(POD, method="PATCH", status=status, times=None)
    assert says in ask(world, made, free)["failureReason"]
    assert held() == {own: 3000}
    assert clean()


def test_a_lost_answer_of_a_patch_that_was_written_is_a_success(world: World) -> None:
    made = bound(world)
    _, free = other(world)
    world.api.fault.lose_answer(POD, method="PATCH")
    assert ask(world, made, free) == {"succeeded": True, "containerDevices": f"{free},NVIDIA,3000,0:"}
    assert held() == {free: 3000}
    assert clean()


def test_a_lost_answer_of_a_patch_that_was_not_written_is_a_failure_and_it_never_will_be(world: World) -> None:
    made = bound(world)
    own, free = other(world)
    before = world.get("p")["metadata"]["resourceVersion"]
    world.api.fault.hang_up(POD, method="PATCH")
    assert "not written" in ask(world, made, free)["failureReason"]
    assert world.get("p")["metadata"]["resourceVersion"] != before, "a late patch must fail"
    assert held() == {own: 3000}
    assert clean()


@pytest.mark.parametrize("written", [False, True])
def test_while_nobody_can_ask_both_sides_are_held_and_reconcile_settles_it(world: World, written: bool) -> None:
    made = bound(world)
    own, free = other(world)
    (world.api.fault.lose_answer if written else world.api.fault.hang_up)(POD, method="PATCH", times=1)
    world.api.fault.hang_up(POD, method="PATCH", times=None)
    assert "unknown" in ask(world, made, free)["failureReason"]
    assert held() == {own: 3000, free: 3000}
    assert "different devices" in ask(world, made, free)["failureReason"], "one at a time"
    world.api.fault.lift()
    reconcile.pods_reconcile(cluster_api.cluster_api(), config=device_config())
    assert len(held()) == 2, "it may still be under way"
    _age(made)
    reconcile.pods_reconcile(cluster_api.cluster_api(), config=device_config())
    assert held() == {free if written else own: 3000}
    assert clean()


def _age(made: Obj) -> None:
    with guard.writing():
        one = row(made["metadata"]["uid"])
        one.wire[refits.MARK]["at"] = (ledger.database_time() - timedelta(seconds=11)).isoformat()
        one.save(update_fields=["wire"])


def test_annotations_that_name_neither_side_keep_both_held_with_a_finding(world: World) -> None:
    made = bound(world)
    own, free = other(world)
    world.api.fault.hang_up(POD, method="PATCH", times=None)
    ask(world, made, free)
    world.api.fault.lift()
    text = "GPU-elsewhere,NVIDIA,3000,0:;"
    world.patch("/api/v1/namespaces/nlp/pods/p", {"metadata": {"annotations": {ALLOCATED: text}}})
    _age(made)
    refits.refits_settle(cluster_api.cluster_api(), config=device_config())
    assert held() == {own: 3000, free: 3000}
    assert Finding.objects.get(kind="refit-unsettled").subject == "nlp/p"


def test_an_api_server_that_is_away_is_said_in_band(world: World) -> None:
    made = bound(world)
    own, free = other(world)
    world.api.fault.outage()
    assert "cannot be asked" in ask(world, made, free)["failureReason"]
    world.api.fault.lift()
    assert held() == {own: 3000}


def test_a_plugin_that_hands_the_devices_out_meanwhile_wins(world: World) -> None:
    class Late(refit.Refitter):
        """Writes after the plugin has consumed the row."""

        def _write(self, *args: Any) -> None:
            world.patch("/api/v1/namespaces/nlp/pods/p", {"metadata": {"annotations": {TO_ALLOCATE: ";"}}})
            super()._write(*args)

    made = bound(world)
    own, free = other(world)
    asked = refits.RefitAsk(made["metadata"]["uid"], "nlp", "p", "n1", 0, frozenset({free}))
    answer = Late(cluster_api.cluster_api(), device_config()).refit(asked)
    assert answer.failure_reason == "container 0 has no devices left to allocate"
    assert uuids(world) == [own]
    assert held() == {own: 3000}


def test_a_process_that_slept_does_not_settle_a_later_refit(world: World) -> None:
    four(world)
    made = bound(world)
    (own,) = uuids(world)
    one, two = sorted({"GPU-a", "GPU-b", "GPU-c", "GPU-d"} - {own})[:2]
    plans = []
    for target in (one, two):
        meta = made["metadata"]
        asked = refits.RefitAsk(meta["uid"], "nlp", "p", "n1", 0, frozenset({target}))
        seen_ = seen.from_object(world.get("p"), device_config())
        plan = refits.refit_begin(ask=asked, seen=seen_, config=device_config())
        assert isinstance(plan, refits.RefitPlan)
        plans.append(plan)
        if target == one:  # the tick finds that it was not written
            refits.refit_settle(
                uid=meta["uid"], annotations=world.get("p")["metadata"]["annotations"], config=device_config()
            )
    late = {"uid": made["metadata"]["uid"], "annotations": world.get("p")["metadata"]["annotations"]}
    assert refits.refit_settle(**late, config=device_config(), at=plans[0].at) == ()
    assert held() == {own: 3000, two: 3000}


def test_use_is_charged_to_the_card_that_has_it(world: World) -> None:
    made = bound(world)
    world.compare()
    own, free = other(world)
    assert ask(world, made, free)["succeeded"]
    assert dict(UsageInterval.objects.values_list("uuid", "ended_at"))[own] is not None
    assert UsageInterval.objects.get(ended_at=None).uuid == free


def test_a_pod_that_ends_while_both_sides_are_held_holds_nothing(world: World) -> None:
    made = bound(world)
    _, free = other(world)
    world.api.fault.hang_up(POD, method="PATCH", times=None)
    ask(world, made, free)
    world.api.fault.lift()
    world.delete("p")
    world.compare()
    assert held() == {}
    assert Pod.objects.get().state == "ended"
