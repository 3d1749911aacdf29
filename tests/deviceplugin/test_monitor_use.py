"""What the cards themselves are used for: by the driver's library, and by an inventory file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deviceplugin import inventory
from deviceplugin.monitor_use import CardUse, Condition, Measuring
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


def test_the_driver_tells_how_a_card_is(driver: Callable[..., Driver]) -> None:
    """An idle card's clocks (bit 0x1) are nobody's loss; the last XID counts, harmful or not."""
    said = ["temperature 71 90 95", "power_mw 301499 400000", "slowed 0x65"]
    board = driver(Gpu(GPU_A, more=said), Gpu(GPU_B))
    cards = board.inventory()
    cards.scan()
    board.xid(0, 31)
    cards.scan()
    told, untold = (one.condition for one in cards.use())
    assert told == Condition(71, 90, 301, 400, ("power_cap", "heat_software", "heat_hardware"), 31, 0)
    assert untold == Condition()


def test_a_card_tells_that_nothing_slows_it_and_what_ails_it(driver: Callable[..., Driver]) -> None:
    board = driver(Gpu(GPU_A, more=["slowed 0x1"]))
    cards = board.inventory()
    cards.scan()
    board.xid(0, 79)
    cards.scan()
    (one,) = cards.use()
    assert one.condition == Condition(slowed=(), xid=79, xid_age_s=0, ailment="XID 79")


def test_a_card_that_fell_silent_tells_why_and_nothing_else(driver: Callable[..., Driver]) -> None:
    board = driver(Gpu(GPU_A, more=["temperature 71 90 95"]))
    cards = board.inventory()
    cards.scan()
    board.say(0, "error * 15")
    cards.scan()
    (one,) = cards.use()
    assert (one.memory_used_bytes, one.core_percent) == (None, None)
    assert one.condition == Condition(ailment="it does not answer")


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


def test_an_inventory_file_may_say_how_its_cards_are(tmp_path: Path) -> None:
    reading = {"temperature_c": 64, "temperature_limit_c": 87, "power_w": 250, "power_limit_w": 300, "slowed": []}
    sick = device_record(GPU_A, health="unhealthy", ailment="XID 79", reading=reading | {"xid": 79})
    (one,) = inventory.FileInventory(inventory_file(tmp_path, sick)).use()
    assert one.condition == Condition(64, 87, 250, 300, (), 79, 0, "XID 79")


def test_cards_left_out_are_not_measured_and_not_every_inventory_can(tmp_path: Path) -> None:
    path = inventory_file(tmp_path, *(device_record(one, core_used_percent=3) for one in (GPU_A, GPU_B)))
    without = inventory.Without(inventory.FileInventory(path), frozenset([0]))
    assert [one.uuid for one in without.use()] == [GPU_B]

    class Blind:
        def scan(self) -> tuple[inventory.Card, ...]:
            return (card(),)

    assert not isinstance(Blind(), Measuring)
