"""Quotas: the limits that people set on namespaces and tenants."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.db.models import QuerySet, Sum

from accounting import ledger
from accounting.models import Device, Namespace, Quota
from accounting.services import edits, errors, scopes
from hami_platform.domain import quota as domain
from hami_platform.domain import units
from hami_platform.domain.sentences import phrase

ANY = domain.Selector()
RETURNED = "the while is over for which these limits were set"


def quota_set(
    *,
    namespace: str = "",
    tenant: str = "",
    name: str = "default",
    limits: domain.Limits,
    selector: domain.Selector = ANY,
    valid_from: datetime | None = None,
    valid_until: datetime | None = None,
    returns_at: datetime | None = None,
    reason: str,
    actor: str = "",
    expected_version: int | None = None,
    quota_id: int | None = None,
) -> Quota:
    """Make the quota `name` of one namespace or one tenant, or change it (by id: also its name).

    Its version rises by one. A namespace without a row gets one. returns_at: the limits hold until then, and go back by
    themselves to those before; another change without it makes them stay. expected_version: the version that the person
    saw; 0: it must be new; None: whatever. Raises InvalidInput, which names the field; Outdated when the version is
    another one.
    """
    reason = edits.reason_checked(reason)
    if valid_from and valid_until and valid_until <= valid_from:
        raise errors.InvalidInput("valid_until", phrase("must be after valid_from"))
    with ledger.transaction(cause="quota_set", actor=actor) as entry:
        row = _found(entry, namespace, tenant, name, quota_id)
        _refuse_outdated(row, expected_version)
        values: dict[str, Any] = {
            "name": edits.text_checked(row, "name", name),
            "vendor": scopes.vendor_checked(row, selector.vendor),
            "model_pattern": edits.text_checked(row, "model_pattern", selector.model_pattern),
            **limits_checked(limits, ceiling_mib=ceiling_mib()),
            "valid_from": valid_from,
            "valid_until": valid_until,
            "in_force": in_force(valid_from, valid_until, entry.at),
            **_return(row, returns_at, entry.at),
        }
        new = edits.is_new(row)
        if new or any(getattr(row, column) != value for column, value in values.items()):
            values |= {"reason": reason, "version": 1 if new else row.version + 1}
        _put(entry, row, values, reason)
    return row


def quotas_return(entry: ledger.Entry) -> int:
    """Limits that were set for a while go back; how many did. Call under the Clock."""
    due = list(quotas_to_return(entry.clock.cluster_id, entry.at).select_related("namespace"))
    for row in due:
        limits = {name: row.returns_to.get(name) for name in Quota.LIMITS}
        values = {**limits, "returns_at": None, "returns_to": {}, "reason": RETURNED, "version": row.version + 1}
        _put(entry, row, values, RETURNED)
    return len(due)


def quotas_to_return(cluster: int, now: datetime) -> QuerySet[Any]:
    """Quotas whose limits were set for a while that is over."""
    return Quota.objects.filter(cluster=cluster, returns_at__lte=now)


def _return(row: Quota, at: datetime | None, now: datetime) -> dict[str, Any]:
    """What is kept for the way back. A longer while still leads back to where it began."""
    if at is None:
        return {"returns_at": None, "returns_to": {}}
    if edits.is_new(row):
        raise errors.InvalidInput("returns_at", phrase("a new quota has nothing to go back to: use valid_until"))
    if at <= now:
        raise errors.InvalidInput(
            "returns_at", phrase("lies in the past: it is %(now)s UTC", now=f"{now:%Y-%m-%d %H:%M}")
        )
    return {"returns_at": at, "returns_to": row.returns_to or {name: getattr(row, name) for name in Quota.LIMITS}}


def quota_delete(*, quota_id: int, reason: str, actor: str = "", expected_version: int | None = None) -> None:
    """Lift a quota for good. Raises InvalidInput; Outdated when the version is another one."""
    reason = edits.reason_checked(reason)
    with ledger.transaction(cause="quota_delete", actor=actor) as entry:
        row = _by_id(entry, quota_id)
        _refuse_outdated(row, expected_version)
        edits.take_away(entry, row, kind="quota", reason=reason)


def limits_checked(limits: domain.Limits, *, ceiling_mib: int = units.MIB_CEILING) -> dict[str, int | None]:
    """Column → limit. Raises InvalidInput for negative ones and for memory that must have been meant in bytes (D11).

    ceiling_mib bounds the sum over the scope; what one pod or one device may have is bound by units.MIB_CEILING.
    """
    checked: dict[str, int | None] = {}
    for field, value in asdict(limits).items():
        if field.endswith("_mib"):
            _refuse_bytes(field, value, ceiling_mib if field == "memory_mib" else units.MIB_CEILING)
            checked[field] = edits.amount_checked(field, value, 2**63 - 1)
        else:
            checked[field] = edits.amount_checked(field, value)
    return checked


def in_force(valid_from: datetime | None, valid_until: datetime | None, at: datetime) -> bool:
    """Whether a moment of database time lies in [valid_from, valid_until)."""
    return (valid_from is None or valid_from <= at) and (valid_until is None or at < valid_until)


def _put(entry: ledger.Entry, row: Quota, values: dict[str, Any], reason: str) -> None:
    """A quota on a namespace that nobody has seen yet makes the namespace's row as well."""
    row.namespace = scopes.namespace_stored(entry, row.namespace, reason)
    scope = row.namespace.name if row.namespace is not None else ""
    edits.put(entry, row, values, kind="quota", reason=reason, scope=scope)


