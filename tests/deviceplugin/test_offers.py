"""What is advertised for each way to treat MIG instances, and how an operator's own instances are served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deviceplugin import board, faces, inventory, kubelet, offers, reach, refusals, register, replicas, static_mig
from hami_platform.domain import devices
from tests.deviceplugin.builders import GPU_A, GPU_B, card, profile
from tests.deviceplugin.stub_kubelet import StubKubelet
from tests.deviceplugin.test_kubelet import Fixed

SCALING = register.Scaling(slots=2)


def partition(number: int, name: str = "1g.5gb", *, healthy: bool = True) -> inventory.Partition:
    instance = inventory.MigInstance(f"MIG-{number}", number, 0)
    return inventory.Partition(instance, name, devices.MigPlacement(number, 1), healthy)


def cut(*partitions: inventory.Partition, uuid: str = GPU_B, index: int = 1) -> inventory.Card:
    return card(uuid, index=index, mode="mig", numa=1, profiles=(profile(),), partitions=partitions)


def ids(offer: kubelet.Offer, *cards: inventory.Card) -> list[str]:
    return [share.id for share in offer(cards)]


def test_without_a_strategy_cards_in_mig_mode_are_shares_and_mixed_leaves_them_out() -> None:
    cards = (card(GPU_A), cut(partition(1)))
    none = offers.shared(SCALING, numa=False, strategy=offers.NONE)
    mixed = offers.shared(SCALING, numa=False, strategy=offers.MIXED)
    assert ids(none, *cards) == [f"{GPU_A}-0", f"{GPU_A}-1", *(f"{GPU_B}-{n}" for n in range(7))]
    assert ids(mixed, *cards) == [f"{GPU_A}-0", f"{GPU_A}-1"]


def test_instances_tell_their_health_and_numa_node() -> None:
    shares = offers.of_profile("1g.5gb")((cut(partition(1), partition(2, healthy=False), partition(3, "2g.10gb")),))
    assert shares == (register.Share("MIG-1", True, 1), register.Share("MIG-2", False, 1))


@pytest.mark.parametrize(
    "cards, offered",
    [
        ((cut(partition(1)), cut(partition(2), uuid=GPU_A, index=0)), ["MIG-1", "MIG-2"]),
        ((cut(partition(1)), card(GPU_A)), []),
        ((cut(partition(1), partition(2, "2g.10gb")),), []),
        ((cut(),), []),
    ],
)
def test_single_offers_instances_only_where_all_are_alike(
    cards: tuple[inventory.Card, ...], offered: list[str]
) -> None:
    assert ids(offers.Uniform(), *cards) == offered


@pytest.mark.parametrize(
    "name, resource", [("1g.5gb", "nvidia.com/mig-1g.5gb"), ("1g.5gb+me", "nvidia.com/mig-1g.5gb.me")]
)
def test_the_resource_of_a_profile(name: str, resource: str) -> None:
    assert offers.resource_of(name, "nvidia.com/gpu") == resource


def static(*cards: inventory.Card) -> static_mig.StaticAllocations:
    shown = board.Board()
    shown.publish(cards)
    return static_mig.StaticAllocations(shown, reach.Reach())


def test_exactly_the_instances_that_kubelet_picked_are_given_and_nothing_else() -> None:
    answer = static(cut(partition(1), partition(2), partition(3))).allocate([["MIG-2", "MIG-3"], ["MIG-1"]])
    assert not isinstance(answer, refusals.Refusal)
    assert [dict(grant.envs) for grant in answer] == [
        {"NVIDIA_VISIBLE_DEVICES": "MIG-2,MIG-3"},
        {"NVIDIA_VISIBLE_DEVICES": "MIG-1"},
    ]
    assert answer[0].mounts == ()


def test_an_instance_that_is_gone_is_refused_at_allocate_and_before_a_start() -> None:
    made = static(cut(partition(1)))
    answer = made.allocate([["MIG-9"]])
    assert isinstance(answer, refusals.Refusal)
    assert (answer.reason, answer.message) == (
        refusals.Reason.UNKNOWN_DEVICE,
        "this node has no MIG instance MIG-9",
    )
    assert made.before_start(["MIG-1"]) is None
    assert made.before_start(["MIG-9"]) is not None


def test_instances_of_as_few_cards_as_possible_are_preferred_and_the_tightest_card_first() -> None:
    made = static(cut(partition(1), partition(2), partition(3)), cut(partition(4), partition(5), uuid=GPU_A, index=0))
    everything = ("MIG-1", "MIG-2", "MIG-3", "MIG-4", "MIG-5")
    wishes = [replicas.Choice(everything, must, size) for must, size in (((), 2), ((), 3), (("MIG-1",), 2), ((), 6))]
    assert made.preferred(wishes) == (
        ("MIG-4", "MIG-5"),
        ("MIG-1", "MIG-2", "MIG-3"),
        ("MIG-1", "MIG-2"),
        (),
    )


@pytest.fixture
def stub(sockets: Path) -> Iterator[StubKubelet]:
    made = StubKubelet(sockets)
    made.start()
    yield made
    made.stop()


def test_mixed_registers_a_resource_for_each_profile_as_soon_as_there_is_one(stub: StubKubelet) -> None:
    shown = board.Board()
    shown.publish((card(GPU_A), cut(partition(1))))
    plan = faces.Plan(kubelet.Face(stub.folder), SCALING, strategy=offers.MIXED)
    links = faces.links(plan, shown, Fixed(), static())
    links.step()
    stub.wait(lambda k: len(k.lists) == 2)
    assert {request.resource_name for request in stub.requests} == {"nvidia.com/gpu", "nvidia.com/mig-1g.5gb"}
    shown.publish((card(GPU_A), cut(partition(1), partition(2, "3g.20gb"))))
    links.step()
    stub.wait(lambda k: len(k.lists) == 3)
    assert stub.lists[-1] == {"MIG-2": "Healthy"}
    assert stub.requests[-1].endpoint == "nvidia-mig-3g.20gb.sock"
    links.close()
    assert not list(stub.folder.glob("nvidia-*.sock"))


def test_single_registers_the_one_resource_with_instances(stub: StubKubelet) -> None:
    shown = board.Board()
    shown.publish((cut(partition(1), partition(2)),))
    plan = faces.Plan(kubelet.Face(stub.folder), SCALING, strategy=offers.SINGLE)
    links = faces.links(plan, shown, Fixed(), static())
    links.step()
    stub.wait(lambda k: k.lists)
    assert [request.resource_name for request in stub.requests] == ["nvidia.com/gpu"]
    assert stub.lists == [{"MIG-1": "Healthy", "MIG-2": "Healthy"}]
    links.close()
