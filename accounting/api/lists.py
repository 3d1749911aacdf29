"""Lists: pages, filters, order, search, and the whole of it as CSV."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from django.core.exceptions import ValidationError as DjangoValidationError
from django.http import StreamingHttpResponse
from django_filters import rest_framework as django_filters
from rest_framework import exceptions, filters, generics, pagination, renderers, serializers
from rest_framework.request import Request

from accounting.api import base, tables

PAGE: Final = 100
PAGE_MOST: Final = 500
ROWS_MOST: Final = 200_000
"""Of a CSV file."""


class Pages(pagination.LimitOffsetPagination):
    """`limit` (at most 500) and `offset`."""

    default_limit = PAGE
    max_limit = PAGE_MOST

    def get_limit(self, request: Request) -> int:
        """Raises ValidationError for what is no number."""
        return _limit(request)

    def get_offset(self, request: Request) -> int:
        """Raises ValidationError for what is no number."""
        return _whole(request, "offset", 0, 2**31 - 1)

    def get_paginated_response_schema(self, schema: Any) -> Any:
        """As DRF's; all of it is always there."""
        return _enveloped(schema, {"count": {"type": "integer"}})


class Logs(pagination.CursorPagination):
    """`limit` and `cursor`: what is added meanwhile moves no page."""

    page_size = PAGE
    max_page_size = PAGE_MOST
    page_size_query_param = "limit"

    def get_ordering(self, request: Request, queryset: Any, view: Any) -> tuple[str, ...]:
        """The view's own order."""
        return tuple(view.log_order)

    def get_page_size(self, request: Request) -> int:
        """Raises ValidationError for what is no number."""
        return _limit(request)

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> Any:
        """Raises ValidationError for a cursor that none of our answers had."""
        try:
            return super().paginate_queryset(queryset, request, view)
        except (ValueError, DjangoValidationError) as fault:
            raise exceptions.ValidationError({"cursor": "take it from an answer's next"}) from fault

    def get_paginated_response_schema(self, schema: Any) -> Any:
        """As DRF's; all of it is always there."""
        return _enveloped(schema, {})


class Filters(django_filters.DjangoFilterBackend):
    """By columns."""


class Order(filters.OrderingFilter):
    """`ordering=name` or `-name`, several joined by commas."""

    def get_ordering(self, request: Request, queryset: Any, view: Any) -> Any:
        """Raises ValidationError for an order that there is not."""
        text = request.query_params.get(self.ordering_param, "")
        known = [name for name, _ in self.get_valid_fields(queryset, view, {"request": request})]
        for name in filter(None, (part.strip() for part in text.split(","))):
            if name.removeprefix("-") not in known:
                raise exceptions.ValidationError({"ordering": f"by {', '.join(known)}; - before it turns it round"})
        return super().get_ordering(request, queryset, view)

    def filter_queryset(self, request: Request, queryset: Any, view: Any) -> Any:
        """Ends with the key, so that pages never share a row."""
        ordering = self.get_ordering(request, queryset, view)
        return queryset.order_by(*ordering, "pk") if ordering else queryset


class ListEndpoint(base.Endpoint, generics.ListAPIView[Any]):
    """A list of rows, in pages, or all of it as CSV."""

    pagination_class: Any = Pages
    filter_backends: Any = (Filters, filters.SearchFilter, Order)
    renderer_classes: Any = (renderers.JSONRenderer, tables.Csv)
    search_fields: tuple[str, ...] = ()
    ordering_fields: tuple[str, ...] = ()
    file_name = "list"

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Knows which questions its filters answer."""
        if self.asked is not None:
            self.asked = (*self.asked, *self._parameters())
        super().initial(request, *args, **kwargs)

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Any:
        """A page; as CSV all rows, unless a page is asked for."""
        if request.accepted_renderer.format != "csv":
            return super().list(request, *args, **kwargs)
        rows = self.filter_queryset(self.get_queryset())
        return self.as_file(
            self.paginate_queryset(rows) if self.paged else rows[:ROWS_MOST].iterator(chunk_size=PAGE_MOST)
        )

    @property
    def paged(self) -> bool:
        """Whether a page is asked for."""
        return bool({"limit", "offset", "cursor"} & set(self.request.query_params))

    def as_file(self, rows: Iterable[Any] | None) -> StreamingHttpResponse:
        """Rows as a CSV file; `fields` chooses columns."""
        shape = self.get_serializer()
        names = _fields(self.request, shape)
        chosen = (_only(shape.to_representation(row), names) for row in rows or ())
        return tables.streamed(chosen, name=self.file_name, columns=columns(shape, names))

    def _parameters(self) -> Iterator[str]:
        yield from ("limit", "cursor") if self.pagination_class is Logs else ("limit", "offset")
        yield from getattr(getattr(self, "filterset_class", None), "base_filters", ())
        yield from ("q",) if self.search_fields else ()
        yield from ("ordering",) if self.ordering_fields else ()


class LinesEndpoint(ListEndpoint):
    """A list whose rows are no table's: `lines` tells them."""

    filter_backends: Any = ()

    def lines(self, first: int, most: int | None) -> tuple[list[Any], int]:
        """(rows from `first` on, at most so many; how many there are in all)."""
        raise NotImplementedError

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Any:
        """A page; as CSV all rows, unless a page is asked for."""
        csv = request.accepted_renderer.format == "csv"
        if csv and not self.paged:
            return self.as_file(self.lines(0, None)[0])
        pages = Pages()
        pages.request = request
        pages.limit, pages.offset = pages.get_limit(request), pages.get_offset(request)
        rows, pages.count = self.lines(pages.offset, pages.limit)
        return self.as_file(rows) if csv else pages.get_paginated_response(self.get_serializer(rows, many=True).data)


def columns(shape: Any, names: Iterable[str]) -> list[str]:
    """The header of a serializer's rows: nested ones' fields joined by dots."""
    found: list[str] = []
    for name, field in shape.fields.items():
        if names and name not in names:
            continue
        nested = isinstance(field, serializers.Serializer)
        found += [f"{name}.{inner}" for inner in field.fields] if nested else [name]
    return found


def choice(request: Request, name: str, known: Iterable[str]) -> str:
    """A query parameter that is one of these words, or empty. Raises ValidationError."""
    text, words = str(request.query_params.get(name, "")), list(known)
    if text and text not in words:
        raise exceptions.ValidationError({name: f"one of {', '.join(words)}"})
    return text


def _fields(request: Request, shape: Any) -> list[str]:
    names = [name.strip() for name in request.query_params.get("fields", "").split(",") if name.strip()]
    unknown = [name for name in names if name not in shape.fields]
    if unknown:
        raise exceptions.ValidationError({"fields": f"no {unknown[0]} here; there are {', '.join(shape.fields)}"})
    return names


def _only(row: dict[str, Any], names: list[str]) -> dict[str, Any]:
    return {name: row[name] for name in names} if names else row


def _limit(request: Request) -> int:
    return min(_whole(request, "limit", PAGE, 2**31 - 1, least=1), PAGE_MOST)


def _whole(request: Request, name: str, default: int, most: int, *, least: int = 0) -> int:
    text = str(request.query_params.get(name, default))
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and least <= int(text) <= most):
        raise exceptions.ValidationError({name: f"a whole number from {least} on"})
    return int(text)


def _enveloped(schema: Any, more: dict[str, Any]) -> dict[str, Any]:
    link = {"type": ["string", "null"], "format": "uri"}
    named = {**more, "next": link, "previous": link, "results": schema}
    return {"type": "object", "required": list(named), "properties": named}
