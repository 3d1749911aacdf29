"""A running ledger transaction, as services see it: its place in the order, and what it writes.

`ledger.transaction()` makes it and writes it out. It must not know how the Clock is taken, nor what a row means.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import models

from accounting import bulk, statements
from accounting.models import Clock, Journal
from hami_platform.domain.rows import ClockRow


@dataclass
class Entry:
    """The running ledger transaction: its place in the order, its time, and what it has changed so far."""

    clock: Clock
    revision: int
    at: datetime
    cause: str
    actor: str
    rows: list[Journal] = field(default_factory=list)
    depth: int = 0
    gathers: bool = False
    charged: bool = False
    """Whether something took quota that this transaction's View does not know of."""
    journal: Sequence[tuple[int, str, str, str]] = ()
    """Of the revisions since the one that was asked for, as `ledger.journal_since` gives it; empty: none was."""
    first: dict[statements.Asked, list[tuple[Any, ...]]] = field(default_factory=dict)
    """What was asked together with the Clock, until it is taken."""
    _dirty: dict[int, tuple[models.Model, set[str]]] = field(default_factory=dict)
    _later: list[statements.Statement] = field(default_factory=list)

    def record(self, kind: str, key: str | int, **values: Any) -> None:
        """Journal that the row `key` of `kind` changed; `values` are what readers of the activity want to see."""
        self.rows.append(
            Journal(
                cluster_id=self.clock.cluster_id,
                revision=self.revision,
                at=self.at,
                kind=kind,
                key=str(key),
                cause=self.cause,
                actor=self.actor,
                values=values,
            )
        )

    def answer(self, asked: statements.Asked) -> list[tuple[Any, ...]]:
        """The rows of a query: as they came with the Clock, if it is asked for the first time and nothing that was
        written since could be read anyway; else as they are now."""
        found = self.first.pop(asked, None)
        if found is not None and (self.gathers or self.untouched):
            return found
        (found,) = statements.ask([asked])
        return found

    def save(self, row: models.Model, names: Iterable[str]) -> None:
        """Write these fields of a row: now, or with all the rest at the end of a block that gathers."""
        if not self.gathers:
            row.save(update_fields=list(names))
            return
        _, dirty = self._dirty.setdefault(id(row), (row, set()))
        dirty.update(names)

    def insert(self, rows: Sequence[models.Model]) -> None:
        """Write new rows of one model whose keys nobody needs."""
        if not rows:
            return
        statement = statements.insertion(rows)
        if self.gathers:
            self._later.append(statement)
        else:
            statements.run([statement])

    def delete(self, row: models.Model) -> None:
        """Take a row away that nothing else names."""
        if self.gathers:
            self._later.append(statements.deletion(row))
        else:
            statements.run([statements.deletion(row)])

    def flush(self) -> None:
        """Write what was gathered so far, so that it can be read."""
        gathered, self._dirty, self._later = self._gathered(), {}, []
        statements.run(gathered)

    def _gathered(self) -> list[statements.Statement]:
        return [*(statements.updating(row, names) for row, names in self._dirty.values()), *self._later]

    @property
    def untouched(self) -> bool:
        """Whether nothing has been recorded yet: then a View that was refreshed in this transaction is exact."""
        return not self.rows

    def stands_at(self, folded: ClockRow) -> bool:
        """Whether a View folded so far has all that was committed before this transaction."""
        clock = self.clock
        return folded == ClockRow(clock.revision, clock.tag, clock.incarnation, clock.compared)

    def write(self, end: Sequence[statements.Statement] = ()) -> None:
        """Give the recorded rows their revision, and send `end` with what is written last, if anything is. A
        transaction that changed nothing takes none."""
        gathered = self._gathered()
        if not self.rows:
            statements.run([*gathered, *end] if gathered else ())
            return
        tag = secrets.token_hex(8)
        for seq, row in enumerate(self.rows):
            row.seq, row.tag = seq, tag
        if len(self.rows) > MANY:
            statements.run(gathered)
            names = [one.attname for one in Journal._meta.concrete_fields if not one.primary_key]
            bulk.insert(Journal, names, ([getattr(row, name) for name in names] for row in self.rows))
            statements.run([_turn(self.rows[0], self.clock.pk), *end])
        else:
            statements.run([*gathered, statements.insertion(self.rows), _turn(self.rows[0], self.clock.pk), *end])


MANY = 50
"""Rows of one revision from which on a statement of their own is worth it."""
_TURN_SQL = f"UPDATE {Clock._meta.db_table} SET revision = %s, tag = %s WHERE id = %s"  # noqa: S608


def _turn(row: Journal, clock: int) -> statements.Statement:
    """Turn the Clock to the revision of this row."""
    return statements.Statement(_TURN_SQL, (row.revision, row.tag, clock))
