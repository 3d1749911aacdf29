"""Keeps what agents measured: one row for each device or share, and ten minutes; of how a device is, the latest only.
No decision reads either.

An agent is believed for the devices and pods that the ledger has on its node, and for nothing else. Repeating a report
changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db import InterfaceError, OperationalError

from accounting import ledger
from accounting.models import Device, DeviceReading, Measurement, Node, Pod, PodState
from accounting.services import liveness

SLOT_S: Final = 600
SAMPLES_MOST: Final = 2000
"""In one report: 16 cards with more than a hundred shares each."""
AGE_MOST_S: Final = 86_400
_COLUMNS: Final = ("at", "memory_used_mib", "memory_peak_mib", "core_used_percent")
_READ: Final = tuple(one.name for one in DeviceReading._meta.concrete_fields if not one.primary_key)

Key = tuple[str, str, str]
"""Device uuid, pod uid, container; the last two are empty for the whole device."""


@dataclass(frozen=True, slots=True)
class Condition:
    """How a whole device is. None, and an empty ailment, where its agent does not tell. xid: the last one heard,
    xid_age_s before the report's end."""

    temperature_c: int | None = None
    temperature_limit_c: int | None = None
    power_w: int | None = None
    power_limit_w: int | None = None
    slowed: Sequence[str] | None = None
    xid: int | None = None
    xid_age_s: int | None = None
    ailment: str = ""


@dataclass(frozen=True, slots=True)
class Sample:
    """One device's or share's use. None where it was not measured. condition: of whole devices."""

    uuid: str
    pod_uid: str = ""
    container: str = ""
    memory_used_mib: int | None = None
    core_used_percent: int | None = None
    condition: Condition = field(default_factory=Condition)

    @property
    def key(self) -> Key:
        return self.uuid, self.pod_uid, self.container


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of a report. ignored: samples of devices or pods that the ledger does not have on that node."""

    stored: int
    ignored: int


def measurements_store(*, node: str, age_s: int, samples: Sequence[Sample]) -> Stored | None:
    """Keep one report, measured until `age_s` ago. None: the ledger knows no such node. Raises LedgerUnavailable."""
    try:
        return _store(node, age_s, samples)
    except (OperationalError, InterfaceError) as fault:
        raise ledger.LedgerUnavailable(f"database: {fault}") from fault


def _store(node: str, age_s: int, samples: Sequence[Sample]) -> Stored | None:
    cluster = ledger.cluster_id()
    if not Node.objects.filter(cluster=cluster, name=node, retired=False).exists():
        return None
    liveness.report_heard(node=node)
    at = ledger.database_time() - timedelta(seconds=age_s)
    devices = _devices(cluster, node)
    known = {one.key: one for one in _known(cluster, node, samples, devices)}
    before = _before(cluster, node, slot_of(at), known)
    rows = [_row(cluster, node, at, one, before.get(one.key)) for one in known.values()]
    Measurement.objects.bulk_create(
        rows,
        batch_size=500,
        update_conflicts=True,
        unique_fields=["cluster", "node", "uuid", "pod_uid", "container", "slot"],
        update_fields=_COLUMNS,
    )
    _read_keep(at, known.values(), devices)
    return Stored(len(rows), len(samples) - len(rows))


def _devices(cluster: int, node: str) -> dict[str, tuple[int, datetime | None]]:
    """Of the node's devices by uuid: (key, when it was last read)."""
    rows = Device.objects.filter(cluster=cluster, node__name=node).values_list("uuid", "pk", "reading__at")
    return {uuid: (pk, at) for uuid, pk, at in rows}


def _read_keep(at: datetime, samples: Iterable[Sample], devices: Mapping[str, tuple[int, datetime | None]]) -> None:
    """Replace the latest reading of each whole device, unless a later one came first."""
    fresh = []
    for one in samples:
        pk, before = devices[one.uuid]
        if not one.pod_uid and (before is None or before <= at):
            fresh.append(_reading(pk, at, one))
    if fresh:
        DeviceReading.objects.bulk_create(fresh, update_conflicts=True, unique_fields=["device"], update_fields=_READ)


def _reading(device: int, at: datetime, one: Sample) -> DeviceReading:
    how = one.condition
    return DeviceReading(
        device_id=device,
        at=at,
        memory_used_mib=one.memory_used_mib,
        core_used_percent=one.core_used_percent,
        temperature_c=how.temperature_c,
        temperature_limit_c=how.temperature_limit_c,
        power_w=how.power_w,
        power_limit_w=how.power_limit_w,
        slowed=None if how.slowed is None else ",".join(how.slowed),
        xid=how.xid,
        xid_at=None if how.xid is None else at - timedelta(seconds=how.xid_age_s or 0),
        ailment=how.ailment,
    )


def slot_of(at: datetime) -> datetime:
    """Start of the ten minutes that a time lies in."""
    return datetime.fromtimestamp(at.timestamp() // SLOT_S * SLOT_S, UTC)


def _known(
    cluster: int, node: str, samples: Sequence[Sample], devices: Mapping[str, tuple[int, datetime | None]]
) -> Iterable[Sample]:
    """Those of devices and pods that are on the node."""
    here = Pod.objects.filter(cluster=cluster, node=node).exclude(state=PodState.ENDED).exclude(uid="")
    pods = {"", *here.values_list("uid", flat=True)}
    return (one for one in samples if one.uuid in devices and one.pod_uid in pods)


def _before(cluster: int, node: str, slot: datetime, keys: Mapping[Key, Sample]) -> dict[Key, Measurement]:
    if not keys:
        return {}
    rows = Measurement.objects.filter(cluster=cluster, node=node, slot=slot)
    return {(row.uuid, row.pod_uid, row.container): row for row in rows}


def _row(cluster: int, node: str, at: datetime, one: Sample, before: Measurement | None) -> Measurement:
    """The slot's row with this sample in it. A report that comes late raises the peak and leaves the latest."""
    late = before is not None and before.at > at
    latest = before if late and before is not None else one
    peaks = [
        amount for amount in (one.memory_used_mib, before.memory_peak_mib if before else None) if amount is not None
    ]
    return Measurement(
        cluster_id=cluster,
        slot=slot_of(at),
        at=before.at if late and before is not None else at,
        node=node,
        uuid=one.uuid,
        pod_uid=one.pod_uid,
        container=one.container,
        memory_used_mib=latest.memory_used_mib,
        memory_peak_mib=max(peaks, default=None),
        core_used_percent=latest.core_used_percent,
    )
