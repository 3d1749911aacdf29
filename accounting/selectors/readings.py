"""How devices are, as their nodes' agents last read it: temperature, power, what slows them, XIDs.

A reading carries its age; where there is none, the reason is told instead. It must not know how that is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Max, Q
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounting import ledger
from accounting.models import Device, DeviceReading, Node
from accounting.selectors import measured
from hami_platform.domain.devices import DeviceKey

OTHERS: Final = "vendor"
"""Why there is none: our agent reads NVIDIA's devices only, and the annotations of other plugins tell health alone."""
READ_VENDOR: Final = "NVIDIA"

SLOWED: Final[Mapping[str, Promise]] = {
    "power_cap": _("its power limit"),
    "hardware": _("the hardware"),
    "sync_boost": _("other cards that it keeps step with"),
    "heat_software": _("heat, by the driver"),
    "heat_hardware": _("heat, by the hardware"),
    "power_brake": _("the machine's power brake"),
    "board_limit": _("the board's limit"),
    "reliability": _("a limit for reliability"),
}

TROUBLE: Final = ("heat", "hardware", "brake", "board", "reliab")
"""Parts of the words for what should not slow a device."""

Where = tuple[str, str, str]
"""Node, vendor, uuid."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One device's latest. None where driver or agent does not tell. slowed: why its clocks are held down; empty: they
    are not. old: too old to say something of now."""

    at: datetime
    memory_used_mib: int | None = None
    core_used_percent: int | None = None
    temperature_c: int | None = None
    temperature_limit_c: int | None = None
    power_w: int | None = None
    power_limit_w: int | None = None
    slowed: tuple[str, ...] | None = None
    xid: int | None = None
    xid_at: datetime | None = None
    ailment: str = ""
    old: bool = False

    @property
    def hot(self) -> bool:
        """Whether it is at the temperature at which it slows itself down."""
        now_c, limit_c = self.temperature_c, self.temperature_limit_c
        return now_c is not None and limit_c is not None and now_c >= limit_c

    @property
    def troubled(self) -> bool:
        """Whether something slows it that should not. A power limit, and partners, do so at full load."""
        return any(part in word for word in self.slowed or () for part in TROUBLE)

    @property
    def why_slowed(self) -> list[str | Promise]:
        """In words; one that is not known here as the agent says it."""
        return [SLOWED.get(word, word) for word in self.slowed or ()]


@dataclass(frozen=True, slots=True)
class Read:
    """What a page says of a device: its reading, or why there is none (OTHERS, or as measured)."""

    reading: Reading | None
    missing: str = ""


def device_read(device: Device) -> Read:
    """Of one device, whose node is loaded."""
    found = _found(Q(device=device)).get((device.node.name, device.vendor, device.uuid))
    return Read(found, "" if found else missing(device.node, device.vendor))


def node_read(node: Node, keys: Iterable[DeviceKey]) -> dict[DeviceKey, Read]:
    """Of these devices of a node."""
    found = _found(Q(device__node=node))
    read = {key: found.get((node.name, *key)) for key in keys}
    return {key: Read(one, "" if one else missing(node, key[0])) for key, one in read.items()}


def unread(read: Iterable[Read]) -> str:
    """Why nothing was read of any of these; empty where something was, or where they differ."""
    why = {one.missing for one in read}
    return why.pop() if len(why) == 1 else ""


def newest(node: Node) -> str:
    """When something was last read on a node, as text; for polls."""
    at = DeviceReading.objects.filter(device__node=node).aggregate(at=Max("at"))["at"]
    return f"{at.timestamp():.3f}" if at else "0"


def all_read() -> dict[Where, Reading]:
    """Of every device of the cluster that has one, old ones too."""
    return _found(Q(device__cluster=ledger.cluster_id()))


def read_of(nodes: Iterable[str]) -> dict[Where, Reading]:
    """Of every device of these nodes that has one."""
    return _found(Q(device__cluster=ledger.cluster_id(), device__node__name__in=set(nodes)))


def fresh_since() -> datetime:
    """What was read before this says nothing of now."""
    return ledger.database_time() - timedelta(seconds=measured.OLD_S)


def missing(node: Node, vendor: str) -> str:
    """Why nothing was read of a node's devices of a vendor."""
    if not node.agent:
        return measured.HAMIS_PLUGIN
    return measured.SILENT if vendor == READ_VENDOR else OTHERS


_COLUMNS: Final = (
    "at",
    "memory_used_mib",
    "core_used_percent",
    "temperature_c",
    "temperature_limit_c",
    "power_w",
    "power_limit_w",
    "slowed",
    "xid",
    "xid_at",
    "ailment",
)


def _found(which: Q) -> dict[Where, Reading]:
    since = fresh_since()
    rows = DeviceReading.objects.filter(which).order_by()
    found = {}
    for node, vendor, uuid, *told in rows.values_list(
        "device__node__name", "device__vendor", "device__uuid", *_COLUMNS
    ):
        values = dict(zip(_COLUMNS, told, strict=True))
        slowed = values["slowed"]
        values["slowed"] = None if slowed is None else tuple(word for word in slowed.split(",") if word)
        found[node, vendor, uuid] = Reading(**values, old=values["at"] < since)
    return found
