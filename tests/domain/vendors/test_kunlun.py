"""Which of a board's eight cards are chosen: free cards x count. Expectations: HAMi v2.10.0's rules, worked by hand."""

from __future__ import annotations

import itertools

import pytest

from hami_platform.domain.vendors.strategies import kunlun, neuron

ALL = range(8)


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
