"""Fit of a pod on one node: the tests of a device, several devices, the phases of a pod, NUMA, topology."""

from __future__ import annotations

from typing import Any

import pytest

from hami_platform.domain import fit
from hami_platform.domain.devices import ContainerKind, Held, Share
from hami_platform.domain.nodes import NodeState
from hami_platform.domain.quota import Amounts, Headroom, Limits, Rule, Selector
from hami_platform.domain.reasons import Reason, Rejection
from hami_platform.domain.requests import PodRequest
from hami_platform.domain.score import Defaults
from hami_platform.domain.strategy import Strategy
from hami_platform.domain.terms import terms_of
from tests import builders
from tests.builders import app, ask, init, pod, sidecar, state


def taken(node: NodeState, request: PodRequest, **defaults: Any) -> list[str]:
    """Uuids in row order; fails with the reason when the pod does not fit."""
    return [share.uuid for share in rows(node, request, **defaults)]


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


def many(
    *numas: int, used: dict[int, Held] | None = None, pairs: dict[tuple[str, str], int] | None = None
) -> NodeState:
    """Devices "0", "1", … on the NUMA nodes given."""
    states = [state(str(i), index=i, numa=numa, used=(used or {}).get(i, Held())) for i, numa in enumerate(numas)]
    return builders.node("n1", *states, pair_scores=pairs)


# One device ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "device, request_, reason",
    [
        ({"healthy": False}, ask(), Reason.CARD_NOT_HEALTH),
        ({"cordoned": True}, ask(), Reason.CARD_CORDONED),
        ({"healthy": False, "cordoned": True}, ask(), Reason.CARD_NOT_HEALTH),
        ({"used": Held(5), "slots": 4}, ask(), Reason.CARD_TIME_SLICING_EXHAUSTED),
        (
            {"memory_mib": 8000, "used": Held(1, 8000)},
            ask(memory_percent=100, core_percent=100),
            Reason.CARD_INSUFFICIENT_MEMORY,
        ),
        ({"core_percent": 4, "used": Held(1, 0, 1)}, ask(core_percent=200), Reason.CARD_INSUFFICIENT_CORE),
        ({"used": Held(1)}, ask(core_percent=100), Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT),
        ({"core_percent": 1, "used": Held(1, 0, 1)}, ask(), Reason.CARD_COMPUTE_UNITS_EXHAUSTED),
        ({"reserved_mib": 600}, ask(memory_percent=100), Reason.CARD_INSUFFICIENT_MEMORY),
        ({"used": Held(1, 30000)}, ask(), Reason.CARD_INSUFFICIENT_MEMORY),
    ],
)
def test_the_first_failing_test_gives_the_reason(device: dict[str, Any], request_: Any, reason: Reason) -> None:
    assert refusal(one(**device), pod(request_)) == f"1/1 {reason.value}"


@pytest.mark.parametrize(
    "device, request_, amounts",
    [
        ({"memory_mib": 24258}, ask(memory_percent=50), (12129, 0)),
        ({"memory_mib": 81559}, ask(memory_percent=33), (26914, 0)),
        ({}, ask(memory_mib=100, memory_percent=50), (100, 0)),
        ({}, ask(core_percent=150), (0, 100)),
        ({"core_percent": 200, "used": Held(1, 0, 50)}, ask(core_percent=100), (0, 100)),
        ({"core_percent": 0}, ask(), (0, 0)),
        ({"memory_mib": 8000, "used": Held(1, 5000, 10)}, ask(memory_mib=3000, core_percent=90), (3000, 90)),
    ],
)
def test_a_share_has_the_amounts_asked(device: dict[str, Any], request_: Any, amounts: tuple[int, int]) -> None:
    (share,) = rows(one(**device), pod(request_))

    assert (share.memory_mib, share.core_percent) == amounts


def test_a_share_says_where_it_is() -> None:
    (share,) = rows(one(), pod(init(), app(ask(memory_mib=1), name="main")))

    assert share == Share(1, "main", ContainerKind.APP, "NVIDIA", "GPU-a", 1, 0, None, builders.MODEL)


