"""What was held of devices and not used, by what was measured: the other side of what a share costs.

A share is the larger of its parts of memory and of cores (see `cost`), since so much is kept from others. What was used
of the device is the larger of the measured parts, in the same way. What is held beyond that is unused. Time without a
measurement of both is not measured: nothing is said of it. So at any time held = unmeasured + used + unused, and nobody
is told to have wasted more than is charged.
Knows neither clocks nor rows: times are microseconds since any fixed moment, slots begin where they divide evenly.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from hami_platform.domain.cost import Card, Use, share_of

SLOT_US: Final = 600_000_000
"""A measurement is of ten minutes."""
ZERO: Final = Fraction()


@dataclass(frozen=True, slots=True)
class Reading:
    """What was measured of a share in a slot: memory at most, cores in percent of a device. None: not measured."""

    memory_mib: int | None
    core_percent: int | None


Readings = Callable[[int, int], Reading | None]
"""(number of the use, first microsecond of the slot) → what was measured."""


@dataclass(slots=True)
class Judged:
    """Microseconds of the whole card. held: as charged. measured: of that, while use was measured; unused: of that,
    beyond the larger of the measured parts. unbusy: of the measured time, as far as the share's own cores were idle."""

    held: Fraction = ZERO
    measured: Fraction = ZERO
    unused: Fraction = ZERO
    unbusy: Fraction = ZERO


def judged(card: Card, uses: Sequence[Use], readings: Readings) -> list[Judged]:
    """Of each use, in their order, over the time that the card was there."""
    found = [Judged() for _ in uses]
    shares = [share_of(card, use) for use in uses]
    for start, end in _steady(card, uses):
        here = [n for n, use in enumerate(uses) if use.start_us <= start and end <= use.end_us]
        total = sum((shares[n] for n in here), ZERO)
        for n in here:
            share = shares[n] / total if total > 1 else shares[n]
            found[n].held += share * (end - start)
            for reading, time in _times(readings, n, start, end).items():
                found[n].measured += share * time
                found[n].unused += max(ZERO, share - used_part(card, reading)) * time
                found[n].unbusy += share * (1 - busy_part(card, uses[n], reading)) * time
    return found


def _times(readings: Readings, number: int, start: int, end: int) -> dict[Reading, int]:
    """How long what was measured: slots in which the same was are taken together, since fractions are slow."""
    found: dict[Reading, int] = defaultdict(int)
    for slot in range(start - start % SLOT_US, end, SLOT_US):
        reading = readings(number, slot)
        if reading is not None and reading.memory_mib is not None and reading.core_percent is not None:
            found[reading] += min(end, slot + SLOT_US) - max(start, slot)
    return found


def used_part(card: Card, reading: Reading) -> Fraction:
    """The part of the card that was used: the larger of those of memory and cores; 1 at most."""
    parts = [
        Fraction(amount, total)
        for amount, total in ((reading.memory_mib, card.memory_mib), (reading.core_percent, card.core_percent))
        if amount and total
    ]
    return min(Fraction(1), max(parts, default=ZERO))


def busy_part(card: Card, use: Use, reading: Reading) -> Fraction:
    """How much of the share's own cores was busy; of the card's, where the share has no limit of cores."""
    own = use.core_percent or card.core_percent or 100
    return min(Fraction(1), Fraction(reading.core_percent or 0, own))


def _steady(card: Card, uses: Sequence[Use]) -> Iterator[tuple[int, int]]:
    """The stretches of the card's time in which its holders stay the same; from the first use on, until the last
    ends."""
    if not uses:
        return
    begin = max(card.start_us, min(use.start_us for use in uses))
    until = min(card.end_us, max(use.end_us for use in uses))
    if until <= begin:
        return
    edges = {at for use in uses for at in (use.start_us, use.end_us) if begin < at < until}
    yield from itertools.pairwise(sorted(edges | {begin, until}))
