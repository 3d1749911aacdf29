"""HAMi's protocol: rows blanked in the annotation, phase, and node lock."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deviceplugin import by_annotation, checkpoint, grants, handover, inventory, loops, patience, refusals
from hami_platform.kube import calls, errors
from tests.deviceplugin import bench
from tests.deviceplugin.builders import GPU_A, GPU_B, NODE, device_record, inventory_file, node, pod, row
from tests.deviceplugin.cluster import Cluster
from tests.deviceplugin.test_inventory import PROFILE

ROWS = "hami.io/vgpu-devices-to-allocate"
LOCK = "hami.io/mutex.lock"
ONE = row((GPU_A, 3000, 30))


def lock(name: str = "train", namespace: str = "nlp") -> dict[str, Any]:
    return node(annotations={LOCK: f"2026-08-21T08:00:00Z,{namespace},{name}"})


class Bench:
    """An agent in HAMi mode over a cluster in memory."""

    def __init__(self, folder: Path, *values: dict[str, Any], mode: str = "hami-core") -> None:
        self.cluster = Cluster(*values)
        records = [device_record(GPU_A, mode=mode, mig_profiles=[PROFILE]), device_record(GPU_B)]
        cards = inventory.FileInventory(inventory_file(folder, *records))
        self.record = checkpoint.Checkpoint(folder / "agent.json")
        reader = patience.PatientReader(self.cluster, loops.Stop().event, (0.0,))
        place = handover.Place(NODE, "nvidia.com/gpu", reader, self.record, cards)
        self.allocator = bench.allocator(
            by_annotation.AnnotationHandover(place, self.cluster), cards, self.record, folder
        )

    def granted(self, *counts: int) -> tuple[grants.Grant, ...]:
        answer = self.allocator.allocate(bench.ids(counts or (1,)))
        assert not isinstance(answer, refusals.Refusal), answer
        return answer

    def card(self, *counts: int) -> str:
        return self.granted(*counts)[0].envs["NVIDIA_VISIBLE_DEVICES"]

    def refused(self, *counts: int) -> refusals.Refusal:
        answer = self.allocator.allocate(bench.ids(counts or (1,)))
        assert isinstance(answer, refusals.Refusal), answer
        return answer

    def notes(self, name: str = "train") -> dict[str, str]:
        notes: dict[str, str] = self.cluster.pod(name)["metadata"]["annotations"]
        return notes

    @property
    def locked(self) -> bool:
        return LOCK in self.cluster.node(NODE)["metadata"]["annotations"]


def test_the_last_row_is_blanked_with_the_phase_and_the_lock_falls(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod(), lock())
    assert made.card() == GPU_A
    assert (made.notes()[ROWS], made.notes()["hami.io/bind-phase"]) == (";", "success")
    assert not made.locked


def test_the_lock_stays_until_the_last_container(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod(rows=ONE + row((GPU_B, 1, 1)), containers=["one", "two"]), lock())
    assert made.card() == GPU_A
    assert made.notes()[ROWS] == ";" + row((GPU_B, 1, 1))
    assert (made.notes()["hami.io/bind-phase"], made.locked) == ("allocating", True)
    assert made.card() == GPU_B
    assert (made.notes()["hami.io/bind-phase"], made.locked) == ("success", False)


def test_the_pod_is_the_holder_of_the_lock(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod("other", row((GPU_B, 1, 1))), pod(), lock())
    assert made.card() == GPU_A
    assert made.notes("other")["hami.io/bind-phase"] == "allocating"


@pytest.mark.parametrize(
    "holder", [lock("gone"), lock("train", "other"), node(annotations={LOCK: "garbage"}), lock("rain")]
)
def test_h48_a_lock_that_is_not_this_pods_serves_nobody_and_stays(tmp_path: Path, holder: dict[str, Any]) -> None:
    made = Bench(tmp_path, pod(), holder)
    assert made.refused().reason is refusals.Reason.LOCK
    assert made.locked
    assert made.cluster.writes == []


@pytest.mark.parametrize("unlocked", [node(), node(annotations={LOCK: "2026-08-21T08:00:00Z"})])
def test_without_an_owner_the_only_pod_that_waits_is_meant(tmp_path: Path, unlocked: dict[str, Any]) -> None:
    made = Bench(tmp_path, pod(), unlocked)
    assert made.card() == GPU_A
    assert not made.locked


def test_without_an_owner_two_pods_are_ambiguous_and_keep_their_rows(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod("a"), pod("b"), node())
    assert made.refused().reason is refusals.Reason.AMBIGUOUS
    assert made.cluster.writes == []


def test_a_mismatch_marks_the_pod_failed_and_releases_the_lock(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod(), lock())
    assert "device number not matched" in made.refused(2).message
    assert made.notes()["hami.io/bind-phase"] == "failed"
    assert made.notes()[ROWS] == ONE
    assert not made.locked


@pytest.mark.parametrize(
    "changes",
    [{"rows": ";"}, {"metadata": {"annotations": {"hami.io/bind-phase": "allocating"}}}],
)
def test_a_holder_without_a_row_fails_and_the_node_is_free(tmp_path: Path, changes: dict[str, Any]) -> None:
    other = pod("other", row((GPU_B, 1, 1)))
    made = Bench(tmp_path, pod(**changes), other, lock())
    refusal = made.refused()
    assert refusal.message == "pod nlp/train is to be given devices, but none are reserved for it"
    assert (made.notes()["hami.io/bind-phase"], made.locked) == ("failed", False)
    assert made.notes("other") == other["metadata"]["annotations"]


def test_a_holder_that_has_everything_keeps_it_and_its_leftover_lock_goes(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod(rows=";", annotations={"hami.io/bind-phase": "success"}), lock())
    assert made.refused().reason is refusals.Reason.LOCK
    assert (made.notes()["hami.io/bind-phase"], made.locked) == ("success", False)


def test_a_holder_that_is_not_here_is_named_with_where_it_is(tmp_path: Path) -> None:
    away = pod("train")
    away["spec"]["nodeName"] = "n2"
    made = Bench(tmp_path, away, lock())
    assert made.refused().message == "pod nlp/train holds the lock of node n1, but is bound to n2"
    assert made.locked
    made.cluster.remove_pod("train")
    assert made.refused().message.endswith("does not exist")


def test_an_undecodable_row_of_the_holder_fails_it(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod(rows="uuid,type,100:;"), lock())
    assert made.refused().reason is refusals.Reason.UNDECODABLE
    assert (made.notes()["hami.io/bind-phase"], made.locked) == ("failed", False)


def test_rewriting_adds_no_separator_each_time(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod(rows=ONE + ONE + ONE, containers=["a", "b", "c"]), lock())
    for _ in range(3):
        made.card()
    assert made.notes()[ROWS] == ";;;"


def once(action: Callable[[], None]) -> Callable[[calls.KubeCall[Any]], None]:
    left = [action]
    return lambda _call: left.pop()() if left else None


def test_a_pod_that_changed_meanwhile_is_read_again(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod(), lock())

    def touch() -> None:
        value = made.cluster.pod("train")
        value["metadata"]["labels"] = {"team": "nlp"}
        made.cluster.put(value)

    made.cluster.before_write = [once(touch)]
    assert made.card() == GPU_A
    assert made.cluster.pod("train")["metadata"]["labels"] == {"team": "nlp"}
    assert made.notes()["hami.io/bind-phase"] == "success"


def test_a_namesake_is_never_written(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod(), lock())
    made.cluster.before_write = [once(lambda: made.cluster.put(pod(metadata={"uid": "uid-again"})))]
    assert made.refused().reason is refusals.Reason.API
    assert made.notes()["hami.io/bind-phase"] == "allocating"
    assert made.notes()[ROWS] == ONE


def test_rows_that_changed_meanwhile_are_not_blanked(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod(), lock())
    made.cluster.before_write = [once(lambda: made.cluster.put(pod(rows=row((GPU_B, 1, 1)))))]
    assert made.refused().reason is refusals.Reason.API
    assert made.notes()[ROWS] == row((GPU_B, 1, 1))


def test_a_lock_that_changed_hands_is_left_alone(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod(), lock())

    def take_over(call: calls.KubeCall[Any]) -> None:
        if "/nodes/" in call.path:
            made.cluster.before_write = []
            made.cluster.put(lock("next"))

    made.cluster.before_write = [take_over]
    assert made.card() == GPU_A
    assert made.cluster.node(NODE)["metadata"]["annotations"][LOCK].endswith(",nlp,next")


def test_a_lock_that_cannot_be_released_fails_no_pod(tmp_path: Path) -> None:
    made = Bench(tmp_path, pod(), lock())
    forbidden = errors.Unauthorized(403, "Forbidden", "nodes")
    made.cluster.fail = [None, None, None, forbidden]
    assert made.card() == GPU_A
    assert made.notes()["hami.io/bind-phase"] == "success"
    assert made.locked


def test_a_mig_instance_is_written_into_its_reservation(tmp_path: Path) -> None:
    reserved = {
        "containerIndex": 0,
        "deviceIndex": 0,
        "gpuUUID": GPU_A,
        "profile": "1g.5gb",
        "placement": {"start": 6, "size": 1},
    }
    value = pod(annotations={"hami.io/vgpu-mig-allocations": json.dumps([reserved])})
    made = Bench(tmp_path, value, lock(), mode="mig")
    card = made.card()
    assert card.startswith("MIG-")
    (written,) = json.loads(made.notes()["hami.io/vgpu-mig-allocations"])
    assert written == reserved | {"migUUID": card, "gpuInstanceID": 6, "computeInstanceID": 0}
    assert made.record.pods["uid-train"].given[0].mig == ((GPU_A, "1g.5gb", 6, 1),)
