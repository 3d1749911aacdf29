"""Which pods the monitor knows of, and what their containers may claim."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import structlog

from deviceplugin import checkpoint, inventory, monitor_pods
from hami_platform.domain import devices
from hami_platform.kube import errors, listwatch, objects
from tests.deviceplugin.builders import GPU_A, GPU_B, NODE, card, pod, row, running, typed
from tests.deviceplugin.cluster import Cluster
from tests.deviceplugin.test_monitor import Bench

MIB = 1 << 20
ALLOCATED = "hami.io/vgpu-devices-allocated"


def followed(*batches: Any) -> list[str] | None:
    """Names of the pods that are known after these batches."""
    here = monitor_pods.PodsHere(NODE, Cluster())
    for batch in batches:
        here._take(batch)
    return None if here._pods is None else sorted(one.metadata.name for one in here._pods.values())


def event(name: str, *, deleted: bool = False) -> listwatch.Changed[objects.Pod]:
    return listwatch.Changed((listwatch.Event(typed(pod(name)), deleted),), "8")


def test_pods_come_and_go_with_the_watch_and_a_new_list_counts_whole() -> None:
    listed = listwatch.Listed((typed(pod("a")), typed(pod("b"))), "7")
    assert followed() is None
    assert followed(listed) == ["a", "b"]
    assert followed(listed, event("c"), event("a", deleted=True), event("b")) == ["b", "c"]
    assert followed(listed, event("c"), listwatch.Listed((), "9")) == []


def test_an_api_server_that_is_away_leaves_what_was_known_and_is_told_once() -> None:
    away = listwatch.Failed(errors.Unreachable("refused"), 1.0)
    with structlog.testing.capture_logs() as logged:
        assert followed(listwatch.Listed((typed(pod("a")),), "7"), away, away, event("b"), away) == ["a", "b"]
    assert [line["event"] for line in logged] == ["pods_not_followed"] * 2


def entitled(rows: str, record: checkpoint.PodRecord | None = None, **changes: Any) -> monitor_pods.Entitlement:
    value = typed(pod(rows=rows, annotations={ALLOCATED: rows}, **changes))
    return monitor_pods.entitlement(value, value.spec.containers[-1], record)


def test_a_container_may_claim_its_pods_cards_with_its_own_limits() -> None:
    found = entitled(row((GPU_A, 1, 0)) + row((GPU_B, 2, 0)), containers=["side", "main"])
    assert found.cards == {GPU_A, GPU_B}
    assert found.limits_bytes == {GPU_B: 2 * MIB}


def test_a_card_that_is_given_twice_has_no_one_limit() -> None:
    assert entitled(row((GPU_A, 1, 0), (GPU_B, 3, 0), (GPU_A, 2, 0))).limits_bytes == {GPU_B: 3 * MIB}


def test_cards_of_other_vendors_are_none_of_its_business() -> None:
    assert entitled(f"{GPU_A},NVIDIA,1,0:MLU-1,MLU,1,0:;").cards == {GPU_A}


def test_rows_that_cannot_be_aligned_give_cards_and_no_limits() -> None:
    found = entitled(row((GPU_A, 1, 0)), containers=["side", "main"])
    assert (found.cards, found.limits_bytes) == ({GPU_A}, {})


@pytest.mark.parametrize("text", ["", "nonsense", "GPU-a,NVIDIA,x,y:;"])
def test_without_a_readable_annotation_the_agents_own_record_counts(text: str) -> None:
    record = checkpoint.PodRecord("nlp", "train", (checkpoint.Given("main", (GPU_B,)),))
    found = entitled(text, record)
    assert (found.cards, found.limits_bytes) == ({GPU_B}, {})


@pytest.mark.parametrize("value, expected", [("0", 0), ("5", 5), ("-1", -1), ("", 1), ("high", 1), (None, 1)])
def test_the_priority_is_what_the_pod_declares(value: str | None, expected: int) -> None:
    env = {} if value is None else {"CUDA_TASK_PRIORITY": value}
    assert entitled(row((GPU_A, 1, 0)), env=env).priority == expected


def test_only_containers_that_run_now_count() -> None:
    states = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1}}}
    assert monitor_pods.running(typed(pod(status={"containerStatuses": [{"name": "main", **states}]}))) == {}
    assert list(monitor_pods.running(typed(pod(status=running())))) == ["main"]


@pytest.mark.parametrize("text", ["", "nonsense", "[{}]"])
def test_unreadable_mig_allocations_are_none(text: str) -> None:
    assert monitor_pods.instances(typed(pod(annotations={monitor_pods.MIG_ALLOCATIONS: text}))) == []


def test_a_mig_instance_belongs_to_the_container_at_its_place() -> None:
    place = {"gpuUUID": GPU_A, "profile": "1g.5gb", "placement": {"start": 1, "size": 1}, "deviceIndex": 0}
    text = json.dumps([place | {"containerIndex": 0}, place | {"containerIndex": 1}, place | {"containerIndex": 9}])
    value = typed(pod(inits=["load"], annotations={monitor_pods.MIG_ALLOCATIONS: text}))
    found = monitor_pods.instances(value)
    assert [name for name, _ in found] == ["load", "main"]
    assert found[0][1].use == devices.MigUse("1g.5gb", devices.MigPlacement(1, 1))


def test_an_instance_without_ids_in_the_annotation_is_found_on_its_card(tmp_path: Path) -> None:
    """In platform mode the agent writes none: the placement says which instance it is."""
    place = {"start": 1, "size": 1}
    use = {"containerIndex": 0, "deviceIndex": 0, "gpuUUID": GPU_A, "profile": "1g.5gb", "placement": place}
    bench = Bench(tmp_path)
    bench.pod(annotations={monitor_pods.MIG_ALLOCATIONS: json.dumps([use])})
    assert bench.look().instances == ()
    instance = inventory.MigInstance("MIG-7", 3, 0)
    made = inventory.Partition(instance, "1g.5gb", devices.MigPlacement(1, 1))
    bench.shown.publish((card(GPU_A, mode=inventory.MIG, partitions=(made,)),))
    (found,) = bench.look().instances
    assert (found.card, found.uuid, found.gpu_instance, found.compute_instance) == (GPU_A, "MIG-7", 3, 0)
