"""How a person's change of one row is written: one history row with reason and author, one Journal row.

It must not know what the row means; the services of each noun check that.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import models

from accounting import ledger
from accounting.services import errors
from hami_platform.domain import sentences
from hami_platform.domain.sentences import Sentence, phrase

REASON_LIMIT = 2000
INT32_MAX = 2**31 - 1


def reason_checked(reason: str) -> str:
    """The reason without surrounding blanks. Raises InvalidInput when there is none."""
    text = reason.strip()
    if not text:
        raise errors.InvalidInput("reason", phrase("say why: the reason is kept with the change"))
    if len(text) > REASON_LIMIT:
        raise errors.InvalidInput("reason", phrase("at most %(n)s characters", n=REASON_LIMIT))
    return text


def amount_checked(field: str, value: int | None, ceiling: int = INT32_MAX) -> int | None:
    """The amount if it is none, or from 0 to the ceiling. Raises InvalidInput."""
    if value is None or 0 <= value <= ceiling:
        return value
    raise errors.InvalidInput(
        field, phrase("must not be negative") if value < 0 else phrase("at most %(n)s", n=ceiling)
    )


def text_checked(row: models.Model, field: str, value: str) -> str:
    """A text that fits the column and passes its validators. Raises InvalidInput."""
    column: Any = row._meta.get_field(field)
    try:
        return str(column.clean(value.strip(), row))
    except ValidationError as fault:
        raise errors.InvalidInput(field, " ".join(fault.messages)) from fault


def put(
    entry: ledger.Entry,
    row: models.Model,
    values: Mapping[str, Any],
    *,
    kind: str,
    key: str | int | None = None,
    reason: str,
    scope: str = "",
) -> bool:
    """Set the values on the row and write it. False, and nothing written, when nothing differs.

    `key` None: the row's primary key, known only after a first save. scope: the namespace whose people may read of it.
    """
    new = is_new(row)
    changed = {name: value for name, value in values.items() if new or getattr(row, name) != value}
    if not new and not changed:
        return False
    for name, value in values.items():
        setattr(row, name, value)
    _sign(row, entry.actor, reason)
    row.save()
    told = {name: plain(value) for name, value in changed.items()} | {"reason": reason, "subject": str(row)}
    if scope:
        told["namespace"] = scope
    entry.record(kind, row.pk if key is None else key, **told)
    return True


def take_away(entry: ledger.Entry, row: models.Model, *, kind: str, key: str | int | None = None, reason: str) -> None:
    """Delete the row. Raises InvalidInput when other rows need it."""
    key, subject = row.pk if key is None else key, str(row)
    _sign(row, entry.actor, reason)
    try:
        row.delete()
    except models.ProtectedError as fault:
        needed = sorted({(str(one._meta.verbose_name_raw), str(one)) for one in fault.protected_objects})[:5]
        named = sentences.listed([phrase("%(kind)s %(name)s", kind=Sentence(kind), name=name) for kind, name in needed])
        raise errors.InvalidInput("", phrase("still needed by %(names)s", names=named)) from fault
    entry.record(kind, key, reason=reason, deleted=True, subject=subject)


def is_new(row: models.Model) -> bool:
    """Whether the row is not stored yet."""
    return bool(row._state.adding)


def kind_of(row: models.Model) -> Sentence:
    """What the row is, as people call it."""
    return Sentence(str(row._meta.verbose_name_raw))


def refuse_known(row: models.Model, *, new: bool) -> None:
    """Raises InvalidInput when the row must be new and is stored already."""
    if new and not is_new(row):
        raise errors.InvalidInput(
            "name", phrase("there is a %(kind)s %(name)s already", kind=kind_of(row), name=str(row))
        )


def plain(value: Any) -> Any:
    """The value as JSON can carry it."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value


def _sign(row: Any, actor: str, reason: str) -> None:
    """What simple-history writes beside the row. The author is looked up, so that commands and tasks sign as well."""
    row._change_reason = reason
    row._history_user = get_user_model()._default_manager.filter(username=actor).first() if actor else None
