"""Tables of pages as CSV: `?format=csv&table=<name>` at the page's own address, so with its filters and its roles.

A table gives all its rows, not only those that the page shows, and is written while it is read. Names of columns are
English, as in REST, whatever language the page has. It must not know what a table is of.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse

from accounting.api import tables
from hami_platform import env

Rows = Iterable[Mapping[str, Any]]
Tables = Mapping[str, Callable[[], Rows]]
"""Name of a table → its rows; nothing is read before they are asked for."""


def asked(request: HttpRequest) -> bool:
    """Whether the request is for one of the page's tables."""
    return request.GET.get("format") == "csv"


def answer(request: HttpRequest, page: str, found: Tables) -> HttpResponse:
    """The table as a file. Raises Http404 for one that the page does not have."""
    name = request.GET.get("table", "")
    if name not in found:
        raise Http404(f"no table {name} on this page")
    rows = iter(found[name]())
    first = list(itertools.islice(rows, 1))  # a fault of the ledger is answered as such, not as half a file
    named = page if page == name else f"{page}-{name}"
    return file(itertools.chain(first, rows), f"{env.current().cluster}-{named}")


def file(rows: Rows, name: str, columns: Iterable[str] = ()) -> HttpResponse:
    """Rows as a file of that name, without ending. columns: of its first line, else the first row's."""
    streamed: Any = tables.streamed(rows, name=name, columns=columns)
    found: HttpResponse = streamed  # a page's answer in all but its class
    return found
