"""`field__among=values`: as `__in`, by one parameter however many values there are.

`__in` makes a parameter of each, and taking a statement of thousands apart costs more than running it; SQLite refuses
more than some ten thousand. Must not know who asks. With `ledger`, `statements` and `bulk`, the only module with SQL
of a particular database.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from django.db import models
from django.db.models.lookups import Lookup


@models.Field.register_lookup
class Among(Lookup):
    """Of plain fields: texts and numbers. A relation's is its key's (`node__pk__among`)."""

    lookup_name = "among"
    prepare_rhs = False

    def _values(self) -> list[Any]:
        values: Iterable[Any] = self.rhs
        return list(values)

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        """SQLite's."""
        lhs, params = self.process_lhs(compiler, connection)
        return f"{lhs} IN (SELECT value FROM json_each(%s))", [*params, json.dumps(self._values())]  # noqa: S608

    def as_postgresql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        """An array is one value."""
        lhs, params = self.process_lhs(compiler, connection)
        return f"{lhs} = ANY(%s)", [*params, self._values()]