def _refuse_bytes(field: str, value: int | None, ceiling_mib: int) -> None:
    if value is not None and value > ceiling_mib:
        raise errors.InvalidInput(
            field,
            phrase(
                "%(value)s is too much: MiB, not bytes: 16 GiB is 16384 (%(hint)s)", value=value, hint=units.hint(value)
            ),
        )


def ceiling_mib() -> int:
    """MiB that a scope's sum may be limited to: more than the usual ceiling only where the cluster itself has more."""
    total = Device.objects.filter(cluster=ledger.cluster_id(), registered=True).aggregate(total=Sum("memory_mib"))
    return max(units.MIB_CEILING, total["total"] or 0)


def _refuse_outdated(row: Quota, expected: int | None) -> None:
    stored = 0 if edits.is_new(row) else row.version
    if expected is None or expected == stored:
        return
    if expected == 0:
        raise errors.Outdated("name", phrase("there is a quota %(name)s already", name=str(row)))
    raise errors.Outdated(
        "version",
        phrase(
            "you saw version %(expected)s, it is now %(stored)s: look at the newer one first",
            expected=expected,
            stored=stored,
        ),
    )


def _by_id(entry: ledger.Entry, quota_id: int) -> Quota:
    row = Quota.objects.filter(cluster=entry.clock.cluster_id, pk=quota_id).first()
    if row is None:
        raise errors.InvalidInput("quota", phrase("is gone"))
    return row


def _found(entry: ledger.Entry, namespace: str, tenant: str, name: str, quota_id: int | None) -> Quota:
    owner = scopes.scope_row(entry, namespace, tenant)
    scope: dict[str, Any] = {"namespace": owner} if isinstance(owner, Namespace) else {"tenant": owner}
    named = None if edits.is_new(owner) else Quota.objects.filter(**scope, name=name.strip()).first()
    if quota_id is None:
        return named or Quota(cluster_id=entry.clock.cluster_id, **scope)
    row = _by_id(entry, quota_id)
    if (row.namespace or row.tenant) != owner:
        raise errors.InvalidInput(
            "namespace" if namespace else "tenant", phrase("a quota stays with its scope: make another one")
        )
    if named is not None and named.pk != row.pk:
        raise errors.InvalidInput("name", phrase("there is a quota %(name)s already", name=str(named)))
    return row
