"""Many new rows of one model by one statement, from plain values: no model instance, no statement of a thousand values.

PostgreSQL takes them by COPY, SQLite by a statement that is prepared once. With `ledger` and `statements`, the only
module with SQL of a particular database. Must not know what a row means.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from django.db import connection, models

from accounting import guard

Prepare = Callable[[Any], Any]


def insert(model: type[models.Model], names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Insert a row for each sequence of values, which are of the fields `names` (a relation: its key, `node_id`) in
    that order. The other fields get their defaults; keys are drawn by the database.

    Raises DataError for a value that the database cannot keep, and guard.LedgerWriteRefused outside a ledger
    transaction.
    """
    guard.check(f"insert of {model.__name__}")
    plan = _plan(model, tuple(names), connection.vendor)
    if connection.vendor == "postgresql":
        _copy(plan, rows)
    else:
        with connection.cursor() as cursor:
            cursor.executemany(plan.sql, list(_prepared(plan, rows)))


class _Plan(NamedTuple):
    """prepares: what each given value goes through; None: nothing. rest: values of the other fields."""

    sql: str
    prepares: tuple[tuple[int, Prepare], ...]
    rest: tuple[Any, ...]


def _prepared(plan: _Plan, rows: Iterable[Sequence[Any]]) -> Iterator[list[Any]]:
    for row in rows:
        values = [*row, *plan.rest]
        for position, prepare in plan.prepares:
            values[position] = prepare(values[position])
        yield values


def _copy(plan: _Plan, rows: Iterable[Sequence[Any]]) -> None:
    with connection.cursor() as cursor, connection.wrap_database_errors, cursor.copy(plan.sql) as copy:
        for values in _prepared(plan, rows):
            copy.write_row(values)


@functools.lru_cache(maxsize=64)
def _plan(model: type[models.Model], names: tuple[str, ...], vendor: str) -> _Plan:
    fields = {one.attname: one for one in model._meta.concrete_fields if not one.primary_key}
    given, rest = [fields.pop(name) for name in names], list(fields.values())
    ordered = [*given, *rest]
    columns = ", ".join(f'"{one.column}"' for one in ordered)
    table = model._meta.db_table
    places = ", ".join(["%s"] * len(ordered))
    sql = f"COPY {table} ({columns}) FROM STDIN" if vendor == "postgresql" else ""
    prepares = [(position, found) for position, one in enumerate(ordered) if (found := _prepare(one)) is not None]
    defaults = tuple(one.get_default() for one in rest)
    return _Plan(sql or f"INSERT INTO {table} ({columns}) VALUES ({places})", tuple(prepares), defaults)  # noqa: S608


def _prepare(field: models.Field[Any, Any]) -> Prepare | None:
    """What makes a value of this field one that the database driver takes. Most are that already."""
    if isinstance(field, models.JSONField):
        return _json
    if isinstance(field, models.DateTimeField) and connection.vendor != "postgresql":
        return lambda value: field.get_db_prep_save(value, connection)
    return None


def _json(value: Any) -> str:
    """As Django writes it. Most are empty."""
    return json.dumps(value) if value else _EMPTY.get(type(value)) or json.dumps(value)


_EMPTY: dict[type, str] = {dict: "{}", list: "[]"}