@pytest.mark.parametrize(
    "mine, theirs, reason",
    [
        (100, 0, Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT),
        (100, 10, Reason.CARD_INSUFFICIENT_CORE),
        (0, 100, Reason.CARD_COMPUTE_UNITS_EXHAUSTED),
    ],
)
def test_h59_whole_devices_and_sharers_exclude_each_other(mine: int, theirs: int, reason: Reason) -> None:
    assert refusal(one(used=Held(1, 100, theirs)), pod(ask(core_percent=mine))) == f"1/1 {reason.value}"


@pytest.mark.parametrize(
    "constraint, fits",
    [
        ({"use_models": ("a100",)}, True),
        ({"use_models": ("T4", "A100")}, True),
        ({"use_models": ("T4",)}, False),
        ({"use_models": ()}, False),
        ({"nouse_models": ("a100",)}, False),
        ({"nouse_models": ()}, True),
        ({"use_models": ("A100",), "nouse_models": ("40GB",)}, False),
        ({"vgpu_mode": "mig,hami-core"}, True),
        ({"vgpu_mode": "mig"}, False),
        ({"vgpu_mode": ""}, False),
    ],
)
def test_models_and_modes_match_as_in_hami(constraint: dict[str, Any], fits: bool) -> None:
    node, request = one(model="NVIDIA A100-SXM4-40GB"), pod(ask(), **constraint)

    if fits:
        assert taken(node, request) == ["GPU-a"]
    else:
        assert refusal(node, request) == "1/1 CardTypeMismatch"


def test_a_device_without_a_mode_suits_every_mode() -> None:
    assert taken(one(mode=""), pod(ask(), vgpu_mode="mig")) == ["GPU-a"]


@pytest.mark.parametrize(
    "constraint", [{"use_uuids": ("GPU-A",)}, {"use_uuids": ()}, {"nouse_uuids": ("GPU-a",)}, {"use_uuids": ("GPU-",)}]
)
def test_uuids_match_exactly(constraint: dict[str, Any]) -> None:
    assert refusal(one(), pod(ask(), **constraint)) == "1/1 CardUuidMismatch"


# Several devices and containers --------------------------------------------------------------------------------------


def test_every_device_is_counted_under_its_reason() -> None:
    node = builders.node(
        "n1",
        state("a", healthy=False),
        state("b", index=1, used=Held(10)),
        state("c", index=2, used=Held(1, 24000)),
        state("d", index=3),
    )

    assert refusal(node, pod(ask(2, memory_mib=1024))) == (
        "1/4 AllocatedCardsInsufficientRequest, 1/4 CardInsufficientMemory, "
        "1/4 CardNotHealth, 1/4 CardTimeSlicingExhausted"
    )


def test_more_devices_than_there_are_is_a_reason_of_the_node() -> None:
    assert refusal(builders.uniform_node(count=2), pod(ask(3))) == "NodeInsufficientDevice"


def test_h53_an_unhealthy_device_refuses_and_is_used_when_it_is_back() -> None:
    good, bad = state("GPU-b", index=1), state("GPU-a", healthy=False)

    assert "1/2 CardNotHealth" in refusal(builders.node("n1", bad, good), pod(ask(2)))
    assert set(taken(builders.node("n1", state("GPU-a"), good), pod(ask(2)))) == {"GPU-a", "GPU-b"}


def test_h61_a_request_goes_where_the_memory_is() -> None:
    node = builders.node("n1", state("small", memory_mib=10240), state("large", index=1, memory_mib=20480))

    assert taken(node, pod(ask(memory_mib=12288))) == ["large"]


def test_h61_a_cordoned_device_takes_nothing_new() -> None:
    node = builders.node("n1", state("GPU-a", cordoned=True, used=Held(1, 100)), state("GPU-b", index=1))

    assert "1/2 CardCordoned" in refusal(node, pod(ask(2)))


def test_h17_two_app_containers_add_up_on_one_device() -> None:
    request = pod(ask(memory_mib=5000), ask(memory_mib=6000))

    assert fit.charges(rows(one(), request))[0].amounts.memory_mib == 11000
    assert taken(one(memory_mib=11000), request) == ["GPU-a", "GPU-a"]
    assert refusal(one(memory_mib=10999), request) == "1/1 CardInsufficientMemory"


