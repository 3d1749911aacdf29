"""What the demonstration's driver tells: it follows from the work on a card, and the agent understands it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deviceplugin import inventory
from hami_platform.demo import driver, fleet
from hami_platform.demo.driver import Work

NODE = fleet.BY_NAME["gpu-h100-1"]


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    for node in fleet.NODES:
        home = tmp_path / node.name
        home.mkdir()
        (home / "inventory.json").write_text(json.dumps(node.inventory()))
    return tmp_path


def content(nodes: Path, node: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((nodes / node / "inventory.json").read_text())["devices"]
    return found


def test_a_busy_card_is_warmer_and_thirstier_than_an_idle_one() -> None:
    idle, busy = (driver.told(NODE, 0, Work(part)) for part in (0.0, 1.0))
    assert (idle["core_used_percent"], busy["core_used_percent"]) == (0, 100)
    assert (idle["reading"]["temperature_c"], busy["reading"]["temperature_c"]) == (33, 78)
    assert (idle["reading"]["power_w"], busy["reading"]["power_w"]) == (105, 700)
    assert (idle["reading"]["slowed"], busy["reading"]["slowed"]) == ([], ["power_cap"])


def test_a_card_with_a_broken_fan_is_slowed_down_by_heat() -> None:
    name, index = driver.FAN_BROKEN
    for busy in (0.0, 0.5):
        assert driver.told(fleet.BY_NAME[name], index, Work(busy))["reading"]["slowed"] == ["heat_software"]


def test_the_agent_reads_what_is_written(nodes: Path) -> None:
    driver.write(nodes, {NODE.uuid(1): Work(0.5, 9000)})
    used = {one.uuid: one for one in inventory.FileInventory(nodes / NODE.name / "inventory.json").use()}
    one = used[NODE.uuid(1)]
    assert (one.core_percent, one.memory_used_bytes) == (50, (9000 + driver.DRIVER_MIB) << 20)
    assert one.condition.power_limit_w == 700
    mig = inventory.FileInventory(nodes / fleet.MIG_NODE / "inventory.json").use()
    assert {card.core_percent for card in mig} == {None}


def test_a_card_that_fell_off_the_bus_tells_nothing_but_why(nodes: Path) -> None:
    driver.write(nodes, {})
    name, index = fleet.UNHEALTHY
    (one,) = [card for card in inventory.FileInventory(nodes / name / "inventory.json").use() if card.index == index]
    assert (one.core_percent, one.condition.temperature_c) == (None, None)
    assert (one.condition.xid, one.condition.ailment) == (79, "XID 79")


def test_what_a_person_edited_stays(nodes: Path) -> None:
    path = nodes / NODE.name / "inventory.json"
    cards = content(nodes, NODE.name)
    cards[0]["health"] = "unhealthy"
    path.write_text(json.dumps({"devices": cards}))
    driver.write(nodes, {})
    driver.write(nodes, {})
    assert content(nodes, NODE.name)[0]["health"] == "unhealthy"
