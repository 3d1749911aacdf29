"""Answers as CSV: rows of any shape as lines, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.http import StreamingHttpResponse
from rest_framework import renderers

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What spreadsheets run when a cell begins with it. Source: OWASP, CSV Injection."""


class Csv(renderers.BaseRenderer):
    """`Accept: text/csv` or `?format=csv`. Lists are streamed; what comes here is one row, or one page."""

    media_type = "text/csv"
    format = "csv"
    charset = "utf-8"

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        """The row or the page's rows."""
        rows = data.get("results", [data]) if isinstance(data, dict) else data
        return "".join(lines(rows or [])).encode()


class _Line:
    """What `csv` writes to: keeps the last line."""

    text = ""

    def write(self, text: str) -> None:
        self.text = text


def streamed(rows: Iterable[Mapping[str, Any]], *, name: str, columns: Iterable[str] = ()) -> StreamingHttpResponse:
    """An answer that is written while it is read."""
    answer = StreamingHttpResponse(lines(rows, columns), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return answer


def lines(rows: Iterable[Mapping[str, Any]], columns: Iterable[str] = ()) -> Iterator[str]:
    """The header, then a line for each row; nested names are joined by dots. columns: those of the header, else the
    first row's."""
    line, header = _Line(), list(columns)
    writer = csv.writer(line)
    if header:
        writer.writerow(header)
        yield line.text
    for row in rows:
        flat = dict(_flat(row, ""))
        if not header:
            header = list(flat)
            writer.writerow(header)
            yield line.text
        writer.writerow([cell(flat.get(name)) for name in header])
        yield line.text


def cell(value: Any) -> str:
    """A value as a cell: nothing for none, words for truth, and no text that a spreadsheet would run."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        value = json.dumps(value, ensure_ascii=False)
    text = str(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(FORMULA) else text


def _flat(row: Mapping[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value
