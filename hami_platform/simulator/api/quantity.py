"""Kubernetes quantities as the API server stores them: parsed exactly, written in canonical form.

Source: Kubernetes apimachinery pkg/api/resource, Quantity.CanonicalizeBytes ("2000" is stored as "2k", "0.5" as
"500m", "1024Mi" as "1Gi"). Kept apart from the platform's own parser, so that the two can disagree in a test.
"""

from __future__ import annotations

import functools
import re
from fractions import Fraction

_TEXT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?\d+)?")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_NANO = 10**9
_MOST = Fraction(2**63 - 1)  # larger amounts are capped, not refused


class InvalidQuantity(ValueError):
    """The text is not a quantity; whoever sent the object is at fault."""


def value(text: object) -> Fraction:
    """The exact amount, rounded up to a nano as the server does. Raises InvalidQuantity."""
    return _parsed(str(text))[0]


def canonical(text: object) -> str:
    """The form in which the server gives the amount back. Raises InvalidQuantity."""
    return _canonical(str(text))


def whole(text: object) -> int:
    """The amount rounded up to a whole number."""
    exact = value(text)
    return -(-exact.numerator // exact.denominator)


def milli(text: object) -> int:
    """The amount in thousandths, rounded up: CPU."""
    exact = value(text) * 1000
    return -(-exact.numerator // exact.denominator)


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple[Fraction, str]:
    match = _TEXT.fullmatch(text)
    if match is None:
        raise InvalidQuantity(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    number, suffix = Fraction(match[1]), match[2] or ""
    if suffix in _BINARY[1:]:
        exact, form = number * 1024 ** _BINARY.index(suffix), "binary"
    elif suffix in _DECIMAL:
        exact, form = number * Fraction(10) ** _DECIMAL[suffix], "decimal"
    else:
        exact, form = number * Fraction(10) ** int(suffix[1:]), "exponent"
    nanos = exact * _NANO
    return min(Fraction(-(-nanos.numerator // nanos.denominator), _NANO), _MOST), form


@functools.lru_cache(maxsize=4096)
def _canonical(text: str) -> str:
    exact, form = _parsed(text)
    if form == "binary" and exact.denominator == 1 and abs(exact) >= 1024:
        return _binary_text(exact.numerator)
    return _decimal_text(exact, si=form != "exponent")


def _binary_text(amount: int) -> str:
    power = 0
    while amount % 1024 == 0 and power < len(_BINARY) - 1:
        amount //= 1024
        power += 1
    return f"{amount}{_BINARY[power]}"


def _decimal_text(exact: Fraction, *, si: bool) -> str:
    if exact == 0:
        return "0"
    mantissa, exponent = (exact * _NANO).numerator, -9
    while mantissa % 10 == 0:
        mantissa //= 10
        exponent += 1
    shift = exponent % 3
    mantissa, exponent = mantissa * 10**shift, exponent - shift
    if si and exponent in _SUFFIX:
        return f"{mantissa}{_SUFFIX[exponent]}"
    return f"{mantissa}e{exponent}" if exponent else str(mantissa)
