"""The best connected devices: equal to looking at every combination, and quick where there are many."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from hami_platform.domain import topology


@st.composite
def questions(draw: st.DrawFn) -> tuple[int, list[str], dict[tuple[str, str], int]]:
    uuids = [str(i) for i in range(draw(st.integers(1, 7)))]
    pairs = {(a, b): draw(st.sampled_from((-5, 0, 10, 20, 50))) for a in uuids for b in uuids if a != b}
    return draw(st.integers(1, len(uuids))), uuids, pairs


@given(questions())
def test_best_subset_is_the_first_best_of_all_combinations(
    question: tuple[int, list[str], dict[tuple[str, str], int]],
) -> None:
    count, uuids, pairs = question

    def value(some: tuple[int, ...]) -> int:
        if count == 1:
            return -sum(pairs.get((uuids[some[0]], other), 0) for other in uuids)
        return sum(pairs.get((uuids[a], uuids[b]), 0) for a, b in itertools.combinations(some, 2))

    every = list(itertools.combinations(range(len(uuids)), count))
    best = max(map(value, every))

    assert topology.best_subset(count, uuids, pairs) == (next(c for c in every if value(c) == best), best)


def symmetric(values: dict[tuple[str, str], int]) -> dict[tuple[str, str], int]:
    return values | {(b, a): value for (a, b), value in values.items()}


def test_one_device_is_the_least_connected() -> None:
    pairs = symmetric({("0", "1"): 100, ("0", "2"): 200, ("1", "2"): 150})

    assert topology.best_subset(1, ["0", "1", "2"], pairs)[0] == (1,)
    assert topology.best_subset(2, ["0", "1", "2"], pairs)[0] == (0, 2)


def test_negative_scores_choose_the_least_bad() -> None:
    pairs = symmetric({("0", "1"): -5, ("0", "2"): -3, ("1", "2"): -1})

    assert topology.best_subset(1, ["0", "1", "2"], pairs)[0] == (0,)
    assert topology.best_subset(2, ["0", "1", "2"], pairs)[0] == (1, 2)


def test_without_scores_the_order_of_preference_decides() -> None:
    assert topology.best_subset(3, list("abcdef"), {}) == ((0, 1, 2), 0)


def test_k11_eight_of_sixteen_look_at_a_part_of_the_combinations() -> None:
    uuids = [str(i) for i in range(16)]
    pairs = {(a, b): 200 if int(a) // 8 == int(b) // 8 else 20 for a in uuids for b in uuids if a != b}
    search = topology._Search(8, [[pairs.get((a, b), 0) for b in uuids] for a in uuids])
    looked = 0
    extend = search._extend

    def counted(*args: object) -> None:
        nonlocal looked
        looked += 1
        extend(*args)  # type: ignore[arg-type]

    search._extend = counted  # type: ignore[method-assign,assignment]

    assert search.run()[0] == tuple(range(8))
    assert looked < 1000
