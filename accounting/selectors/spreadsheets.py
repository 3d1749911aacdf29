"""Tables as CSV that a spreadsheet may open: no cell of it is ever run as a formula.

It must not know what a table says.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

_STARTS_A_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
"""Source: OWASP, "CSV Injection"."""


def csv_lines(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """One line after the other, with the header first. Numbers stay numbers; text that a spreadsheet would run begins
    with an apostrophe; None is empty."""
    yield _line(header)
    for row in rows:
        yield _line([cell(one) for one in row])


def cell(value: Any) -> Any:
    """The value as it may stand in a cell."""
    if value is None:
        return ""
    if isinstance(value, str) and value.startswith(_STARTS_A_FORMULA):
        return f"'{value}"
    return value


def _line(row: Sequence[Any]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(row)
    return out.getvalue()
