"""Dynamic MIG over the stub driver: cards are cut, instances of nobody go, and a crash leaves nothing behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deviceplugin import by_checkpoint, checkpoint, inventory, mig_made, mig_owner
from hami_platform.domain import devices
from tests.deviceplugin import nvml_stub
from tests.deviceplugin.builders import GPU_A, GPU_B, pod, row, typed
from tests.deviceplugin.driver import Driver
from tests.deviceplugin.nvml_stub import Gpu

OFF = tuple(nvml_stub.A100_40GB)
ON = ("mig 1", *OFF)
USE = devices.MigUse("1g.5gb", devices.MigPlacement(3, 1))
OTHER = devices.MigUse("3g.20gb", devices.MigPlacement(4, 4))
Drivers = Callable[..., Driver]


class Node:
    """One card, the record, and an owner of it."""

    def __init__(self, folder: Path, driver: Driver) -> None:
        self.driver = driver
        self.record = checkpoint.Checkpoint(folder / "agent.json")
        self.cards = mig_made.Recorded(mig_owner.Owned(driver.inventory()), self.record)
        self.owner = mig_owner.Owner(self.cards, self.record)

    def clear(self, *pods: dict[str, Any]) -> None:
        self.owner.clear([typed(one) for one in pods])

    @property
    def card(self) -> inventory.Card:
        return self.cards.scan()[0]

    @property
    def profiles(self) -> list[str]:
        return [one.profile for one in self.card.partitions]


@pytest.fixture
def node(tmp_path: Path, driver: Drivers) -> Callable[..., Node]:
    return lambda *more: Node(tmp_path, driver(Gpu(GPU_A, more=more)))


def reserving(*uses: devices.MigUse, **changes: Any) -> dict[str, Any]:
    reserved = [
        {
            "containerIndex": 0,
            "deviceIndex": number,
            "gpuUUID": GPU_A,
            "profile": use.profile,
            "placement": {"start": use.placement.start, "size": use.placement.size},
        }
        for number, use in enumerate(uses)
    ]
    return pod(annotations={"hami.io/vgpu-mig-allocations": json.dumps(reserved)}, **changes)


def test_an_idle_card_is_cut_and_until_then_nothing_may_be_placed_on_it(node: Callable[..., Node]) -> None:
    made = node(*OFF)
    assert (made.card.healthy, made.card.ailment) == (False, mig_owner.NOT_CUT)
    made.clear()
    assert (made.card.healthy, made.card.mode) == (True, inventory.MIG)


@pytest.mark.parametrize(
    "key, more, cut",
    [
        ("hami.io/vgpu-devices-allocated", (), False),
        ("hami.io/vgpu-devices-to-allocate", (), False),
        ("nothing", (), True),
        ("nothing", ("process 7 100",), False),
    ],
)
def test_a_card_that_a_pod_or_a_process_uses_is_not_cut(
    node: Callable[..., Node], key: str, more: tuple[str, ...], cut: bool
) -> None:
    made = node(*OFF, *more)
    made.clear(pod(rows=row((GPU_B, 1, 1)), annotations={key: row((GPU_A, 1, 1))}))
    assert (made.card.mode == inventory.MIG) is cut


def test_a_card_that_cannot_be_cut_at_all_is_left_as_it_is(node: Callable[..., Node]) -> None:
    made = node()
    made.clear()
    assert made.card.ailment == mig_owner.NOT_CUT


def test_instances_of_nobody_go_and_those_of_living_pods_stay(node: Callable[..., Node]) -> None:
    made = node(*ON)
    for use in (USE, OTHER):
        made.cards.realise(GPU_A, use)
    made.clear(reserving(USE))
    assert made.profiles == ["1g.5gb"]
    made.clear(reserving(USE, status={"phase": "Succeeded"}))
    assert made.profiles == []


def test_an_instance_that_resists_does_not_keep_the_others(node: Callable[..., Node]) -> None:
    made = node(*ON, "process 7 100 0 0 1 0")
    for use in (USE, OTHER):
        made.cards.realise(GPU_A, use)
    made.clear()
    assert made.profiles == ["1g.5gb"]


def test_reservations_that_cannot_be_read_keep_everything(node: Callable[..., Node]) -> None:
    made = node(*ON)
    made.cards.realise(GPU_A, USE)
    made.clear(pod(annotations={"hami.io/vgpu-mig-allocations": "{"}))
    assert made.profiles == ["1g.5gb"]


def test_what_the_record_says_a_pod_was_given_stays(node: Callable[..., Node]) -> None:
    made = node(*ON)
    made.cards.realise(GPU_A, USE)
    made.record.add("uid-train", "nlp", "train", [checkpoint.Given("main", (GPU_A,), (mig_made.placed(GPU_A, USE),))])
    made.clear(pod())
    assert made.profiles == ["1g.5gb"]


# --- what a crash leaves ----------------------------------------------------------------------


def test_an_instance_that_was_begun_and_never_given_is_destroyed_after_a_crash(
    node: Callable[..., Node], tmp_path: Path
) -> None:
    made = node(*ON)
    made.cards.realise(GPU_A, USE)  # and then the agent is killed
    again = Node(tmp_path, made.driver)
    assert again.record.begun == {mig_made.placed(GPU_A, USE)}
    by_checkpoint.sweep(again.record, again.cards, [])
    assert (again.profiles, again.record.begun) == ([], frozenset())


def test_half_an_instance_is_destroyed_too(node: Callable[..., Node], tmp_path: Path) -> None:
    made = node(*ON, "error nvmlGpuInstanceCreateComputeInstance 999")
    with pytest.raises(inventory.InventoryError):
        made.cards.realise(GPU_A, USE)
    made.driver.say(0, *ON)
    state = made.driver.scenario.with_name("scenario.mig")
    assert "instance" in state.read_text()
    by_checkpoint.sweep(made.record, made.cards, [])
    assert "instance" not in state.read_text()


def test_an_instance_that_somebody_else_made_is_used_and_never_destroyed(
    node: Callable[..., Node], tmp_path: Path
) -> None:
    made = node(*ON)
    there = made.driver.inventory().realise(GPU_A, USE)
    assert made.cards.realise(GPU_A, USE) == there
    by_checkpoint.sweep(made.record, made.cards, [])
    assert made.profiles == ["1g.5gb"]


def test_an_instance_that_was_given_is_no_longer_begun(node: Callable[..., Node]) -> None:
    made = node(*ON)
    made.cards.realise(GPU_A, USE)
    made.record.add("uid-train", "nlp", "train", [checkpoint.Given("main", (GPU_A,), (mig_made.placed(GPU_A, USE),))])
    by_checkpoint.sweep(made.record, made.cards, [typed(pod())])
    assert (made.profiles, made.record.begun) == (["1g.5gb"], frozenset())


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_ended_gives_back_its_instance_though_it_still_exists(node: Callable[..., Node], phase: str) -> None:
    made = node(*ON)
    made.cards.realise(GPU_A, USE)
    made.record.add("uid-train", "nlp", "train", [checkpoint.Given("main", (GPU_A,), (mig_made.placed(GPU_A, USE),))])
    by_checkpoint.sweep(made.record, made.cards, [typed(pod(status={"phase": phase}))])
    assert (made.profiles, made.record.pods) == ([], {})
