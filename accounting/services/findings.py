"""Drift and oddities that people should see: raised once while open, closed when repaired."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from accounting.ledger import Entry
from accounting.models import Finding


def finding_raise(
    entry: Entry, *, kind: str, subject: str, message: str, evidence: dict[str, Any], repair: str = ""
) -> None:
    """Open a finding, or renew the open one of this kind and subject. With `repair` it is recorded as repaired at
    once."""
    cluster = entry.clock.cluster_id
    values = {"message": message, "evidence": evidence, "last_seen_at": entry.at, "repair": repair}
    if repair:
        values["repaired_at"] = entry.at
    open_ = Finding.objects.filter(cluster=cluster, kind=kind, subject=subject, repaired_at=None)
    if not open_.update(**values):
        Finding.objects.create(cluster_id=cluster, kind=kind, subject=subject, found_at=entry.at, **values)


def subjects_open(entry: Entry, *, kind: str, subjects: Collection[str]) -> set[str]:
    """Those of these subjects about which a finding of this kind is open."""
    cluster = entry.clock.cluster_id
    open_ = Finding.objects.filter(cluster=cluster, kind=kind, subject__in=subjects, repaired_at=None)
    return set(open_.values_list("subject", flat=True))


def finding_close(entry: Entry, *, kind: str, subject: str, repair: str) -> None:
    """Close the open finding, if there is one."""
    open_ = Finding.objects.filter(cluster=entry.clock.cluster_id, kind=kind, subject=subject, repaired_at=None)
    open_.update(repaired_at=entry.at, repair=repair)
