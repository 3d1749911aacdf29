"""Quantities: suffix x fraction x sign, both readings, and the unit hint."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_platform.domain import errors, units

SUFFIXES = {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1)}
SUFFIXES |= {name: Fraction(1000**power) for power, name in enumerate(("k", "M", "G", "T", "P", "E"), 1)}
SUFFIXES |= {name: Fraction(1024**power) for power, name in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}


@pytest.mark.parametrize(
    "text, value",
    [
        ("2", 2),
        (7, 7),
        (1.5, 2),
        ("1500m", 2),
        ("-1500m", -1),
        ("1Ki", 1024),
        ("16Gi", 17179869184),
        ("5k", 5000),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("1e-3", 1),
        ("0.1", 1),
        (".5", 1),
        ("5.", 5),
        ("+3", 3),
        ("99.5", 100),
        ("9e99", 2**63 - 1),
        ("1e999999999", 2**63 - 1),
        ("0e999999999", 0),
        ("1e-999999999", 1),
    ],
)
def test_whole_rounds_up(text: units.Text, value: int) -> None:
    assert units.whole(text) == value


@pytest.mark.parametrize(
    "text, value",
    [("4096", 4096), ("1k", 1000), ("16Gi", 17179869184), ("2e3", 2000), ("1e1", 10), ("1.5k", 1500), ("-1", -1)],
)
def test_exact_reads_integers(text: str, value: int) -> None:
    assert units.exact(text) == value


@pytest.mark.parametrize("text", ["1.0", "16.0Gi", "1.5", "100m", "2000m", "50.5", "1e-1", "9Ei", "99999999999G"])
def test_exact_refuses_what_is_not_written_as_an_int64(text: str) -> None:
    assert units.exact(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "Gi",
        "1gi",
        "1KI",
        "1e",
        "1e1.5",
        "--1",
        "1,5",
        "nan",
        "inf",
        "0x10",
        "1_000",
        "٣",
        True,
        "1" * 65,
    ],
)
def test_other_texts_are_no_quantities(text: units.Text) -> None:
    with pytest.raises(errors.InvalidQuantity):
        units.whole(text)
    with pytest.raises(errors.InvalidQuantity):
        units.exact(text)


@given(st.integers(-(10**9), 10**9), st.integers(0, 10**6), st.sampled_from(sorted(SUFFIXES)))
def test_law_whole_is_the_ceiling_of_the_written_number(integral: int, behind: int, suffix: str) -> None:
    value = (abs(integral) + Fraction(behind, 10 ** len(str(behind)))) * (-1 if integral < 0 else 1) * SUFFIXES[suffix]
    limit = 2**63 - 1
    text = f"{integral}.{behind}{suffix}"
    assert units.whole(text) == max(-limit, min(limit, -(-value.numerator // value.denominator)))


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert units.exact(text) in (None, units.whole(text))
    except errors.InvalidQuantity:
        pass


@pytest.mark.parametrize(
    "text, unit_mib, sentence",
    [
        ("16Gi", 1, "the unit is MiB: write 16384"),
        ("16.0Gi", 1, "the unit is MiB: write 16384"),
        ("17179869185", 1, "the unit is MiB: write 16385"),
        ("16Gi", 256, "the unit is 256 MiB: write 64"),
        ("4", 1, "the unit is MiB"),
        ("4", 256, "the unit is 256 MiB"),
        ("lots", 1, "the unit is MiB"),
    ],
)
def test_hint_names_the_unit_and_the_number_to_write(text: str, unit_mib: int, sentence: str) -> None:
    assert str(units.hint(text, unit_mib)) == sentence
