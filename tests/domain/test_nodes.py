"""What a node state derives from its devices: order, score, order statistics, and devices that are closed."""

from __future__ import annotations

import pytest

from hami_platform.domain import nodes
from hami_platform.domain.devices import Held
from hami_platform.domain.nodes import NodeState
from hami_platform.domain.reasons import Reason
from hami_platform.domain.requests import DeviceRequest
from tests import builders


def test_devices_are_ordered_whatever_order_they_come_in() -> None:
    a, b, c = builders.state("b", index=1), builders.state("a", index=0), builders.state("x", vendor="MLU")

    assert [s.device.uuid for s in NodeState.of("n1", [a, b, c]).devices] == ["x", "a", "b"]


@pytest.mark.parametrize(
    "used, score",
    [
        ([], 0.0),
        ([Held(5, 12288, 50)], 15.0),
        ([Held(10, 24576, 100)], 30.0),
    ],
)
def test_score_is_ten_times_the_used_parts(used: list[Held], score: float) -> None:
    assert builders.uniform_node(count=1, used=used).score == score


def test_score_is_zero_where_a_total_is_zero() -> None:
    assert builders.uniform_node(count=2, used=[Held(1, 100, 0)], core_percent=0).score == 0.0


def test_score_counts_unhealthy_and_cordoned_devices() -> None:
    node = builders.node("n1", builders.state(used=Held(5, 12288, 50), healthy=False), builders.state("b", index=1))

    assert node.score == 7.5


def test_reserved_memory_lowers_free_memory_only() -> None:
    state = builders.state(reserved_mib=1000)

    assert state.free_memory_mib == 23576
    assert builders.node("n1", state).ranks["NVIDIA"].memory_mib == (23576,)
    assert builders.node("n1", state).score == 0.0


@pytest.mark.parametrize(
    "state, reason",
    [
        (builders.state(), None),
        (builders.state(healthy=False), Reason.CARD_NOT_HEALTH),
        (builders.state(cordoned=True), Reason.CARD_CORDONED),
        (builders.mig_state(uses=(builders.mig_use("1g.5gb", 6, 1),)), None),
        (builders.state(mode="mig", used=Held(1, 100, 0)), Reason.CARD_NOT_HEALTH),
        (builders.state(used=Held(1, 100, 0, (builders.mig_use("1g.5gb", 6, 1),))), Reason.CARD_NOT_HEALTH),
        (builders.state(mode="mig"), None),
    ],
    ids=[
        "good",
        "unhealthy",
        "cordoned",
        "instance",
        "holder without a place",
        "instance on a whole card",
        "empty mig",
    ],
)
def test_a_device_that_takes_no_share_says_why(state: nodes.DeviceState, reason: Reason | None) -> None:
    assert state.unusable is reason


def test_ranks_hold_open_devices_only() -> None:
    node = builders.node(
        "n1",
        builders.state("a", used=Held(1, 4576, 30)),
        builders.state("b", index=1),
        builders.state("c", index=2, slots=1, used=Held(1, 0, 0)),
        builders.state("d", index=3, cordoned=True),
    )

    assert node.ranks["NVIDIA"] == nodes.Ranks(
        registered=4,
        closed=((Reason.CARD_TIME_SLICING_EXHAUSTED, 1), (Reason.CARD_CORDONED, 1)),
        memory_mib=(20000, 24576),
        percent=(81, 100),
        core_percent=(70, 100),
        kinds=((builders.MODEL, 24576),),
        spare_slots=9,
        free_slots=19,
    )


@pytest.mark.parametrize("total, used", [(24258, 0), (24258, 12129), (7, 3), (100, 100), (100, 101), (0, 0), (1, 0)])
@pytest.mark.parametrize("percent", [1, 7, 33, 50, 51, 99, 100])
def test_the_percentage_that_still_fits_agrees_with_the_memory_it_means(total: int, used: int, percent: int) -> None:
    node = builders.node("n1", builders.state(memory_mib=total, used=Held(1, used, 0)))

    fits = builders.ask(memory_percent=percent).memory_on(total) <= total - used

    assert (node.ranks["NVIDIA"].percent[0] >= percent) is fits


@pytest.mark.parametrize(
    "ask, reason",
    [
        (builders.ask(2, memory_mib=24576), None),
        (builders.ask(3), Reason.NODE_INSUFFICIENT_DEVICE),
        (builders.ask(1, vendor="MLU"), Reason.NODE_INSUFFICIENT_DEVICE),
        (builders.ask(1, memory_mib=24577), Reason.CARD_INSUFFICIENT_MEMORY),
        (builders.ask(1, core_percent=101), None),
    ],
)
def test_screen_drops_what_certainly_lacks_something(ask: DeviceRequest, reason: Reason | None) -> None:
    assert nodes.screen(builders.uniform_node(count=2), builders.pod(ask)) is reason


def test_screen_asks_for_the_same_devices_in_memory_as_in_number() -> None:
    node = builders.uniform_node(count=2, used=[Held(1, 20000, 0)])

    assert nodes.screen(node, builders.pod(builders.ask(1, memory_mib=20000))) is None
    assert nodes.screen(node, builders.pod(builders.ask(2, memory_mib=20000))) is Reason.CARD_INSUFFICIENT_MEMORY


def test_screen_never_hides_mig_devices() -> None:
    node = builders.node("n1", builders.mig_state())

    assert nodes.screen(node, builders.pod(builders.ask(7, memory_mib=4000))) is None


def test_a_blocked_node_has_its_own_reason() -> None:
    node = builders.node("n1", builders.state(), blocked=Reason.NODE_LOCKED)

    assert nodes.screen(node, builders.pod(builders.ask())) is Reason.NODE_LOCKED


def test_more_can_be_held_on_a_copy() -> None:
    node = builders.uniform_node("n1", 2)

    after = node.plus({("NVIDIA", "GPU-n1-1"): Held(1, 1000, 10), ("NVIDIA", "other"): Held(1, 1, 1)})

    assert [state.held for state in after.devices] == [Held(), Held(1, 1000, 10)]
    assert [state.held for state in node.devices] == [Held(), Held()]
    assert after.score > node.score
