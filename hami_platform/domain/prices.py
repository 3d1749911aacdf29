"""Which price holds for a model on a day. It must not know where prices are kept or who asks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from fractions import Fraction

from hami_platform.domain import quota


@dataclass(frozen=True, slots=True)
class PriceRow:
    """What a whole device of the vendor's models that match the pattern costs for an hour, from a day on."""

    id: int
    vendor: str
    model_pattern: str
    valid_from: date
    hour_cents: Fraction
    currency: str


def price_of(prices: Iterable[PriceRow], vendor: str, model: str, day: date) -> PriceRow | None:
    """The price of a model on a day, or None.

    The most specific pattern wins: the one with the most characters that are no wildcard; among equal patterns the
    latest that has begun.
    """
    fitting = [one for one in prices if one.valid_from <= day and _fits(one, vendor, model)]
    return max(fitting, key=lambda one: (_specific(one.model_pattern), one.valid_from, one.id), default=None)


def _fits(price: PriceRow, vendor: str, model: str) -> bool:
    return quota.covers(quota.Selector(price.vendor, price.model_pattern), vendor, model)


def _specific(pattern: str) -> int:
    return sum(1 for letter in pattern if letter not in "*?")
