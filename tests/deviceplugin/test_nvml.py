"""Cards by NVML, over the real bindings and the stub driver: what is read, and what becomes of errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deviceplugin import inventory, mig_profiles, nvml, xids
from hami_platform.domain import devices
from tests.deviceplugin import nvml_stub
from tests.deviceplugin.builders import GPU_A, GPU_B
from tests.deviceplugin.driver import Driver, healths, scans
from tests.deviceplugin.nvml_stub import Gpu

USE = devices.MigUse("1g.5gb", devices.MigPlacement(3, 1))
MIG = ("mig 1", *nvml_stub.A100_40GB)
Drivers = Callable[..., Driver]


def kernel_file(sysfs: Path, content: str, name: str = "0000:3b:00.0") -> None:
    (sysfs / name).mkdir()
    (sysfs / name / "numa_node").write_text(content)


def test_a_card_as_the_driver_shows_it(driver: Drivers, tmp_path: Path) -> None:
    kernel_file(tmp_path, "1\n")
    (card,) = driver(Gpu("GPU-a", bus="00000000:3B:00.0", minor=4)).inventory(sysfs=tmp_path).scan()
    assert card == inventory.Card("GPU-a", 0, "NVIDIA A100-SXM4-40GB", 40960, numa=1, minor=4)


@pytest.mark.parametrize("content, numa", [("-1\n", None), ("", None), (None, 2)])
def test_numa_is_the_kernels_word_and_without_it_the_drivers(
    driver: Drivers, tmp_path: Path, content: str | None, numa: int | None
) -> None:
    if content is not None:
        kernel_file(tmp_path, content)
    (card,) = driver(Gpu("GPU-a", bus="00000000:3B:00.0", more=["numa 2"])).inventory(sysfs=tmp_path).scan()
    assert card.numa == numa


def test_without_a_driver_the_error_says_so_and_a_later_scan_finds_it(driver: Drivers) -> None:
    cards = nvml.NvmlInventory()
    with pytest.raises(inventory.InventoryError, match="NVML"):
        cards.scan()
    driver(Gpu("GPU-a"))
    assert len(cards.scan()) == 1


def test_a_card_that_falls_off_the_bus_is_unhealthy_and_healthy_when_it_returns(driver: Drivers) -> None:
    made = driver(Gpu("GPU-a"), Gpu("GPU-b"))
    cards = made.inventory()
    cards.scan()
    made.say(0, "error * 15")
    assert [(card.uuid, card.healthy) for card in cards.scan()] == [("GPU-a", False), ("GPU-b", True)]
    assert cards.scan()[0].ailment == nvml.AILMENT_SILENT
    made.say(0)
    assert healths(cards) == [True, True]


def test_a_card_that_the_driver_no_longer_counts_keeps_its_index(driver: Drivers) -> None:
    made = driver(Gpu("GPU-a"), Gpu("GPU-b"))
    cards = made.inventory()
    cards.scan()
    made.take_out(0)
    seen = scans(cards, 2 * nvml.SILENT_SCANS)
    assert [(card.uuid, card.index, card.healthy) for card in seen] == [("GPU-a", 0, False), ("GPU-b", 1, True)]


def test_while_a_card_is_gone_no_runtime_is_told_an_index(driver: Drivers) -> None:
    made = driver(Gpu("GPU-a"), Gpu("GPU-b"), Gpu("GPU-c"))
    cards = made.inventory()
    assert [card.label for card in cards.scan()] == ["0", "1", "2"]
    made.take_out(0)
    assert [card.label for card in cards.scan()] == ["", "", ""]
    assert [card.index for card in cards.scan()] == [0, 1, 2]


def test_one_card_that_fails_does_not_hide_the_others(driver: Drivers) -> None:
    made = driver(Gpu("GPU-a"), Gpu("GPU-b", more=["error nvmlDeviceGetName 999"]))
    cards = made.inventory()
    assert [card.uuid for card in cards.scan()] == ["GPU-a"]
    made.say(1)
    assert [card.uuid for card in cards.scan()] == ["GPU-a", "GPU-b"]


def test_a_harmful_xid_makes_its_card_unhealthy_and_an_application_fault_does_not(driver: Drivers) -> None:
    made = driver(Gpu("GPU-a"), Gpu("GPU-b"))
    cards = made.inventory()
    cards.scan()
    made.xid(0, 31)
    made.xid(1, 79)
    assert healths(cards) == [True, False]
    assert cards.scan()[1].ailment == "XID 79"


def test_an_xid_is_over_once_the_driver_has_wanted_nothing_for_a_while(driver: Drivers) -> None:
    made = driver(Gpu("GPU-a"))
    cards = made.inventory()
    cards.scan()
    made.xid(0, 48)
    made.say(0, "recovery 1")
    assert not scans(cards, 20)[0].healthy
    made.say(0, "recovery 0")
    assert not scans(cards, 11)[0].healthy
    assert healths(cards) == [True]


def test_a_driver_that_does_not_say_what_it_wants_ends_no_xid_but_a_reset_does(driver: Drivers) -> None:
    made = driver(Gpu("GPU-a", more=["error recovery 3"]))
    cards = made.inventory()
    cards.scan()
    made.xid(0, 48)
    assert not scans(cards, 30)[0].healthy
    made.say(0, "error * 15")
    cards.scan()
    made.say(0, "error recovery 3")
    assert healths(cards) == [True]


def test_a_reset_that_the_driver_wants_counts_without_any_xid(driver: Drivers) -> None:
    made = driver(Gpu("GPU-a", more=["recovery 2"]))
    cards = made.inventory()
    assert cards.scan()[0].ailment == "the driver wants a reset"
    made.say(0, "recovery 0")
    assert healths(cards) == [True]


def test_uncorrected_memory_errors_count_when_they_come_and_end_with_a_reset(driver: Drivers) -> None:
    made = driver(Gpu("GPU-a", more=["ecc 1 0 2"]))
    cards = made.inventory()
    assert healths(cards) == [True]
    made.say(0, "ecc 1 900 3")
    assert cards.scan()[0].ailment == "uncorrected memory errors"
    made.say(0, "ecc 1 0 0")
    assert healths(cards) == [True]


def test_heat_counts_when_it_lasts_and_is_over_some_degrees_below_the_limit(driver: Drivers) -> None:
    made = driver(Gpu("GPU-a", more=["temperature 90 90 95"]))
    cards = made.inventory()
    assert [healths(cards) for _ in range(3)] == [[True], [True], [False]]
    made.say(0, "temperature 86 90 95")
    assert cards.scan()[0].ailment == "too hot"
    made.say(0, "temperature 84 90 95")
    assert healths(cards) == [True]


def test_a_configured_limit_stands_in_for_the_cards_own(driver: Drivers) -> None:
    made = driver(Gpu("GPU-a", more=["temperature 80 90 95"]))
    assert not scans(made.inventory(limit_c=80), 3)[0].healthy
    assert scans(made.inventory(), 3)[0].healthy


@pytest.mark.parametrize("code, healthy", [(3, True), (999, False)])
def test_a_card_whose_xids_cannot_be_heard_is_unhealthy_unless_it_has_none(
    driver: Drivers, code: int, healthy: bool
) -> None:
    made = driver(Gpu("GPU-a", more=[f"error nvmlDeviceRegisterEvents {code}"]), Gpu("GPU-b"))
    assert healths(made.inventory()) == [healthy, True]


def test_a_lost_card_in_the_event_queue_does_not_hide_the_others(driver: Drivers) -> None:
    made = driver(Gpu("GPU-a"), Gpu("GPU-b"))
    cards = made.inventory()
    made.show(head=["error nvmlEventSetWait_v2 15"])
    assert healths(cards) == [True, True]


@pytest.mark.parametrize("configured, count", [(0, 0), (24576, 1)])
def test_memory_that_the_driver_does_not_tell(driver: Drivers, configured: int, count: int) -> None:
    made = driver(Gpu("GPU-a", more=["error nvmlDeviceGetMemoryInfo 3"]))
    assert [card.memory_mib for card in made.inventory(memory_mib=configured).scan()] == [configured] * count


def test_a_card_in_mig_mode_offers_the_drivers_profiles(driver: Drivers) -> None:
    (card,) = driver(Gpu("GPU-a", more=MIG)).inventory().scan()
    assert card.mode == inventory.MIG
    found = {one.profile.name: (one.profile.core_percent, one.instances) for one in card.profiles}
    assert found == {"1g.5gb": (15, 7), "2g.10gb": (29, 3), "3g.20gb": (43, 2), "7g.40gb": (100, 1)}
    assert card.profiles[2].profile.placements == (devices.MigPlacement(0, 4), devices.MigPlacement(4, 4))


@pytest.mark.parametrize(
    "models, names",
    [(("A100-SXM4-40GB",), ["1g.5gb", "7g.40gb"]), (("A30",), []), (("A30", "A100"), ["1g.5gb", "7g.40gb"])],
)
def test_the_list_of_allowed_profiles_goes_by_model(driver: Drivers, models: tuple[str, ...], names: list[str]) -> None:
    allowed = mig_profiles.Allowed((mig_profiles.Rule(models, frozenset((1, 7))),))
    (card,) = driver(Gpu("GPU-a", more=MIG)).inventory(profiles=allowed).scan()
    assert (card.mode, [one.profile.name for one in card.profiles]) == (inventory.MIG, names)


def test_an_instance_is_made_at_its_placement_and_found_again_by_another_process_of_the_agent(driver: Drivers) -> None:
    made = driver(Gpu("GPU-a", more=MIG))
    cards = made.inventory()
    instance = cards.realise("GPU-a", USE)
    assert (instance.gpu_instance_id, instance.compute_instance_id) == (1, 0)
    assert made.inventory().realise("GPU-a", USE) == instance
    (partition,) = cards.scan()[0].partitions
    assert partition == inventory.Partition(instance, "1g.5gb", USE.placement)


def test_an_instance_is_destroyed_unless_it_is_in_use(driver: Drivers) -> None:
    made = driver(Gpu("GPU-a", more=MIG))
    cards = made.inventory()
    cards.realise("GPU-a", USE)
    made.say(0, *MIG, "process 7 100 0 0 1 0")
    with pytest.raises(inventory.InventoryError, match=r"GPU-a, 1g\.5gb.*In use"):
        cards.dissolve("GPU-a", USE)
    made.say(0, *MIG)
    cards.dissolve("GPU-a", USE)
    cards.dissolve("GPU-a", USE)
    assert cards.scan()[0].partitions == ()


def test_an_instance_that_does_not_fit_beside_another_is_an_error(driver: Drivers) -> None:
    cards = driver(Gpu("GPU-a", more=MIG)).inventory()
    cards.realise("GPU-a", USE)
    with pytest.raises(inventory.InventoryError, match="Insufficient Resources"):
        cards.realise("GPU-a", devices.MigUse("3g.20gb", devices.MigPlacement(0, 4)))


def test_a_profile_the_card_does_not_offer_is_an_error(driver: Drivers) -> None:
    cards = driver(Gpu("GPU-a", more=MIG)).inventory()
    with pytest.raises(inventory.InventoryError, match=r"no MIG profile 4g\.20gb"):
        cards.realise("GPU-a", devices.MigUse("4g.20gb", devices.MigPlacement(0, 4)))


@pytest.mark.parametrize("instance, spared", [("1 0", [False, True]), ("", [False, False])])
def test_an_xid_of_one_instance_spares_the_others(driver: Drivers, instance: str, spared: list[bool]) -> None:
    made = driver(Gpu("GPU-a", more=MIG))
    cards = made.inventory()
    cards.realise("GPU-a", USE)
    cards.realise("GPU-a", devices.MigUse("1g.5gb", devices.MigPlacement(4, 1)))
    made.xid(0, 95, instance)
    (card,) = cards.scan()
    assert ([one.healthy for one in card.partitions], card.healthy) == (spared, False)


def test_pair_scores_add_the_way_between_cards_and_their_nvlinks(driver: Drivers) -> None:
    made = driver(
        Gpu(GPU_A, more=[f"link {GPU_B} 4 20", "link GPU-c 0 40"]),
        Gpu(GPU_B, more=[f"link {GPU_A} 4 20", "link GPU-c 1 10"]),
        Gpu("GPU-c", more=[f"link {GPU_A} 0 40"]),
    )
    one, two, three = made.inventory().scan()
    assert one.peers == (inventory.Peer(GPU_B, 440), inventory.Peer("GPU-c", 20))
    # The other side of this pair knows no NVLink.
    assert two.peers == (inventory.Peer(GPU_A, 440), inventory.Peer("GPU-c", 0, symmetric=False))
    assert three.peers == (inventory.Peer(GPU_A, 20), inventory.Peer(GPU_B, 0, symmetric=False))


def test_links_that_cannot_be_read_hide_no_card(driver: Drivers) -> None:
    made = driver(Gpu("GPU-a", more=["error nvmlDeviceGetNvLinkState 999"]), Gpu("GPU-b"))
    assert [(card.healthy, card.peers) for card in made.inventory().scan()] == [(True, ())] * 2


def test_an_instance_that_goes_while_it_is_looked_at_is_none(driver: Drivers) -> None:
    made = driver(Gpu("GPU-a", more=MIG))
    cards = made.inventory()
    cards.realise("GPU-a", USE)
    made.say(0, *MIG, "error nvmlDeviceGetGpuInstanceById 6")
    (card,) = cards.scan()
    assert (card.healthy, card.partitions) == (True, ())


@pytest.mark.parametrize(
    "disable, enable, healthy", [("all", "", True), ("xids", "", False), ("all", "all", False), ("all", "79", True)]
)
def test_what_is_disabled_ails_no_card(driver: Drivers, disable: str, enable: str, healthy: bool) -> None:
    made = driver(Gpu("GPU-a", more=["recovery 1", "error nvmlDeviceRegisterEvents 999"]))
    cards = made.inventory(policy=xids.policy(disable, enable))
    assert healths(cards) == [healthy and enable != "79"]  # what is to be listened to must be heard


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