def test_the_first_container_that_does_not_fit_gives_the_reason() -> None:
    assert refusal(one(), pod(ask(memory_mib=1), ask(core_percent=50), ask(core_percent=60), ask(2))) == (
        "1/1 CardInsufficientCore"
    )


def test_k1_rows_name_the_container_s_position() -> None:
    request = pod(init(), app(ask(memory_mib=1), name="a"), app(name="b"), app(ask(memory_mib=2), name="c"))

    assert [(s.container_index, s.container, s.memory_mib) for s in rows(one(), request)] == [(1, "a", 1), (3, "c", 2)]


def test_a_container_can_ask_for_two_vendors() -> None:
    node = builders.node("n1", state("GPU-a"), state("MLU-a", vendor="MLU"))

    assert taken(node, pod(app(ask(), ask(vendor="MLU")))) == ["GPU-a", "MLU-a"]
    assert refusal(node, pod(app(ask(), ask(2, vendor="MLU")))) == "NodeInsufficientDevice"


def test_a_request_for_no_device_is_no_request() -> None:
    assert rows(one(), pod(ask(0))) == ()


def test_mutex_refuses_a_shared_device_also_when_the_pod_itself_shares_it() -> None:
    request = pod(ask(), ask(), device_policy="mutex")

    assert sorted(taken(builders.uniform_node(count=2), request)) == ["GPU-n1-0", "GPU-n1-1"]
    assert refusal(one(), request) == "1/1 ExclusiveDeviceAllocateConflict"


# Phases --------------------------------------------------------------------------------------------------------------


def test_an_init_container_and_an_app_use_the_same_memory_in_turn() -> None:
    node = one(memory_mib=8000)

    assert taken(node, pod(init(ask(memory_mib=8000)), app(ask(memory_mib=8000)))) == ["GPU-a", "GPU-a"]


def test_init_containers_do_not_add_up() -> None:
    first = init(ask(memory_mib=20000))

    assert len(taken(one(), pod(first, first, first, app(ask(memory_mib=10))))) == 4


def test_h33_a_sidecar_and_an_app_add_up() -> None:
    side = sidecar(ask(memory_mib=4000))

    assert refusal(one(memory_mib=7999), pod(side, app(ask(memory_mib=4000)))) == "1/1 CardInsufficientMemory"
    assert taken(one(memory_mib=8000), pod(side, app(ask(memory_mib=4000)))) == ["GPU-a", "GPU-a"]


@pytest.mark.parametrize("order, total", [("init first", 20480), ("sidecar first", 22528)])
def test_h34_an_init_container_finds_the_sidecars_that_run_before_it(order: str, total: int) -> None:
    parts = [init(ask(memory_mib=20480)), sidecar(ask(memory_mib=2048))]
    request = pod(*(parts if order == "init first" else parts[::-1]), app(ask(memory_mib=10240)))

    assert fit.charges(rows(one(), request))[0].amounts.memory_mib == total
    assert refusal(one(memory_mib=total - 1), request) == "1/1 CardInsufficientMemory"
    assert len(rows(one(memory_mib=total), request)) == 3


def test_h34_slots_at_peak_are_two() -> None:
    request = pod(sidecar(ask(memory_mib=2048)), init(ask(memory_mib=20480)), app(ask(memory_mib=10240)))

    assert fit.charges(rows(one(), request))[0].amounts.devices == 2


def test_k44_the_app_goes_where_an_init_container_has_already_reserved() -> None:
    node = many(0, 0, used={1: Held(1, 100, 30)})
    request = pod(init(ask(memory_mib=100, core_percent=100)), app(ask(memory_mib=100, core_percent=10)))

    assert taken(node, request, device_policy="binpack") == ["0", "0"]


def test_k44_the_preference_gives_way_where_the_device_does_not_fit() -> None:
    node = many(0, 0)
    request = pod(sidecar(ask(memory_mib=20000)), init(ask(memory_mib=4000)), app(ask(memory_mib=20000)))

    assert len(set(taken(node, request))) == 2


