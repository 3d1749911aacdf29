"""Cards that go well together."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deviceplugin import inventory, preference, replicas
from tests.deviceplugin.builders import card

NAMES = ("U0", "U1", "U2", "U3")


def cards(scores: dict[tuple[str, str], int], numas: tuple[int | None, ...] = (None,) * 4) -> list[inventory.Card]:
    return [
        card(
            name,
            index=index,
            numa=numas[index],
            peers=tuple(inventory.Peer(other, score) for (one, other), score in scores.items() if one == name),
        )
        for index, name in enumerate(NAMES)
    ]


def both(*pairs: tuple[str, str, int]) -> dict[tuple[str, str], int]:
    return {key: score for one, other, score in pairs for key in ((one, other), (other, one))}


def choice(*available: str, must: tuple[str, ...] = (), size: int = 2) -> replicas.Choice:
    return replicas.Choice(tuple(available), must, size)


def test_the_pair_with_the_best_links_is_taken() -> None:
    found = preference.closest(
        choice(*(f"{name}-0" for name in NAMES)), cards(both(("U0", "U1", 10), ("U1", "U3", 440)))
    )
    assert set(found) == {"U1-0", "U3-0"}


def test_a_common_numa_node_decides_between_equal_links_and_never_against_a_better_one() -> None:
    available = choice(*(f"{name}-0" for name in NAMES))
    assert set(preference.closest(available, cards({}, (0, 1, 1, None)))) == {"U1-0", "U2-0"}
    assert set(preference.closest(available, cards(both(("U0", "U3", 10)), (0, 1, 1, None)))) == {"U0-0", "U3-0"}


def test_what_must_be_included_is_built_upon() -> None:
    found = preference.closest(
        choice("U0-0", "U1-0", "U2-0", must=("U2-0",)), cards(both(("U0", "U1", 900), ("U1", "U2", 10)))
    )
    assert found == ("U2-0", "U1-0")


@pytest.mark.parametrize("available, size", [(("U0-0", "U0-1"), 2), ((), 1)])
def test_too_few_cards_leave_the_choice_to_kubelet(available: tuple[str, ...], size: int) -> None:
    assert preference.closest(choice(*available, size=size), cards({})) == ()


PAIRS = list(itertools.combinations(NAMES, 2))


@given(st.lists(st.integers(0, 500), min_size=6, max_size=6), st.sets(st.sampled_from(NAMES), min_size=2))
def test_no_pair_is_better_than_the_one_chosen(scores: list[int], free: set[str]) -> None:
    table = both(*((*pair, score) for pair, score in zip(PAIRS, scores, strict=True)))
    found = preference.closest(choice(*(f"{name}-0" for name in free)), cards(table))
    chosen = tuple(one.removesuffix("-0") for one in found)
    assert table[chosen] == max(table[pair] for pair in itertools.permutations(free, 2))  # type: ignore[index]
