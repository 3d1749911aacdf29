"""What people decide about a device: cordon, reserve, note. Never an observed column."""

from __future__ import annotations

from accounting import ledger
from accounting.models import Device
from accounting.services import edits, errors
from hami_platform.domain.sentences import phrase


def device_edit(
    *,
    node: str,
    vendor: str,
    uuid: str,
    cordoned: bool | None = None,
    reserved_mib: int | None = None,
    note: str | None = None,
    reason: str,
    actor: str = "",
) -> Device:
    """Change a device's human columns; None leaves a column as it is. Pods that run there stay.

    Raises InvalidInput for an unknown device or a reserve above its memory.
    """
    reason = edits.reason_checked(reason)
    with ledger.transaction(cause="device_edit", actor=actor) as entry:
        row = device_row(entry, node=node, vendor=vendor, uuid=uuid)
        values: dict[str, object] = {}
        if cordoned is not None:
            values["cordoned"] = cordoned
        if reserved_mib is not None:
            values["reserved_mib"] = _reserve(row, reserved_mib)
        if note is not None:
            values["note"] = edits.text_checked(row, "note", note)
        edits.put(entry, row, values, kind="device", key=f"{node}/{vendor}/{uuid}", reason=reason)
    return row


def device_cordon(*, node: str, vendor: str, uuid: str, cordoned: bool, reason: str, actor: str = "") -> Device:
    """Place nothing new on the device, or allow it again. Raises InvalidInput."""
    return device_edit(node=node, vendor=vendor, uuid=uuid, cordoned=cordoned, reason=reason, actor=actor)


def device_reserve(*, node: str, vendor: str, uuid: str, reserved_mib: int, reason: str, actor: str = "") -> Device:
    """Keep MiB of the device back from pods for good, for example for the driver. Raises InvalidInput."""
    return device_edit(node=node, vendor=vendor, uuid=uuid, reserved_mib=reserved_mib, reason=reason, actor=actor)


def device_row(entry: ledger.Entry, *, node: str, vendor: str, uuid: str) -> Device:
    """The stored row. Raises InvalidInput when there is none."""
    ours = Device.objects.select_related("node").filter(cluster=entry.clock.cluster_id)
    row = ours.filter(node__name=node, vendor=vendor, uuid=uuid).first()
    if row is None:
        raise errors.InvalidInput(
            "device",
            phrase("there is no %(vendor)s device %(uuid)s on node %(node)s", vendor=vendor, uuid=uuid, node=node),
        )
    return row


def _reserve(row: Device, reserved_mib: int) -> int:
    if reserved_mib > row.memory_mib:
        raise errors.InvalidInput(
            "reserved_mib",
            phrase(
                "the device has %(memory_mib)s MiB; the unit is MiB, not bytes: 16 GiB is 16384",
                memory_mib=row.memory_mib,
            ),
        )
    return edits.amount_checked("reserved_mib", reserved_mib) or 0