# NUMA ----------------------------------------------------------------------------------------------------------------


def test_numa_bind_takes_devices_of_one_numa_node() -> None:
    node = many(0, 0, 1, used={0: Held(5), 1: Held(1), 2: Held(3)})

    assert set(taken(node, pod(ask(2), numa_bind=True))) == {"0", "1"}


def test_numa_bind_refuses_devices_of_two_numa_nodes() -> None:
    assert refusal(many(0, 1), pod(ask(2), numa_bind=True)) == ("1/2 AllocatedCardsInsufficientRequest, 1/2 NumaNotFit")


def test_without_numa_bind_the_device_s_numa_node_does_not_matter() -> None:
    node = many(0, 1, 1, used={0: Held(1), 1: Held(8), 2: Held(5)})

    assert taken(node, pod(ask(1))) == ["0"]


def test_k10_topology_with_numa_bind_looks_at_every_numa_node() -> None:
    node = many(0, 0, 1, pairs={("0", "1"): 5, ("1", "0"): 5})

    assert set(taken(node, pod(ask(2), device_policy="topology-aware", numa_bind=True))) == {"0", "1"}


def test_k10_the_better_connected_numa_node_wins() -> None:
    node = many(0, 0, 1, 1, pairs={("0", "1"): 5, ("1", "0"): 5, ("2", "3"): 50, ("3", "2"): 50})

    assert set(taken(node, pod(ask(2), device_policy="topology-aware", numa_bind=True))) == {"2", "3"}


# Topology ------------------------------------------------------------------------------------------------------------


def test_topology_takes_the_best_connected_devices() -> None:
    pairs = {(a, b): 100 for a in "024" for b in "024" if a != b}

    assert set(taken(many(0, 0, 0, 1, 1, pairs=pairs), pod(ask(3), device_policy="topology-aware"))) == {"0", "2", "4"}


def test_topology_considers_only_devices_that_fit() -> None:
    pairs = {("0", "1"): 100, ("1", "0"): 100}
    node = many(0, 0, 0, pairs=pairs, used={0: Held(1, 24000)})

    assert set(taken(node, pod(ask(2, memory_mib=1000), device_policy="topology-aware"))) == {"1", "2"}


def test_a_quota_does_not_narrow_what_topology_chooses_from() -> None:
    pairs = {("0", "1"): 100, ("1", "0"): 100}
    request = pod(ask(2, memory_mib=1000), device_policy="topology-aware")
    two = Headroom(((Rule("q", Selector(), Limits(devices=2)), Amounts()),))

    found = fit.fit_pod(many(0, 0, 0, 0, pairs=pairs), request, Defaults(), two)

    assert isinstance(found, fit.Fitted)
    assert {share.uuid for share in found.shares} == {"0", "1"}


# Strategies of other vendors -----------------------------------------------------------------------------------------


def test_a_vendor_can_choose_among_the_devices_that_fit() -> None:
    pairs_of_two = Strategy(choose=lambda count, states, _: (0, 2) if len(states) > 2 else None)
    request = pod(ask(2))
    terms = terms_of(request, Defaults(), Headroom(), {"NVIDIA": pairs_of_two})

    fitted = fit.fit(builders.uniform_node(count=3), request, terms)
    refused = fit.fit(builders.uniform_node(count=2), request, terms)

    assert isinstance(fitted, fit.Fitted)
    assert [share.uuid for share in fitted.shares] == ["GPU-n1-2", "GPU-n1-0"]
    assert refused == Rejection({Reason.CARD_NOT_FOUND_CUSTOM_FILTER_RULE: 2}, 2)


def test_a_vendor_can_test_devices_its_own_way() -> None:
    picky = Strategy(standing=lambda state, _: Reason.CARD_TYPE_MISMATCH if state.device.index == 0 else None)
    request = pod(ask())
    terms = terms_of(request, Defaults(), Headroom(), {"NVIDIA": picky})

    assert fit.fit(one(), request, terms) == Rejection({Reason.CARD_TYPE_MISMATCH: 1}, 1)
