"""Cards by NVML: what is read, and what becomes of errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from deviceplugin import inventory, nvml, xids
from hami_platform.domain import devices
from tests.deviceplugin.fake_nvml import FakeCard, FakeNvml

USE = devices.MigUse("1g.5gb", devices.MigPlacement(3, 1))


def reading(*cards: FakeCard, sysfs: Path = Path("/none"), memory_mib: int = 0) -> tuple[nvml.NvmlInventory, FakeNvml]:
    library = FakeNvml(*cards)
    return nvml.NvmlInventory(library=library, sysfs=sysfs, memory_mib=memory_mib), library


def test_a_card_as_the_driver_shows_it(tmp_path: Path) -> None:
    (tmp_path / "0000:3b:00.0").mkdir()
    (tmp_path / "0000:3b:00.0" / "numa_node").write_text("1\n")
    found, _ = reading(FakeCard("GPU-a"), sysfs=tmp_path)
    assert found.scan() == (inventory.Card("GPU-a", index=0, model="NVIDIA A100-SXM4-40GB", memory_mib=40960, numa=1),)


@pytest.mark.parametrize("content", ["-1\n", "", None])
def test_numa_is_unknown_where_the_kernel_does_not_say(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "0000:3b:00.0").mkdir()
        (tmp_path / "0000:3b:00.0" / "numa_node").write_text(content)
    (card,) = reading(FakeCard("GPU-a"), sysfs=tmp_path)[0].scan()
    assert card.numa is None


def test_without_a_driver_the_error_says_so_and_a_later_scan_finds_it() -> None:
    found, library = reading(FakeCard("GPU-a"))
    library.running = False
    with pytest.raises(inventory.InventoryError, match="NVML"):
        found.scan()
    library.running = True
    assert len(found.scan()) == 1


def test_a_card_that_falls_off_the_bus_is_unhealthy_and_not_gone() -> None:
    card = FakeCard("GPU-a")
    found, _ = reading(card, FakeCard("GPU-b"))
    found.scan()
    card.lost = True
    assert [(one.uuid, one.healthy) for one in found.scan()] == [("GPU-a", False), ("GPU-b", True)]
    card.lost = False
    assert all(one.healthy for one in found.scan())


def test_a_harmful_xid_makes_its_card_unhealthy_and_an_application_fault_does_not() -> None:
    found, library = reading(FakeCard("GPU-a"), FakeCard("GPU-b"))
    library.events = [(library.cards[0], 31), (library.cards[1], 79)]
    assert [card.healthy for card in found.scan()] == [True, False]
    assert [card.healthy for card in found.scan()] == [True, False]


@pytest.mark.parametrize("configured, count", [(0, 0), (24576, 1)])
def test_memory_that_the_driver_does_not_tell(configured: int, count: int) -> None:
    found, _ = reading(FakeCard("GPU-a", tells_memory=False), memory_mib=configured)
    assert [card.memory_mib for card in found.scan()] == [configured] * count


def test_a_card_in_mig_mode_offers_the_drivers_profiles() -> None:
    (card,) = reading(FakeCard("GPU-a", mig=True))[0].scan()
    assert card.mode == inventory.MIG
    found = {one.profile.name: (one.profile.core_percent, one.instances) for one in card.profiles}
    assert found == {"1g.5gb": (15, 7), "3g.20gb": (43, 2), "7g.40gb": (100, 1)}
    assert card.profiles[1].profile.placements == (devices.MigPlacement(0, 4), devices.MigPlacement(4, 4))


def test_an_instance_is_made_at_its_placement_and_found_again() -> None:
    found, library = reading(FakeCard("GPU-a", mig=True))
    made = found.realise("GPU-a", USE)
    assert library.cards[0].instances == {5: (1, 3, 1)}
    assert made == inventory.MigInstance("MIG-5-0", 5, 0)
    assert found.realise("GPU-a", USE) == made
    assert len(library.cards[0].instances) == 1


def test_an_instance_is_destroyed_unless_it_is_in_use() -> None:
    found, library = reading(FakeCard("GPU-a", mig=True))
    found.realise("GPU-a", USE)
    library.cards[0].busy = True
    with pytest.raises(inventory.InventoryError, match=r"GPU-a, 1g\.5gb"):
        found.dissolve("GPU-a", USE)
    library.cards[0].busy = False
    found.dissolve("GPU-a", USE)
    found.dissolve("GPU-a", USE)
    assert library.cards[0].instances == {}


def test_a_profile_the_card_does_not_offer_is_an_error() -> None:
    found, _ = reading(FakeCard("GPU-a", mig=True))
    with pytest.raises(inventory.InventoryError, match=r"no MIG profile 2g\.10gb"):
        found.realise("GPU-a", devices.MigUse("2g.10gb", devices.MigPlacement(0, 2)))


@pytest.mark.parametrize(
    "disable, enable, xid, harms",
    [
        ("", "", 79, True),
        *[("", "", xid, False) for xid in (13, 31, 43, 45, 68, 109)],
        ("79", "", 79, False),
        ("79, 48", "", 48, False),
        ("", "31", 31, True),
        ("31", "31", 31, True),
        ("", "all", 13, True),
        ("all", "", 79, False),
        ("XIDs", "", 79, False),
        ("all", "79", 79, True),
        ("all", "79", 48, False),
        ("nonsense,79x", "", 79, True),
    ],
)
def test_which_xids_harm(disable: str, enable: str, xid: int, harms: bool) -> None:
    assert xids.policy(disable, enable).harms(xid) is harms
