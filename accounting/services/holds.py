"""Holds: a person's own reservation on a device. Use of the device, of no namespace."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from accounting import ledger
from accounting.models import Device, Hold
from accounting.services import devices, edits, errors
from hami_platform.domain.sentences import phrase


@dataclass(frozen=True, slots=True)
class Amounts:
    """What a hold takes of its device."""

    memory_mib: int = 0
    core_percent: int = 0
    slots: int = 0


def hold_add(
    *,
    node: str,
    vendor: str,
    uuid: str,
    amounts: Amounts,
    expires_at: datetime | None = None,
    reason: str,
    actor: str = "",
) -> Hold:
    """Reserve a part of a device. It may exceed what is free now (then nothing new is placed), not the device itself.

    Raises InvalidInput.
    """
    reason = edits.reason_checked(reason)
    with ledger.transaction(cause="hold_add", actor=actor) as entry:
        device = devices.device_row(entry, node=node, vendor=vendor, uuid=uuid)
        row = Hold(cluster_id=entry.clock.cluster_id, device=device)
        values = _checked(device, amounts, expires_at, entry.at) | {"reason": reason, "created_by": actor}
        edits.put(entry, row, values, kind="hold", reason=reason)
    return row


def hold_change(
    *, hold_id: int, amounts: Amounts, expires_at: datetime | None = None, reason: str, actor: str = ""
) -> Hold:
    """Change what a running hold takes and until when. Raises InvalidInput."""
    reason = edits.reason_checked(reason)
    with ledger.transaction(cause="hold_change", actor=actor) as entry:
        row = _running(entry, hold_id)
        values = _checked(row.device, amounts, expires_at, entry.at)
        if any(getattr(row, name) != value for name, value in values.items()):
            values["reason"] = reason
        edits.put(entry, row, values, kind="hold", reason=reason)
    return row


def hold_end(*, hold_id: int, reason: str, actor: str = "") -> Hold:
    """Give back what a hold takes. The row stays as a record. Raises InvalidInput when it has ended already."""
    reason = edits.reason_checked(reason)
    with ledger.transaction(cause="hold_end", actor=actor) as entry:
        row = _running(entry, hold_id)
        edits.put(entry, row, {"in_force": False}, kind="hold", reason=reason)
    return row


def _running(entry: ledger.Entry, hold_id: int) -> Hold:
    ours = Hold.objects.select_related("device__node").filter(cluster=entry.clock.cluster_id)
    row = ours.filter(pk=hold_id).first()
    if row is None:
        raise errors.InvalidInput("hold", phrase("is gone"))
    if not row.in_force:
        raise errors.InvalidInput("hold", phrase("has ended: add a new one"))
    return row


def _checked(device: Device, amounts: Amounts, expires_at: datetime | None, at: datetime) -> dict[str, object]:
    if not (amounts.memory_mib or amounts.core_percent or amounts.slots):
        raise errors.InvalidInput("memory_mib", phrase("hold some memory, cores or slots"))
    for field, most in (
        ("memory_mib", device.memory_mib),
        ("core_percent", device.core_percent),
        ("slots", device.slots),
    ):
        if not 0 <= getattr(amounts, field) <= most:
            told = phrase("from 0 to %(most)s, what the device has", most=most)
            if field == "memory_mib":
                told = phrase("%(told)s; the unit is MiB, not bytes: 16 GiB is 16384", told=told)
            raise errors.InvalidInput(field, told)
    if expires_at is not None and expires_at <= at:
        raise errors.InvalidInput(
            "expires_at", phrase("lies in the past: it is %(now)s UTC", now=f"{at:%Y-%m-%d %H:%M}")
        )
    return {
        "memory_mib": amounts.memory_mib,
        "core_percent": amounts.core_percent,
        "slots": amounts.slots,
        "expires_at": expires_at,
    }
