"""Law 12: pieces by hour sum to the whole; charges and idle time are capacity × price."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from hami_platform.domain import cost
from hami_platform.domain.cost import HOUR_US, IDLE, Card, Use

CARD = Card(memory_mib=40960, core_percent=100, start_us=0, end_us=HOUR_US)
STEP_US = HOUR_US // 8
moments = st.integers(0, 24).map(lambda eighths: eighths * STEP_US)
uses = st.builds(
    Use,
    st.sampled_from(("a", "b", "c")),
    st.sampled_from((0, 1, 10, 20, 30)),
    st.sampled_from((0, 25, 100)),
    moments,
    moments,
)
cards = st.builds(Card, st.sampled_from((0, 30, 40)), st.sampled_from((0, 100)), moments, moments)


def by_eighths(card: Card, held: list[Use]) -> dict[tuple[int, object], Fraction]:
    """The same, looking at each eighth of an hour for itself."""
    found: dict[tuple[int, object], Fraction] = {}
    for start in range(card.start_us, card.end_us, STEP_US):
        shares: dict[object, Fraction] = {}
        for use in held:
            if use.start_us <= start < use.end_us:
                shares[use.holder] = shares.get(use.holder, Fraction()) + cost.share_of(card, use)
        total = sum(shares.values(), Fraction())
        if total < 1:
            shares[IDLE] = 1 - total
        for holder, share in shares.items():
            key = (start // HOUR_US * HOUR_US, holder)
            found[key] = found.get(key, Fraction()) + share / max(Fraction(1), total) * STEP_US
    return found


@given(cards, st.lists(uses, max_size=6))
def test_law_12_pieces_by_hour_sum_to_the_time_the_card_was_there(card: Card, held: list[Use]) -> None:
    pieces = cost.card_time(card, held)
    assert pieces == by_eighths(card, held)
    assert sum(pieces.values()) == max(0, card.end_us - card.start_us)
    assert all(piece > 0 for piece in pieces.values())


times = st.dictionaries(
    st.tuples(st.sampled_from((IDLE, "a", "b", "c")), st.integers(0, 3)), st.integers(0, 9 * HOUR_US), max_size=9
)
prices = st.dictionaries(st.integers(0, 2), st.fractions(0, 1000, max_denominator=10_000))


@given(times, prices)
def test_law_12_charges_and_idle_are_capacity_times_price(
    time_us: dict[tuple[str | None, int], int], price: dict[int, Fraction]
) -> None:
    owed = cost.charges_cents(time_us, price)
    exact = sum((time * price.get(group, Fraction()) / HOUR_US for (_, group), time in time_us.items()), Fraction())
    assert sum(owed.values()) == round(exact)
    for holder, cents in owed.items():
        own = [time * price.get(group, Fraction()) / HOUR_US for (who, group), time in time_us.items() if who == holder]
        assert abs(cents - sum(own, Fraction())) < 1


@given(st.dictionaries(st.integers(), st.fractions(0, 100), max_size=6), st.integers(-20, 700))
def test_parts_are_apportioned_without_loss(parts: dict[int, Fraction], total: int) -> None:
    assert sum(cost.apportioned(parts, total if parts else 0).values()) == (total if parts else 0)


def test_h64_four_quarters_of_a_card_for_an_hour_are_one_card_hour() -> None:
    quarters = [Use(f"pod{i}", 10240, 25, 0, HOUR_US) for i in range(4)]
    assert cost.card_time(CARD, quarters) == {(0, f"pod{i}"): Fraction(HOUR_US, 4) for i in range(4)}


def test_a_share_is_the_larger_of_memory_and_cores() -> None:
    assert cost.share_of(CARD, Use("a", 10240, 50, 0, 1)) == Fraction(1, 2)
    assert cost.share_of(CARD, Use("a", 30720, 50, 0, 1)) == Fraction(3, 4)


def test_a_card_held_without_amounts_is_held_whole() -> None:
    assert cost.share_of(CARD, Use("a", 0, 0, 0, 1)) == 1
    assert cost.share_of(Card(0, 0, 0, 1), Use("a", 5, 5, 0, 1)) == 1


def test_a_card_is_never_charged_twice() -> None:
    pieces = cost.card_time(CARD, [Use("a", 40960, 0, 0, HOUR_US), Use("b", 0, 100, 0, HOUR_US)])
    assert pieces == {(0, "a"): Fraction(HOUR_US, 2), (0, "b"): Fraction(HOUR_US, 2)}
