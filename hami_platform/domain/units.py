"""Kubernetes quantities read as integers, without floating point. Must not know: which resource a quantity is for.

Two readings exist in Kubernetes and they disagree on odd inputs: `whole` rounds up, `exact` refuses fractions.
"""

from __future__ import annotations

import functools
import re
from fractions import Fraction

from hami_platform.domain import errors
from hami_platform.domain.sentences import Sentence, phrase

Text = str | int | float
"""A quantity as JSON carries it: text mostly, a bare number where the author wrote one."""

MIB_CEILING = 10_000_000
"""More MiB than this on one device (9.5 TiB) is a wrong unit, not a request (decision D11)."""

INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
_MAX_LENGTH = 64
_MAX_EXPONENT = 64
"""10^64 is far past int64 on either side; larger exponents saturate instead of being computed."""

# Source: Kubernetes apimachinery pkg/api/resource, quantity.go and suffix.go.
_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<digits>[0-9]+\.?[0-9]*|\.[0-9]+)"
    r"(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[KMGTPE]i|[numkMGTPE]?))"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def whole(quantity: Text) -> int:
    """The quantity as a whole number, rounded up, as Kubernetes' Value() does.

    "2" -> 2, "1500m" -> 2, "-1500m" -> -1, "1Ki" -> 1024, "1e3" -> 1000. Beyond int64 it saturates.
    Raises InvalidQuantity.
    """
    return _whole(_text(quantity))


def exact(quantity: Text) -> int | None:
    """The quantity if it is written as an integer, else None. Raises InvalidQuantity.

    "4096", "1k" and "16Gi" are integers; "1.0", "16.0Gi", "100m" and "2000m" are not, as in Kubernetes' AsInt64().
    """
    return _exact(_text(quantity))


def hint(quantity: Text, unit_mib: int = 1) -> Sentence:
    """A sentence for somebody who wrote bytes where a number of MiB (or of unit_mib MiB) is asked.

    "16Gi" -> "the unit is MiB: write 16384". Only the unit where the number does not help. Raises nothing.
    """
    unit = "MiB" if unit_mib == 1 else f"{unit_mib} MiB"
    try:
        size = whole(quantity)
    except errors.InvalidQuantity:
        return phrase("the unit is %(unit)s", unit=unit)
    units = -(-size // (unit_mib * 2**20))
    if size < unit_mib * 2**20:
        return phrase("the unit is %(unit)s", unit=unit)
    return phrase("the unit is %(unit)s: write %(n)s", unit=unit, n=units)


def _text(quantity: Text) -> str:
    """What may be a quantity, as text."""
    text = str(quantity)
    if isinstance(quantity, bool) or len(text) > _MAX_LENGTH:
        raise errors.InvalidQuantity(f"not a quantity: {text[:_MAX_LENGTH]!r}")
    return text


# Thousands of nodes and pods write the same few amounts, and fractions are slow.
@functools.lru_cache(maxsize=1024)
def _whole(text: str) -> int:
    value = _fraction(_match(text))
    rounded = -(-value.numerator // value.denominator)
    return max(-_INT64_MAX, min(_INT64_MAX, rounded))


@functools.lru_cache(maxsize=1024)
def _exact(text: str) -> int | None:
    match = _match(text)
    if _places(match) < 0:
        return None
    value = int(_fraction(match))
    return value if -_INT64_MAX <= value <= _INT64_MAX else None


def _match(text: str) -> re.Match[str]:
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise errors.InvalidQuantity(f"not a quantity: {text!r}")
    return found


def _exponent(match: re.Match[str]) -> int:
    """Power of ten of a decimal quantity, cut to a range that can be computed."""
    if match["exponent"] is None:
        return _DECIMAL[match["suffix"]]
    return max(-2 * _MAX_EXPONENT, min(2 * _MAX_EXPONENT, int(match["exponent"])))


def _places(match: re.Match[str]) -> int:
    """Below 0 when digits remain behind the decimal point; "1.5k" has none left, "1.0" has one."""
    behind = len(match["digits"].partition(".")[2])
    if match["suffix"] in _BINARY:
        return -behind
    return _exponent(match) - behind


def _fraction(match: re.Match[str]) -> Fraction:
    number = Fraction(match["digits"])
    number = -number if match["sign"] == "-" else number
    if match["suffix"] in _BINARY:
        return number * (1 << _BINARY[match["suffix"]])
    return number * Fraction(10) ** _exponent(match)
