"""What the cards themselves are used for: by the driver's library, and by an inventory file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deviceplugin import inventory
from deviceplugin.monitor_use import CardUse, Measuring
from tests.deviceplugin.builders import GPU_A, GPU_B, card, device_record, inventory_file
from tests.deviceplugin.driver import Driver
from tests.deviceplugin.nvml_stub import Gpu

MIB = 1 << 20


def test_the_drivers_figures_are_shown_by_card(driver: Callable[..., Driver]) -> None:
    """A card in MIG mode tells no utilisation; processes and their memory are the card's."""
    cards = driver(
        Gpu(GPU_A, more=["process 4711 2048 30 10", "utilization 37 12"]), Gpu(GPU_B, more=["mig 1"])
    ).inventory()
    cards.scan()
    assert cards.use() == (
        CardUse(GPU_A, 0, "NVIDIA A100-SXM4-40GB", 2048 * MIB, 37, 12),
        CardUse(GPU_B, 1, "NVIDIA A100-SXM4-40GB", 0),
    )


def test_a_card_that_does_not_answer_leaves_the_others_measured(driver: Callable[..., Driver]) -> None:
    board = driver(Gpu(GPU_A), Gpu(GPU_B))
    cards = board.inventory()
    cards.scan()
    board.say(0, "error * 15")
    assert [one.uuid for one in cards.use()] == [GPU_B]


def test_without_the_driver_there_is_a_reason(driver: Callable[..., Driver]) -> None:
    board = driver(Gpu(GPU_A))
    board.show(head=["error nvmlInit 9"])
    with pytest.raises(inventory.InventoryError, match="NVML"):
        board.inventory().use()


def test_an_inventory_file_may_say_how_its_cards_are_used(tmp_path: Path) -> None:
    path = inventory_file(tmp_path, device_record(GPU_A), device_record(GPU_B, memory_used_mib=7, core_used_percent=3))
    assert inventory.FileInventory(path).use() == (CardUse(GPU_B, 1, "NVIDIA A10", 7 * MIB, 3),)


def test_cards_left_out_are_not_measured_and_not_every_inventory_can(tmp_path: Path) -> None:
    path = inventory_file(tmp_path, *(device_record(one, core_used_percent=3) for one in (GPU_A, GPU_B)))
    without = inventory.Without(inventory.FileInventory(path), frozenset([0]))
    assert [one.uuid for one in without.use()] == [GPU_B]

    class Blind:
        def scan(self) -> tuple[inventory.Card, ...]:
            return (card(),)

    assert not isinstance(Blind(), Measuring)
