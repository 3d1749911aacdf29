"""What limits and budgets are of: one namespace or one tenant, and which devices count. It must not know amounts."""

from __future__ import annotations

from django.db import models

from accounting import ledger
from accounting.models import Namespace, Tenant
from accounting.services import device_config, edits, errors, namespaces
from hami_platform.domain.sentences import phrase

Scope = Namespace | Tenant


def scope_row(entry: ledger.Entry, namespace: str, tenant: str) -> Scope:
    """The row of the one that is named; a new one, not saved yet, for a namespace that nobody has seen.

    Raises InvalidInput for both, none, or a tenant that there is not.
    """
    if bool(namespace) == bool(tenant):
        raise errors.InvalidInput("namespace", phrase("name one namespace or one tenant"))
    return _namespace(entry, namespace) if namespace else _tenant(entry, tenant)


def namespace_stored(entry: ledger.Entry, row: Namespace | None, reason: str) -> Namespace | None:
    """The namespace, written if nobody had seen it yet."""
    if row is None or not edits.is_new(row):
        return row
    name, row.name = row.name, ""
    named = {"name": namespaces.name_checked(row, name)}
    edits.put(entry, row, named, kind="namespace", key=named["name"], reason=reason)
    return row


def vendor_checked(row: models.Model, text: str) -> str:
    """The word of a configured vendor, or none: what counts nobody's devices would say nothing. Raises InvalidInput."""
    word = edits.text_checked(row, "vendor", text)
    words = [vendor.word for vendor in device_config.device_config().vendors]
    if word and word != getattr(row, "vendor", "") and word not in words:
        raise errors.InvalidInput(
            "vendor", phrase("%(word)s is not configured: one of %(words)s", word=word, words=", ".join(words))
        )
    return word


def _namespace(entry: ledger.Entry, name: str) -> Namespace:
    row = namespaces.namespace_row(entry, name)
    row.name = row.name or name.strip()
    return row


def _tenant(entry: ledger.Entry, name: str) -> Tenant:
    row = Tenant.objects.filter(cluster=entry.clock.cluster_id, name=name).first()
    if row is None:
        raise errors.InvalidInput("tenant", phrase("there is no tenant %(name)s", name=name))
    return row
