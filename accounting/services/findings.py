"""Drift and oddities that people should see: raised once while open, closed when repaired."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from accounting import ledger
from accounting.ledger import Entry
from accounting.models import Finding
from accounting.services import edits, errors
from hami_platform.domain.sentences import phrase


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
    open_ = Finding.objects.filter(cluster=cluster, kind=kind, subject__among=subjects, repaired_at=None)
    return set(open_.values_list("subject", flat=True))


def finding_close(entry: Entry, *, kind: str, subject: str, repair: str) -> None:
    """Close the open finding, if there is one."""
    open_ = Finding.objects.filter(cluster=entry.clock.cluster_id, kind=kind, subject=subject, repaired_at=None)
    open_.update(repaired_at=entry.at, repair=repair)


def finding_settle(*, finding_id: int, reason: str, actor: str = "") -> Finding:
    """A person has dealt with it; it is raised again should it still be so. Raises InvalidInput."""
    reason = edits.reason_checked(reason)
    with ledger.transaction(cause="finding_settle", actor=actor) as entry:
        row = Finding.objects.filter(cluster=entry.clock.cluster_id, pk=finding_id, repaired_at=None).first()
        if row is None:
            raise errors.InvalidInput("finding", phrase("is not open any more"))
        row.repaired_at, row.repair = entry.at, f"{actor}: {reason}"[:400]
        row.save(update_fields=["repaired_at", "repair"])
        entry.record("finding", row.pk, subject=str(row), reason=reason)
    return row
