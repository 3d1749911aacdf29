"""The inventory that stands for hardware."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deviceplugin import inventory
from hami_platform.domain import devices
from tests.deviceplugin.builders import GPU_A, GPU_B, device_record, inventory_file

PROFILE = {
    "name": "1g.5gb",
    "memory_mib": 4864,
    "core_percent": 15,
    "slices": 1,
    "instances": 7,
    "placements": [{"start": 5, "size": 1}, {"start": 6, "size": 1}],
}
USE = devices.MigUse("1g.5gb", devices.MigPlacement(6, 1))


def inventory_of(folder: Path, *records: dict[str, Any]) -> inventory.FileInventory:
    return inventory.FileInventory(inventory_file(folder, *records))


def test_index_is_the_position_unless_it_is_said(tmp_path: Path) -> None:
    cards = inventory_of(tmp_path, device_record(GPU_B), device_record(GPU_A)).scan()
    assert [(card.uuid, card.index) for card in cards] == [(GPU_B, 0), (GPU_A, 1)]


def test_editing_the_file_breaks_and_mends_a_card(tmp_path: Path) -> None:
    found = inventory_of(tmp_path, device_record(health="unhealthy"))
    assert [card.healthy for card in found.scan()] == [False]
    inventory_file(tmp_path, device_record())
    assert [card.healthy for card in found.scan()] == [True]


@pytest.mark.parametrize(
    "record, message",
    [
        ({"memory_mib": "many"}, r"memory_mib"),
        ({"memory_mib": 0}, r"devices\[0\]\.memory_mib: must be positive"),
        ({"memory": 1}, r"unknown field `memory`"),
        ({"health": "fine"}, r"health"),
        ({"mode": "mps"}, r"mode"),
        ({"uuid": "GPU:1"}, r"devices\[0\]\.uuid"),
    ],
)
def test_a_bad_file_names_the_field(tmp_path: Path, record: dict[str, Any], message: str) -> None:
    with pytest.raises(inventory.InventoryError, match=message):
        inventory_of(
            tmp_path, device_record(**record) if "uuid" not in record else {**device_record(), **record}
        ).scan()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(inventory.InventoryError, match=r"none\.json"):
        inventory.FileInventory(tmp_path / "none.json").scan()


def test_two_cards_of_one_uuid_are_refused(tmp_path: Path) -> None:
    with pytest.raises(inventory.InventoryError, match=f"two devices have uuid {GPU_A}"):
        inventory_of(tmp_path, device_record(), device_record()).scan()


def test_a_listed_mig_instance_is_used_as_it_is(tmp_path: Path) -> None:
    known = {"uuid": "MIG-7", "profile": "1g.5gb", "start": 6, "size": 1, "gpu_instance_id": 13}
    found = inventory_of(tmp_path, device_record(mode="mig", mig_profiles=[PROFILE], mig_devices=[known]))
    assert found.realise(GPU_A, USE) == inventory.MigInstance("MIG-7", 13, 0)


def test_a_made_up_mig_instance_is_the_same_after_a_restart(tmp_path: Path) -> None:
    record = device_record(mode="mig", mig_profiles=[PROFILE])
    first, second = (
        inventory_of(tmp_path, record).realise(GPU_A, USE),
        inventory_of(tmp_path, record).realise(GPU_A, USE),
    )
    assert first == second
    assert first.uuid.startswith("MIG-")


@pytest.mark.parametrize("profile, start", [("1g.5gb", 0), ("2g.10gb", 6)])
def test_no_other_placement_is_taken_instead(tmp_path: Path, profile: str, start: int) -> None:
    found = inventory_of(tmp_path, device_record(mode="mig", mig_profiles=[PROFILE]))
    with pytest.raises(inventory.InventoryError, match=f"no MIG placement {profile} at {start}"):
        found.realise(GPU_A, devices.MigUse(profile, devices.MigPlacement(start, 1)))


def test_the_example_of_the_documentation_is_valid(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "agent.md").read_text()
    example = page.split("```json\n", 1)[1].split("```", 1)[0]
    path = tmp_path / "inventory.json"
    path.write_text(json.dumps(json.loads(example)))
    assert {card.mode for card in inventory.FileInventory(path).scan()} == {"hami-core", "mig"}
