"""What is held and not used: laws against looking at every moment for itself."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from hami_platform.domain import cost, waste
from hami_platform.domain.cost import Card, Use
from hami_platform.domain.waste import SLOT_US, Reading

STEP_US = SLOT_US // 4
CARD = Card(memory_mib=40000, core_percent=100, start_us=0, end_us=6 * SLOT_US)
moments = st.integers(0, 14).map(lambda quarters: quarters * STEP_US)
uses = st.lists(
    st.builds(
        Use, st.sampled_from("abc"), st.sampled_from((0, 10000, 30000)), st.sampled_from((0, 25, 50)), moments, moments
    ),
    max_size=4,
)
amounts = st.none() | st.sampled_from((0, 10, 40, 130))
tables = st.dictionaries(
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
    st.builds(lambda memory, cores: Reading(memory and memory * 400, cores), amounts, amounts),
    max_size=12,
)
Table = dict[tuple[int, int], Reading]


def judged(card: Card, held: list[Use], table: Table) -> list[waste.Judged]:
    return waste.judged(card, held, lambda n, slot: table.get((n, slot // SLOT_US)))


def by_steps(card: Card, held: list[Use], table: Table) -> list[waste.Judged]:
    """The same, looking at each quarter of a slot for itself."""
    found = [waste.Judged() for _ in held]
    for at in range(card.start_us, card.end_us, STEP_US):
        here = [n for n, use in enumerate(held) if use.start_us <= at < use.end_us]
        parts = {n: cost.share_of(card, held[n]) for n in here}
        whole = max(Fraction(1), sum(parts.values(), Fraction()))
        for n in here:
            share, reading = parts[n] / whole, table.get((n, at // SLOT_US))
            found[n].held += share * STEP_US
            if reading and reading.memory_mib is not None and reading.core_percent is not None:
                used = max(Fraction(reading.memory_mib, card.memory_mib), Fraction(reading.core_percent, 100))
                own = held[n].core_percent or 100
                found[n].measured += share * STEP_US
                found[n].unused += max(Fraction(), share - used) * STEP_US
                found[n].unbusy += share * max(Fraction(), 1 - Fraction(reading.core_percent, own)) * STEP_US
    return found


@given(uses, tables)
def test_law_waste_is_what_every_moment_wastes(held: list[Use], table: Table) -> None:
    assert judged(CARD, held, table) == by_steps(CARD, held, table)


@given(uses, tables)
def test_law_held_is_what_is_charged_and_waste_is_no_more(held: list[Use], table: Table) -> None:
    found = judged(CARD, held, table)
    charged = cost.card_time(CARD, [Use(n, one.memory_mib, one.core_percent, one.start_us, one.end_us)
                                    for n, one in enumerate(held)])  # fmt: skip
    for n, one in enumerate(found):
        assert one.held == sum(us for (_, holder), us in charged.items() if holder == n)
        assert 0 <= one.unused <= one.measured <= one.held
        assert 0 <= one.unbusy <= one.measured


@given(uses, tables, st.integers(0, 3), st.integers(0, 3))
def test_law_more_use_is_never_more_waste(held: list[Use], table: Table, n: int, slot: int) -> None:
    before = judged(CARD, held, table)
    one = table.get((n, slot))
    if one is None or one.memory_mib is None or one.core_percent is None or n >= len(held):
        return
    after = judged(CARD, held, table | {(n, slot): Reading(one.memory_mib + 4000, one.core_percent + 10)})
    assert after[n].unused <= before[n].unused
    assert after[n].unbusy <= before[n].unbusy
    assert after[n].measured == before[n].measured


@given(uses)
def test_without_measurements_nothing_is_called_waste(held: list[Use]) -> None:
    assert all(one.measured == one.unused == one.unbusy == 0 for one in judged(CARD, held, {}))


def test_h64_the_one_of_four_quarters_that_is_idle_is_the_waste() -> None:
    held = [Use(f"p{n}", 10000, 25, 0, 6 * SLOT_US) for n in range(4)]
    table = {(n, slot): Reading(0 if n == 3 else 10000, 0 if n == 3 else 25) for n in range(4) for slot in range(6)}
    assert [one.unused for one in judged(CARD, held, table)] == [0, 0, 0, Fraction(6 * SLOT_US, 4)]


def test_h65_a_share_of_20_cores_that_is_fully_busy_wastes_nothing() -> None:
    held = [Use("p", 8000, 20, 0, SLOT_US)]
    (one,) = judged(CARD, held, {(0, 0): Reading(100, 20)})
    assert (one.held, one.unused, one.unbusy) == (Fraction(SLOT_US, 5), 0, 0)


def test_memory_that_was_asked_for_and_not_used_is_waste_of_a_busy_share() -> None:
    (one,) = judged(CARD, [Use("p", 20000, 20, 0, SLOT_US)], {(0, 0): Reading(4000, 20)})
    assert (one.unused, one.unbusy) == (Fraction(SLOT_US) * 3 / 10, 0)


def test_a_share_without_a_limit_of_cores_is_busy_by_the_cards() -> None:
    (one,) = judged(CARD, [Use("p", 20000, 0, 0, SLOT_US)], {(0, 0): Reading(4000, 75)})
    assert (one.unused, one.unbusy) == (0, Fraction(SLOT_US, 8))
