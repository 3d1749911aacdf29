"""What a node says of its cards."""

from __future__ import annotations

import pytest

from deviceplugin import register, registrar
from tests.deviceplugin.builders import GPU_A, GPU_B, card, profile

TEN = register.Scaling()


@pytest.mark.parametrize(
    "name, registered",
    [("Tesla P4", "NVIDIA-Tesla P4"), ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB")],
)
def test_model_says_nvidia_exactly_once(name: str, registered: str) -> None:
    assert register.model(name) == registered


def test_scaled_amounts_are_rounded_down() -> None:
    scaling = register.Scaling(slots=10, memory=1.8, cores=1.5)
    (device,) = register.registered([card(memory_mib=16384)], scaling)
    assert (device.memory_mib, device.core_percent) == (29491, 150)


def test_devices_are_in_uuid_order_whatever_their_index() -> None:
    devices = register.registered([card(GPU_B, index=0), card(GPU_A, index=1)], TEN)
    assert [device.uuid for device in devices] == [GPU_A, GPU_B]


def test_text_is_the_one_hami_writes() -> None:
    cards = [
        card("GPU-0", index=0, model="Tesla V100-PCIE-32GB", memory_mib=32768),
        card("GPU-1", index=1, model="Tesla V100-PCIE-32GB", memory_mib=32768, numa=1, healthy=False),
    ]
    assert registrar.encoded(register.registered(cards, TEN)) == (
        '[{"id":"GPU-0","count":10,"devmem":32768,"devcore":100,"type":"NVIDIA-Tesla V100-PCIE-32GB",'
        '"mode":"hami-core","health":true},'
        '{"id":"GPU-1","index":1,"count":10,"devmem":32768,"devcore":100,"type":"NVIDIA-Tesla V100-PCIE-32GB",'
        '"numa":1,"mode":"hami-core"}]'
    )


def test_mig_card_is_unscaled_and_has_as_many_slots_as_its_smallest_profile_fits() -> None:
    scaling = register.Scaling(slots=10, memory=2.0, cores=2.0)
    profiles = (profile("1g.5gb", instances=7), profile("3g.20gb", instances=2, starts=(0, 4)))
    (device,) = register.registered([card(mode="mig", memory_mib=40960, profiles=profiles)], scaling)
    assert (device.slots, device.memory_mib, device.core_percent) == (7, 40960, 100)
    assert [one.name for one in device.mig_profiles] == ["1g.5gb", "3g.20gb"]


def test_mig_card_without_a_profile_is_neither_registered_nor_advertised() -> None:
    cards = [card(mode="mig")]
    assert register.registered(cards, TEN) == ()
    assert register.shares(cards, TEN, numa=True) == ()


def test_every_share_has_the_health_of_its_card() -> None:
    shares = register.shares([card(GPU_A, healthy=False), card(GPU_B, index=1)], register.Scaling(slots=2), numa=False)
    assert [(share.id, share.healthy) for share in shares] == [
        (f"{GPU_A}-0", False),
        (f"{GPU_A}-1", False),
        (f"{GPU_B}-0", True),
        (f"{GPU_B}-1", True),
    ]


@pytest.mark.parametrize("told, numa", [(True, 1), (False, None)])
def test_numa_is_told_only_when_asked_for(told: bool, numa: int | None) -> None:
    (share,) = register.shares([card(numa=1)], register.Scaling(slots=1), numa=told)
    assert share.numa == numa
