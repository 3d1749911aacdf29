"""Which price holds for a model on a day."""

from __future__ import annotations

from datetime import date
from fractions import Fraction

from hami_platform.domain.prices import PriceRow, price_of


def price(number: int, pattern: str = "*", day: int = 1, vendor: str = "NVIDIA") -> PriceRow:
    return PriceRow(number, vendor, pattern, date(2026, 1, day), Fraction(100), "EUR")


def chosen(prices: list[PriceRow], model: str = "NVIDIA A100-40G", day: int = 10) -> int | None:
    found = price_of(prices, "NVIDIA", model, date(2026, 1, day))
    return found.id if found else None


def test_latest_price_that_has_begun() -> None:
    prices = [price(1, day=1), price(2, day=5), price(3, day=20)]
    assert [chosen(prices, day=day) for day in (1, 4, 5, 19, 20)] == [1, 1, 2, 2, 3]
    assert price_of(prices, "NVIDIA", "A100", date(2025, 12, 31)) is None


def test_the_most_specific_pattern_wins_over_a_later_one() -> None:
    assert chosen([price(1, "*A100*"), price(2, "*", day=5)]) == 1
    assert chosen([price(1, "*A100*"), price(2, "*A100-40G", day=5)]) == 2


def test_other_vendors_and_models_have_no_price() -> None:
    assert chosen([price(1, vendor="AMD"), price(2, "*H100*")]) is None


def test_a_device_of_unknown_model_has_the_price_of_no_pattern_only() -> None:
    assert chosen([price(1, "*A100*")], model="") is None
    assert chosen([price(1, "")], model="") == 1
