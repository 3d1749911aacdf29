"""Limits as they were at some time: from the history, names of what is gone included."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from accounting import ledger
from accounting.models import Namespace, Quota, Tenant
from accounting.selectors.access import Reach


def quotas_as_of(at: datetime, reach: Reach) -> list[Quota]:
    """The quotas that there were then, within the reach of today; unsaved rows, `in_force` as it was then."""
    history: Any = Quota.history
    rows: list[Quota] = [row for row in history.as_of(at) if row.cluster_id == ledger.cluster_id()]
    _name(rows, "namespace", Namespace)
    _name(rows, "tenant", Tenant)
    for row in rows:
        starts, ends = row.valid_from or at, row.valid_until
        row.in_force = starts <= at and (ends is None or at < ends)
    return sorted((row for row in rows if _seen(row, reach)), key=_order)


def _seen(row: Quota, reach: Reach) -> bool:
    if row.namespace is not None:
        return reach.sees(row.namespace.name)
    return row.tenant_id is not None and reach.sees_tenant(row.tenant_id)


def _order(row: Quota) -> tuple[str, str, str]:
    return row.namespace.name if row.namespace else "", row.tenant.name if row.tenant else "", row.name


def _name(rows: Iterable[Quota], scope: str, model: Any) -> None:
    """Put the scopes into the rows, of which history keeps the keys only."""
    rows = list(rows)
    keys = {getattr(row, f"{scope}_id") for row in rows} - {None}
    found = model.objects.in_bulk(keys)
    for gone in model.history.filter(id__in=keys - set(found)).order_by("history_id"):
        found[gone.id] = gone.instance
    for row in rows:
        key = getattr(row, f"{scope}_id")
        setattr(row, scope, found.get(key))
        setattr(row, f"{scope}_id", key)
