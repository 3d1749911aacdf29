"""Reads what limits pods into the domain's plain values: namespaces, tenants, quotas. See `loading`.

It must not decide anything.
"""

from __future__ import annotations

from typing import Any

from accounting.models import Quota
from hami_platform.domain import quota, rows


def namespaces(query: Any) -> dict[str, rows.NamespaceRow]:
    """By name."""
    return {
        values[0]: rows.NamespaceRow(*values) for values in query.values_list("name", "tenant_id", "mode").order_by()
    }


def tenants(query: Any) -> dict[int, rows.TenantRow]:
    """By key."""
    return {values[0]: rows.TenantRow(*values) for values in query.values_list("pk", "name", "parent_id").order_by()}


def quotas(query: Any) -> dict[int, rows.QuotaRow]:
    """By key, in force or not."""
    columns = (
        "pk",
        "name",
        "namespace__name",
        "tenant_id",
        "tenant__name",
        "vendor",
        "model_pattern",
        "in_force",
        *Quota.LIMITS,
    )
    found = {}
    for pk, name, namespace, tenant, tenant_name, vendor, pattern, in_force, *limits in query.values_list(
        *columns
    ).order_by():
        rule = quota.Rule(
            f"{namespace or tenant_name}/{name}",
            quota.Selector(vendor, pattern),
            quota.Limits(**dict(zip(Quota.LIMITS, limits, strict=True))),
        )
        found[pk] = rows.QuotaRow(pk, rule, namespace, tenant, in_force)
    return found


def natives(query: Any) -> dict[int, rows.NativeRow]:
    """By key."""
    columns = ("pk", "namespace", "vendor", "resource", "limit", "object_name")
    return {pk: rows.NativeRow(*values) for pk, *values in query.values_list(*columns).order_by()}
