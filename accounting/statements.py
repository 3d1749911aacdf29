"""Statements of the hot paths: written out, or compiled by Django's ORM once instead of at each use.

Making a statement anew costs more than running it. What can be sent at once is: PostgreSQL takes several statements in
one message, each with a snapshot of its own, so that what follows a lock sees what was committed before it was given.
Must not know what a row means. With `ledger`, `bulk` and `lookups`, the only one with SQL of a particular database.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from django.db import connection, models

from accounting import guard


class Statement(NamedTuple):
    """SQL with its values."""

    sql: str
    values: Sequence[Any]


AT_ONCE = 16
"""Statements in one message."""


def run(statements: Iterable[Statement]) -> None:
    """Execute them in order, in few messages where the database takes several statements in one."""
    left = list(statements)
    several = AT_ONCE if connection.vendor == "postgresql" else 1
    with connection.cursor() as cursor:
        while left:
            now, left = left[:several], left[several:]
            values = tuple(itertools.chain.from_iterable(one.values for one in now))
            cursor.execute("; ".join(one.sql for one in now), values)


def fetch(statements: Sequence[Statement]) -> list[list[tuple[Any, ...]]]:
    """Execute them in order, at once where the database takes several statements in one message; the rows of each
    SELECT."""
    found: list[list[tuple[Any, ...]]] = []
    with connection.cursor() as cursor:
        if connection.vendor != "postgresql":
            for sql, values in statements:
                cursor.execute(sql, values)
                found.append(cursor.fetchall())
            return found
        values = tuple(itertools.chain.from_iterable(one.values for one in statements))
        cursor.execute("; ".join(one.sql for one in statements), values)
        for sql, _ in statements:
            found.append(cursor.fetchall() if sql.startswith("SELECT") else [])
            cursor.nextset()
    return found


def insertion(rows: Sequence[models.Model]) -> Statement:
    """Insert new rows of one model, without learning their keys."""
    model = type(rows[0])
    guard.check(f"insert of {model.__name__}")
    head, place, fields = _insertion(model)
    values = [one.get_db_prep_save(one.pre_save(row, add=True), connection) for row in rows for one in fields]
    return Statement(head + ", ".join([place] * len(rows)), values)


def insert(row: models.Model) -> None:
    """Insert one new row now; it gets its key."""
    statement = insertion([row])
    with connection.cursor() as cursor:
        if connection.features.can_return_columns_from_insert:
            cursor.execute(f"{statement.sql} RETURNING id", statement.values)
            row.pk = cursor.fetchone()[0]
        else:
            cursor.execute(statement.sql, statement.values)
            row.pk = cursor.lastrowid
    row._state.adding = False
    row._state.db = connection.alias


@functools.cache
def _insertion(model: type[models.Model]) -> tuple[str, str, tuple[Any, ...]]:
    fields = tuple(one for one in model._meta.concrete_fields if not one.primary_key)
    columns = ", ".join(f'"{one.column}"' for one in fields)
    place = f"({', '.join(['%s'] * len(fields))})"
    return f"INSERT INTO {model._meta.db_table} ({columns}) VALUES ", place, fields  # noqa: S608


def updating(row: models.Model, names: Iterable[str]) -> Statement:
    """Write these fields of one row."""
    model = type(row)
    guard.check(f"update of {model.__name__}")
    sql, fields = _updating(model, tuple(sorted(names)))
    values = [one.get_db_prep_save(getattr(row, one.attname), connection) for one in fields]
    return Statement(sql, (*values, row.pk))


@functools.lru_cache(maxsize=256)
def _updating(model: type[models.Model], names: tuple[str, ...]) -> tuple[str, tuple[Any, ...]]:
    fields = tuple(one for one in model._meta.concrete_fields if one.name in names)
    columns = ", ".join(f'"{one.column}" = %s' for one in fields)
    return f"UPDATE {model._meta.db_table} SET {columns} WHERE id = %s", fields  # noqa: S608


def deletion(row: models.Model) -> Statement:
    """Delete one row, by its key, that no other row names."""
    model = type(row)
    guard.check(f"delete of {model.__name__}")
    return Statement(f"DELETE FROM {model._meta.db_table} WHERE id = %s", (row.pk,))  # noqa: S608


class Query:
    """A query of Django's ORM, compiled at its first use. What was compiled serves every thread: a burst of binds has a
    hundred of them.

    make: gives the queryset for some values (numbers or texts, each of which must become one parameter as it is).
    """

    def __init__(self, make: Callable[..., models.QuerySet[Any]]) -> None:
        self._make = make
        self._known: dict[tuple[Any, ...], _Compiled] = {}

    def rows(self, *values: int | str) -> list[tuple[Any, ...]]:
        """The columns of each row, as `values_list` gives them."""
        (found,) = ask([self.asked(*values)])
        return found

    def asked(self, *values: int | str) -> Asked:
        """The query with its values, to be sent with others."""
        return Asked(self, values)

    def compiled(self, values: Sequence[int | str]) -> _Compiled:
        """For values of these types."""
        key = (connection.vendor, *map(type, values))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _compile(self._make, values)
        return known


class Asked(NamedTuple):
    """A query with its values. Equal ones have the same answer at the same moment."""

    query: Query
    values: tuple[int | str, ...]

    @property
    def statement(self) -> Statement:
        """As it is sent."""
        compiled = self.query.compiled(self.values)
        return Statement(compiled.sql, [self.values[i] if i is not None else same for i, same in compiled.values])

    def read(self, found: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """What the database answered, as `values_list` gives it."""
        return self.query.compiled(self.values).converted(found)


def ask(asked: Sequence[Asked]) -> list[list[tuple[Any, ...]]]:
    """The rows of each."""
    found = fetch([one.statement for one in asked])
    return [one.read(rows) for one, rows in zip(asked, found, strict=True)]


class _Compiled(NamedTuple):
    """values: for each parameter the number of the value it takes, or None and what it always is."""

    sql: str
    values: tuple[tuple[int | None, Any], ...]
    converters: tuple[tuple[int, Sequence[Any], Any], ...]

    def converted(self, found: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """As Django's own compiler does it."""
        rows = []
        for row in map(list, found):
            for position, converters, expression in self.converters:
                value = row[position]
                for converter in converters:
                    value = converter(value, expression, connection)
                row[position] = value
            rows.append(tuple(row))
        return rows


def _compile(make: Callable[..., models.QuerySet[Any]], values: Sequence[int | str]) -> _Compiled:
    marks = [_mark(number, type(value)) for number, value in enumerate(values)]
    compiler = make(*marks).query.get_compiler(connection=connection)
    sql, parameters = compiler.as_sql()
    found = [next((i for i, mark in enumerate(marks) if mark == one), None) for one in parameters]
    if {i for i in found if i is not None} != set(range(len(values))):
        raise TypeError("a value of a compiled query is no parameter of its SQL")
    converters = compiler.get_converters([column[0] for column in compiler.select[: compiler.col_count]])
    return _Compiled(
        sql,
        tuple(zip(found, parameters, strict=True)),
        tuple((position, *pair) for position, pair in converters.items()),
    )


def _mark(number: int, kind: type) -> int | str:
    """A value that nothing else in a query is equal to."""
    return (1 << 40) + number if kind is int else f"\x01value {number}"
