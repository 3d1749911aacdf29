"""Fit of a pod on a node whose devices are cut into MIG instances."""

from __future__ import annotations

from typing import Any

import pytest

from hami_platform.domain import fit
from hami_platform.domain.devices import Held, MigPlacement, MigUse, Share
from hami_platform.domain.nodes import NodeState
from hami_platform.domain.reasons import Rejection
from hami_platform.domain.requests import PodRequest
from hami_platform.domain.score import Defaults
from tests import builders
from tests.builders import app, ask, init, mig_state, mig_use, pod, state


def rows(node: NodeState, request: PodRequest, **defaults: Any) -> tuple[Share, ...]:
    result = fit.fit_pod(node, request, Defaults(**defaults))
    assert isinstance(result, fit.Fitted), result.text()
    return result.shares


def refusal(node: NodeState, request: PodRequest) -> str:
    result = fit.fit_pod(node, request)
    assert isinstance(result, Rejection)
    return result.text()


def one(**fields: Any) -> NodeState:
    """A node of one device."""
    return builders.node("n1", state(**fields))


def uses(*shares: Share) -> list[tuple[str, int]]:
    return [(share.mig.profile, share.mig.placement.start) for share in shares if share.mig]


def in_use(*names: str) -> NodeState:
    """A MIG card with instances such as `1g@6`."""
    full = {"1g": ("1g.5gb", 1), "2g": ("2g.10gb", 2), "3g": ("3g.20gb", 4)}
    found = [mig_use(full[n[:2]][0], int(n[3:]), full[n[:2]][1]) for n in names]
    return builders.node("n1", mig_state(uses=tuple(found)))


@pytest.mark.parametrize(
    "before, memory_mib, instance",
    [
        ((), 19000, ("3g.20gb", 4)),
        (("3g@4",), 9000, ("2g.10gb", 0)),
        (("3g@4", "2g@0"), 4000, ("1g.5gb", 3)),
        (("3g@4", "2g@0", "1g@3"), 4000, ("1g.5gb", 2)),
        (("2g@0", "2g@2", "2g@4"), 4000, ("1g.5gb", 6)),
        ((), 4864, ("1g.5gb", 6)),
        ((), 4865, ("2g.10gb", 0)),
    ],
)
def test_instances_are_packed_in_balance(before: tuple[str, ...], memory_mib: int, instance: tuple[str, int]) -> None:
    assert uses(*rows(in_use(*before), pod(ask(memory_mib=memory_mib)))) == [instance]


def test_the_profile_of_least_memory_wins_whatever_its_slices() -> None:
    wide = builders.profile("2g.small", 5000, 20, 2, (0,), 2)
    narrow = builders.profile("1g.large", 6000, 20, 1, (4,), 1)
    node = one(mode="mig", memory_mib=40960, mig_profiles=(narrow, wide))

    assert uses(*rows(node, pod(ask(memory_mib=4000)))) == [("2g.small", 0)]


def test_an_instance_records_the_amounts_of_its_profile() -> None:
    (share,) = rows(in_use(), pod(ask(memory_mib=9000, core_percent=5)))

    assert (share.memory_mib, share.core_percent) == (9856, 28)
    assert share.mig == MigUse("2g.10gb", MigPlacement(0, 2))


@pytest.mark.parametrize(
    "before, memory_mib", [(("1g@1", "1g@5"), 19000), (("2g@0", "2g@2", "2g@4"), 9000), ((), 40900)]
)
def test_no_profile_with_a_free_placement_is_refused(before: tuple[str, ...], memory_mib: int) -> None:
    assert refusal(in_use(*before), pod(ask(memory_mib=memory_mib))) == "1/1 CardMigTopologyInfeasible"


def test_several_instances_can_come_from_one_card() -> None:
    shares = rows(in_use(), pod(ask(7, memory_mib=4000)))

    assert sorted(start for _, start in uses(*shares)) == list(range(7))
    assert {share.uuid for share in shares} == {"GPU-m"}


def test_instances_beyond_the_card_are_refused() -> None:
    assert refusal(in_use(), pod(ask(8, memory_mib=4000))) == (
        "1/1 CardMigTopologyInfeasible, 7/1 AllocatedCardsInsufficientRequest"
    )


def test_a_container_takes_no_more_instances_than_the_card_has_slots() -> None:
    node = builders.node("n1", mig_state(slots=2))

    assert refusal(node, pod(ask(3, memory_mib=4000))).endswith("2/1 AllocatedCardsInsufficientRequest")


def test_two_devices_of_a_whole_card_are_not_two_instances() -> None:
    assert refusal(one(), pod(ask(2))) == "NodeInsufficientDevice"
    assert refusal(builders.node("n1", mig_state()), pod(ask(2), vgpu_mode="hami-core")) == "NodeInsufficientDevice"


def test_k43_all_of_a_card_s_memory_is_no_instance_unless_the_cluster_says_so() -> None:
    request = pod(ask(memory_percent=100))

    assert refusal(in_use(), request) == "1/1 CardMigTopologyInfeasible"
    assert uses(*rows(in_use(), request, whole_card_as_largest_profile=True)) == [("7g.40gb", 0)]


def test_an_init_container_s_instance_is_free_again_for_the_app() -> None:
    shares = rows(in_use(), pod(init(ask(memory_mib=4000)), app(ask(memory_mib=4000))))

    assert uses(*shares) == [("1g.5gb", 6), ("1g.5gb", 6)]


def test_a_card_whose_holder_s_place_is_unknown_takes_no_instance() -> None:
    node = one(mode="mig", mig_profiles=builders.A100_PROFILES, memory_mib=40960, used=Held(1, 4864, 14))

    assert refusal(node, pod(ask(memory_mib=4000))) == "1/1 CardNotHealth"
