"""Namespaces: their tenant and what happens over quota. People's changes only."""

from __future__ import annotations

import re

from accounting import ledger
from accounting.models import Mode, Namespace, Pod, PodState, Tenant
from accounting.services import edits, errors
from hami_platform.domain.sentences import phrase

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def namespace_save(
    *,
    name: str,
    tenant: str | None = None,
    mode: str | None = None,
    reason: str,
    actor: str = "",
    new: bool = False,
) -> Namespace:
    """Make a namespace's row, or change it. `tenant` is a name, empty for none; None leaves tenant or mode as it is.

    new: there must be none of this name yet.
    Raises InvalidInput for an unknown tenant or mode.
    """
    reason = edits.reason_checked(reason)
    if mode is not None and mode not in Mode.values:
        raise errors.InvalidInput("mode", phrase("one of %(names)s", names=", ".join(Mode.values)))
    with ledger.transaction(cause="namespace_save", actor=actor) as entry:
        row = namespace_row(entry, name)
        edits.refuse_known(row, new=new)
        values: dict[str, object] = {"name": name_checked(row, name)}
        if tenant is not None:
            values["tenant_id"] = _tenant_id(entry, tenant)
        if mode is not None:
            values["mode"] = mode
        edits.put(entry, row, values, kind="namespace", key=row.name or name.strip(), reason=reason)
    return row


def namespace_delete(*, name: str, reason: str, actor: str = "") -> None:
    """Delete the row of a namespace that holds nothing and has no quota. Raises InvalidInput."""
    reason = edits.reason_checked(reason)
    with ledger.transaction(cause="namespace_delete", actor=actor) as entry:
        row = Namespace.objects.filter(cluster=entry.clock.cluster_id, name=name).first()
        if row is None:
            raise errors.InvalidInput("namespace", phrase("is gone already"))
        pods = Pod.objects.filter(cluster=entry.clock.cluster_id, namespace=name).exclude(state=PodState.ENDED).count()
        if pods:
            raise errors.InvalidInput(
                "", phrase("%(n)s pods of %(name)s ask for devices; its row would come back at once", n=pods, name=name)
            )
        edits.take_away(entry, row, kind="namespace", key=name, reason=reason)


def namespace_row(entry: ledger.Entry, name: str) -> Namespace:
    """The stored row, or a new one that is not saved yet."""
    found = Namespace.objects.filter(cluster=entry.clock.cluster_id, name=name.strip()).first()
    return found or Namespace(cluster_id=entry.clock.cluster_id)


def name_checked(row: Namespace, name: str) -> str:
    """The name of a namespace as Kubernetes allows it. Raises InvalidInput.

    One that is stored already stays what it is. Source: RFC 1123 labels, as in k8s.io/apimachinery's validation.
    """
    text = edits.text_checked(row, "name", name)
    if text != row.name and _LABEL.fullmatch(text) is None:
        raise errors.InvalidInput(
            "name", phrase("small letters, digits and dashes only, as Kubernetes names namespaces")
        )
    return text


def _tenant_id(entry: ledger.Entry, name: str) -> int | None:
    if not name:
        return None
    row = Tenant.objects.filter(cluster=entry.clock.cluster_id, name=name).first()
    if row is None:
        raise errors.InvalidInput("tenant", phrase("there is no tenant %(name)s", name=name))
    return row.pk
