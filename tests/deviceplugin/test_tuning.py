"""HAMi's configuration files over our settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deviceplugin import inventory, tuning
from hami_platform.domain.errors import ConfigError
from tests.deviceplugin.builders import GPU_A, GPU_B, device_record, inventory_file

DEVICE_CONFIG = """
nvidia:
  resourceCountName: nvidia.com/vgpu
  deviceSplitCount: 20
  deviceMemoryScaling: 1.5
  deviceCoreScaling: 2
  libCudaLogLevel: 3
  disableCoreLimit: true
cambricon:
  resourceCountName: cambricon.com/vmlu
"""


def node_config(*entries: dict[str, object]) -> str:
    return json.dumps({"nodeconfig": list(entries)})


def test_what_the_file_does_not_say_stays() -> None:
    found = tuning.with_device_config(tuning.Tuning(numa=True), DEVICE_CONFIG)
    assert found == tuning.Tuning(
        resource="nvidia.com/vgpu",
        slots=20,
        memory_scaling=1.5,
        core_scaling=2.0,
        log_level="3",
        numa=True,
        disable_core_limit=True,
    )


@pytest.mark.parametrize("text", ["", "nvidia:", "cambricon: {}"])
def test_a_file_without_the_section_changes_nothing(text: str) -> None:
    assert tuning.with_device_config(tuning.Tuning(), text) == tuning.Tuning()


@pytest.mark.parametrize(
    "text, message",
    [
        ("nvidia: {deviceSplitCount: many}", "nvidia.deviceSplitCount: 'many' is not a whole number"),
        ("nvidia: {deviceSplitCount: 0}", "nvidia.deviceSplitCount: 0 must be at least 1"),
        ("nvidia: {deviceMemoryScaling: 0}", "nvidia.deviceMemoryScaling: 0 is not a number above 0"),
        ("nvidia: {disableCoreLimit: 'no'}", "nvidia.disableCoreLimit: 'no' is not true or false"),
        ("nvidia: {migProfileAllowlist: [a]}", "nvidia.migProfileAllowlist: ['a'] is not a list of objects"),
        (
            "nvidia: {migProfileAllowlist: [{models: [A30], profiles: [small]}]}",
            "has the profile 'small', which is not <slices>g.<memory>",
        ),
        ("nvidia: [1]", "nvidia: is not a section"),
        ("a: b: c", "not YAML"),
    ],
)
def test_a_bad_value_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        tuning.with_device_config(tuning.Tuning(), text)
    assert message in str(caught.value)


def test_only_entries_of_this_node_count_and_the_later_wins() -> None:
    text = node_config(
        {"name": "n1", "devicesplitcount": 4, "devicememoryscaling": 2},
        {"name": "n2", "devicesplitcount": 5},
        {"name": "n1", "deviceSplitCount": 6, "enablegetpreferredallocation": True},
    )
    found = tuning.with_node_config(tuning.Tuning(), text, "n1")
    assert (found.slots, found.memory_scaling, found.prefer) == (6, 2.0, True)
    assert tuning.with_node_config(tuning.Tuning(), text, "n9") == tuning.Tuning()


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"nodeconfig": [1]}', '{"nodeconfig": [{"name": "n1", "filterdevices": []}]}']
)
def test_an_unusable_node_configuration_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="nodeconfig"):
        tuning.with_node_config(tuning.Tuning(), text, "n1")


def test_filtered_cards_are_left_alone_by_uuid_and_index(tmp_path: Path) -> None:
    entry = {"name": "n1", "filterdevices": {"uuid": [GPU_B], "index": [2, "x"]}}
    found = tuning.with_node_config(tuning.Tuning(), node_config(entry), "n1")  # type: ignore[arg-type]
    records = [device_record(GPU_A), device_record(GPU_B), device_record("GPU-c")]
    cards = inventory.Without(inventory.FileInventory(inventory_file(tmp_path, *records)), found.left_out)
    assert [card.uuid for card in cards.scan()] == [GPU_A]


def test_the_allowed_mig_profiles_go_by_model_and_slices() -> None:
    text = "nvidia: {migProfileAllowlist: [{models: [A30], profiles: [1g.6gb, 4g.24gb]}]}"
    found = tuning.with_device_config(tuning.Tuning(), text).profiles
    assert (found.of("NVIDIA A30"), found.of("NVIDIA A10")) == (frozenset((1, 4)), frozenset())
    assert tuning.Tuning().profiles.of("NVIDIA A10") is None


@pytest.mark.parametrize("mode, owns", [("mig", True), ("hami-core", False), ("", False)])
def test_the_operating_mode_says_whether_the_cards_are_cut(mode: str, owns: bool) -> None:
    text = node_config({"name": "n1", "operatingmode": mode})
    assert tuning.with_node_config(tuning.Tuning(), text, "n1").owns_mig is owns


def test_an_operating_mode_that_does_not_exist_is_named() -> None:
    with pytest.raises(ConfigError, match=r"nodeconfig\[0\]\.operatingmode: 'mps'"):
        tuning.with_node_config(tuning.Tuning(), node_config({"name": "n1", "operatingmode": "mps"}), "n1")
