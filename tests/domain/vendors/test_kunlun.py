"""Which of a board's eight cards are chosen: free cards x count. Expectations: HAMi v2.10.0's rules, worked by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest

from hami_platform.domain import fit, quota, score
from hami_platform.domain.devices import ContainerKind, Device, Held
from hami_platform.domain.nodes import DeviceState, NodeState
from hami_platform.domain.reasons import Rejection
from hami_platform.domain.requests import ContainerRequest, DeviceRequest, PodRequest
from hami_platform.domain.terms import terms_of
from hami_platform.domain.vendors import base, registry
from hami_platform.domain.vendors.strategies import kunlun, neuron

ALL = range(8)
CONFIG = registry.default_config()


@pytest.mark.parametrize(
    "free, count, expected",
    [
        (ALL, 1, (0,)),
        (ALL, 8, tuple(ALL)),
        ((0, 1, 2, 3), 4, (0, 1, 2, 3)),
        ((0, 1, 2, 3, 4, 6, 7), 2, (4, 6)),
        ((0, 1, 2, 3, 4, 6, 7), 1, (4,)),
        ((0, 1, 2, 3, 4, 5), 1, (4,)),
        ((3, 7), 2, (3, 7)),
        ((0, 1, 4, 5, 6), 4, (0, 1, 4, 5)),
        ((0, 1, 2, 4, 5, 7), 4, (0, 1, 4, 5)),
        ((0, 1, 3, 4, 5, 7), 4, (0, 1, 4, 5)),
        (range(7), 8, ()),
        (ALL, 3, ()),
    ],
)
def test_cards_are_chosen_by_their_links(free: tuple[int, ...], count: int, expected: tuple[int, ...]) -> None:
    assert kunlun.select(free, count) == expected


PICKS = [
    (range(8), 1, {0}),
    (range(8), 2, {0, 1}),
    (range(4), 4, {0, 1, 2, 3}),
    ((0, 1, 2, 3, 4, 6, 7), 2, {4, 6}),
    ((0, 1, 2, 3, 4, 5), 1, {4}),
    ((3, 7), 2, {3, 7}),
    ((0, 1, 2, 4, 5, 7), 4, {0, 1, 4, 5}),
]
ORDERS: dict[str, Callable[[int], int]] = {
    "as they are": lambda index: index,
    "reversed": lambda index: -index,
    "wings mixed": lambda index: (index * 3) % 8,
}


@pytest.mark.parametrize("word", ["kunlun", "XPU"])
@pytest.mark.parametrize("named", ORDERS)
@pytest.mark.parametrize("listed", ORDERS)
@pytest.mark.parametrize("free, count, expected", PICKS)
def test_links_follow_the_index_however_cards_are_listed_and_named(
    free: Sequence[int], count: int, expected: set[int], listed: str, named: str, word: str
) -> None:
    """HAMi takes a card's place in a list that is sorted by other things."""
    cards = [state(word, index, busy=index not in free, name=f"u{ORDERS[named](index) % 8}") for index in range(8)]
    node = NodeState.of("n", sorted(cards, key=lambda one: ORDERS[listed](one.device.index)))
    memory_mib = 98_304 if word == "kunlun" else 24_576
    ask = DeviceRequest(word, count, memory_mib, None, 100 if word == "kunlun" else 0)
    request = PodRequest((ContainerRequest("main", ContainerKind.APP, (ask,)),))
    found = fit.fit(node, request, terms_of(request, score.DEFAULTS, quota.UNLIMITED, CONFIG.strategies))
    assert not isinstance(found, Rejection), found.text()
    index_of = {one.device.uuid: one.device.index for one in cards}
    assert {index_of[share.uuid] for share in found.shares} == expected


@pytest.mark.parametrize("turned", [False, True])
def test_a_registration_says_where_its_cards_are_in_any_order(turned: bool) -> None:
    parts = [f"u{7 - index},4,98304,100,XPU-P800,{index // 4},true,{index},hami-core:" for index in range(8)]
    text = "".join(reversed(parts) if turned else parts)
    source = base.NodeSource("n", {"hami.io/node-register-xpu": text})
    found = CONFIG.vendor("XPU").registered(source)
    assert {one.uuid: one.index for one in found} == {f"u{7 - index}": index for index in range(8)}


def state(word: str, index: int, *, busy: bool, name: str) -> DeviceState:
    """A card of the board; a busy one is whole in use."""
    card = Device(name, index, word, word, 98_304, 100, slots=4)
    return DeviceState(card, Held(4, 98_304, 100) if busy else Held())


def test_law_a_choice_is_of_free_cards_and_complete() -> None:
    for size in range(9):
        for free in itertools.combinations(ALL, size):
            for count in range(1, 9):
                found = kunlun.select(free, count)
                assert set(found) <= set(free)
                assert len(found) in (0, count)


@pytest.mark.parametrize(
    "mask, count, expected", [(3, 2, 3), (3, 1, 1), (2, 1, 2), (0b1010, 2, 0b1010), (0b1110, 1, 2)]
)
def test_the_lowest_free_cores_of_a_neuron_device_are_given(mask: int, count: int, expected: int) -> None:
    assert neuron.lowest(mask, count) == expected
