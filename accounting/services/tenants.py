"""Tenants: the tree that namespaces hang in. People's changes only."""

from __future__ import annotations

from accounting import ledger
from accounting.models import Tenant
from accounting.services import edits, errors
from hami_platform.domain.sentences import phrase


def tenant_save(
    *,
    name: str,
    parent: str = "",
    note: str = "",
    reason: str,
    actor: str = "",
    tenant_id: int | None = None,
    new: bool = False,
) -> Tenant:
    """Make a tenant, or change the one with this id (else of this name). `parent` is a tenant's name; empty: a root.

    new: there must be none of this name yet.
    Raises InvalidInput for an unknown parent, a loop, a name already taken, or a missing reason.
    """
    reason = edits.reason_checked(reason)
    with ledger.transaction(cause="tenant_save", actor=actor) as entry:
        row = _found(entry, name, tenant_id)
        edits.refuse_known(row, new=new)
        above = _parent(entry, parent)
        _refuse_loop(row, above)
        values = {
            "name": edits.text_checked(row, "name", name),
            "parent_id": above.pk if above else None,
            "note": edits.text_checked(row, "note", note),
        }
        edits.put(entry, row, values, kind="tenant", reason=reason)
    return row


def tenant_delete(*, tenant_id: int, reason: str, actor: str = "") -> None:
    """Delete a tenant without namespaces, quotas and children. Raises InvalidInput."""
    reason = edits.reason_checked(reason)
    with ledger.transaction(cause="tenant_delete", actor=actor) as entry:
        row = Tenant.objects.filter(cluster=entry.clock.cluster_id, pk=tenant_id).first()
        if row is None:
            raise errors.InvalidInput("tenant", phrase("is gone already"))
        edits.take_away(entry, row, kind="tenant", reason=reason)


def _found(entry: ledger.Entry, name: str, tenant_id: int | None) -> Tenant:
    ours = Tenant.objects.filter(cluster=entry.clock.cluster_id)
    named = ours.filter(name=name.strip()).first()
    if tenant_id is None:
        return named or Tenant(cluster_id=entry.clock.cluster_id)
    row = ours.filter(pk=tenant_id).first()
    if row is None:
        raise errors.InvalidInput("tenant", phrase("is gone"))
    if named is not None and named.pk != row.pk:
        raise errors.InvalidInput("name", phrase("there is a tenant %(name)s already", name=named.name))
    return row


def _parent(entry: ledger.Entry, name: str) -> Tenant | None:
    if not name:
        return None
    above = Tenant.objects.filter(cluster=entry.clock.cluster_id, name=name).first()
    if above is None:
        raise errors.InvalidInput("parent", phrase("there is no tenant %(name)s", name=name))
    return above


def _refuse_loop(row: Tenant, above: Tenant | None) -> None:
    if edits.is_new(row):
        return
    step = above
    while step is not None:
        if step.pk == row.pk:
            raise errors.InvalidInput(
                "parent",
                phrase("%(above)s lies under %(below)s: that would be a loop", above=str(above), below=str(row)),
            )
        step = step.parent
