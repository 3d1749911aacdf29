"""What time on devices comes to: card-hours of whoever held a share, and of nobody; then money, to the cent.

A share of a card is the larger of its parts of memory and of cores: whoever holds a quarter of the memory and half of
the cores keeps half of the card from others. Where the shares on a card come to more than the card, each is charged in
proportion, so that a card is never charged more than once. What is left is idle. So at any time and for any prices
charges + idle = capacity × price, which holds exactly, since all sums are of whole microseconds and fractions.
Knows neither clocks nor rows: times are microseconds since any fixed moment, hours begin where they divide evenly.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeVar

HOUR_US: Final = 3_600_000_000
IDLE: Final = None
"""The holder of what nobody holds."""

H = TypeVar("H", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Card:
    """A device that was there from start to end, with what it offers."""

    memory_mib: int
    core_percent: int
    start_us: int
    end_us: int


@dataclass(frozen=True, slots=True)
class Use:
    """Somebody held this much of a card from start to end."""

    holder: Hashable
    memory_mib: int
    core_percent: int
    start_us: int
    end_us: int


def share_of(card: Card, use: Use) -> Fraction:
    """The part of the card that the use takes, from 0 to 1. Whoever holds a card without saying how much holds it
    whole: nothing was set that would stop it."""
    parts = [
        Fraction(held, total)
        for held, total in ((use.memory_mib, card.memory_mib), (use.core_percent, card.core_percent))
        if held and total
    ]
    return min(Fraction(1), max(parts, default=Fraction(1)))


def card_time(card: Card, uses: Iterable[Use]) -> dict[tuple[int, Hashable], Fraction]:
    """(hour, holder) → microseconds of the whole card, over the time that the card was there.

    hour: its first microsecond. Holder IDLE has what is left. The sum of an hour is the time that the card was there in
    it.
    """
    found: dict[tuple[int, Hashable], Fraction] = defaultdict(Fraction)
    known = [(use, share_of(card, use)) for use in uses]
    for start, end in _steady(card, [use for use, _ in known]):
        here = [(use.holder, share) for use, share in known if use.start_us <= start and end <= use.end_us]
        total = sum((share for _, share in here), Fraction())
        scale = 1 / total if total > 1 else Fraction(1)
        hour = start - start % HOUR_US
        for holder, share in here:
            found[hour, holder] += share * scale * (end - start)
        idle = (1 - total) * (end - start)
        if idle > 0:
            found[hour, IDLE] += idle
    return dict(found)


def _steady(card: Card, uses: Sequence[Use]) -> Iterator[tuple[int, int]]:
    """The stretches of the card's time, none over the end of an hour, in which its holders stay the same."""
    if card.end_us <= card.start_us:
        return
    edges = {card.start_us, card.end_us}
    edges |= {at for use in uses for at in (use.start_us, use.end_us) if card.start_us < at < card.end_us}
    first = card.start_us - card.start_us % HOUR_US + HOUR_US
    edges |= set(range(first, card.end_us, HOUR_US))
    times = sorted(edges)
    yield from itertools.pairwise(times)


def apportioned(parts: Mapping[H, Fraction], total: int | None = None) -> dict[H, int]:
    """Whole numbers near these parts that sum to the total (by default the rounded sum of the parts).

    By largest remainder: none differs from its part by 1 or more as long as the total is what the parts come to. Ties
    go to the first.
    """
    goal = round(sum(parts.values(), Fraction())) if total is None else total
    whole = {key: int(part // 1) for key, part in parts.items()}
    left = goal - sum(whole.values())
    order = sorted(parts, key=lambda key: parts[key] - whole[key], reverse=True)
    for number in range(abs(left)):
        whole[order[number % len(order)] if left > 0 else order[-1 - number % len(order)]] += 1 if left > 0 else -1
    return whole


def charges_cents(time_us: Mapping[tuple[H, int], int | Fraction], prices: Mapping[int, Fraction]) -> dict[H, int]:
    """Cents that each holder owes. time_us: (holder, group of cards) → microseconds of whole cards; prices: group →
    price of a card for an hour, in cents. A group without a price costs nothing.

    The sum is the exact price of all the time, rounded once.
    """
    owed: dict[H, Fraction] = defaultdict(Fraction)
    for (holder, group), time in time_us.items():
        owed[holder] += Fraction(time) * prices.get(group, Fraction()) / HOUR_US
    return apportioned(owed)
