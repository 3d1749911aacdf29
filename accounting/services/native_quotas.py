"""Kubernetes ResourceQuota objects: each one's limits are rows of their own, and the least of them binds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from accounting import ledger
from accounting.models import NativeQuota
from accounting.services import findings
from hami_platform.domain import units
from hami_platform.domain.errors import InvalidQuantity
from hami_platform.domain.vendors.base import DeviceConfig

LIMIT_MAX = 2**63 - 1
"""What the database keeps. More is no limit that anything could reach."""

Key = tuple[str, str, str, str]
"""(namespace, object name, key in spec.hard, vendor)"""
UNIT = "quota-unit"
SUBJECT_MAX = 400
LIMIT_MAX = 2**63 - 1
"""What a row can hold; far above anything that limits."""


def native_quotas_observe(
    objects: Iterable[Mapping[str, Any]], *, config: DeviceConfig, complete: bool, fence: int | None = None
) -> int:
    """Write the limits of these ResourceQuota objects; with `complete` those of objects not among them are taken away.

    Status-only updates change nothing. Returns the number of rows that changed.
    """
    objects = list(objects)
    wanted = {key: limit for one in objects for key, limit in limits_of(one, config).items()}
    rows = {
        (row.namespace, row.object_name, row.resource_key, row.vendor): row
        for row in NativeQuota.objects.filter(cluster=ledger.cluster_id())
    }
    named = {_name(one) for one in objects}
    stale = [key for key in rows if key not in wanted and (complete or key[:2] in named)]
    changed = [key for key, (_, limit) in wanted.items() if key not in rows or rows[key].limit != limit]
    if not stale and not changed:
        return 0
    with ledger.transaction(cause="native_quotas_observe", fence=fence) as entry:
        for key in stale:
            pk = rows[key].pk
            rows[key].delete()
            entry.record("native", pk, removed="/".join(key[:3]))
        for key in changed:
            namespace, name, resource_key, vendor = key
            resource, limit = wanted[key]
            row, _ = NativeQuota.objects.update_or_create(
                cluster_id=ledger.cluster_id(),
                namespace=namespace,
                object_name=name,
                resource_key=resource_key,
                vendor=vendor,
                defaults={"resource": resource, "limit": limit},
            )
            entry.record("native", row.pk, namespace=namespace, name=name, resource=resource_key, limit=limit)
        for key in (*stale, *changed):
            _judge_unit(entry, key, wanted.get(key), config)
    return len(stale) + len(changed)


def _judge_unit(entry: ledger.Entry, key: Key, limit: tuple[str, int] | None, config: DeviceConfig) -> None:
    """A limit in bytes is no limit at all, which nobody notices. It is taken as it is, and told."""
    namespace, name, resource_key, word = key
    unit_mib = max(1, config.vendor(word).unit_mib) if limit is not None else 1
    subject = _subject(namespace, name, resource_key)
    if limit is None or limit[0] != NativeQuota.Resource.MEMORY or limit[1] <= units.MIB_CEILING:
        findings.finding_close(entry, kind=UNIT, subject=subject, repair="the limit is another or gone")
        return
    given = limit[1] // unit_mib
    message = f"{resource_key}: {given} limits nothing: {units.hint(str(given), unit_mib)}"
    findings.finding_raise(entry, kind=UNIT, subject=subject, message=message, evidence={"limit": given})


def native_quota_gone(*, namespace: str, name: str, fence: int | None = None) -> int:
    """This ResourceQuota object was deleted."""
    rows = NativeQuota.objects.filter(cluster=ledger.cluster_id(), namespace=namespace, object_name=name)
    if not rows.exists():
        return 0
    with ledger.transaction(cause="native_quota_gone", fence=fence) as entry:
        for row in (found := list(rows)):
            pk = row.pk
            row.delete()
            entry.record("native", pk, removed=f"{namespace}/{name}/{row.resource_key}")
            subject = _subject(namespace, name, row.resource_key)
            findings.finding_close(entry, kind=UNIT, subject=subject, repair="the object is gone")
        return len(found)


def limits_of(quota: Mapping[str, Any], config: DeviceConfig) -> dict[Key, tuple[str, int]]:
    """Key → (resource, limit) of one object. Only `limits.<name>` keys count (spec.hard), as in HAMi; a value that is
    not a whole number is ignored there and here."""
    namespace, name = _name(quota)
    found: dict[Key, tuple[str, int]] = {}
    for key, value in ((quota.get("spec") or {}).get("hard") or {}).items():
        resource_name = key.removeprefix("limits.") if key.startswith("limits.") else ""
        limit = _whole(value) if resource_name else None
        if limit is None:
            continue
        for vendor in config.vendors:
            if resource_name == vendor.resources.memory:
                found[namespace, name, key, vendor.word] = (
                    NativeQuota.Resource.MEMORY,
                    min(limit * max(1, vendor.unit_mib), LIMIT_MAX),
                )
            elif resource_name == vendor.resources.cores:
                found[namespace, name, key, vendor.word] = (NativeQuota.Resource.CORES, limit)
    return found


def _subject(namespace: str, name: str, resource_key: str) -> str:
    return f"{namespace}/{name}: {resource_key}"[:SUBJECT_MAX]


def _whole(value: object) -> int | None:
    """A whole number; what is none, or no quantity at all, limits nothing."""
    try:
        return units.exact(str(value))
    except InvalidQuantity:
        return None


def _name(quota: Mapping[str, Any]) -> tuple[str, str]:
    meta = quota.get("metadata") or {}
    return meta.get("namespace") or "default", meta.get("name") or ""
