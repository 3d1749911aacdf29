"""Devices, what is held on them, and shares of them. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

DeviceKey = tuple[str, str]
"""(vendor word, device uuid): unique on one node."""

Fact = str | int | float | bool
Custom = tuple[tuple[str, Fact], ...]
"""What a plugin says of a device beyond amounts (topology, sharing policy): (name, value), sorted by name."""


class ContainerKind(StrEnum):
    """The three container classes that hold devices at different times (design: lifecycle)."""

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


@dataclass(frozen=True, slots=True, order=True)
class MigPlacement:
    """Half-open range [start, start + size) of memory slices on a card."""

    start: int
    size: int


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A MIG geometry that a card offers: what an instance gets, and where it may lie."""

    name: str
    memory_mib: int
    core_percent: int
    slice_count: int
    placements: tuple[MigPlacement, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class MigUse:
    """One occupied placement."""

    profile: str
    placement: MigPlacement


@dataclass(frozen=True, slots=True)
class Device:
    """One registered device. The first block is observed, `cordoned` and `reserved_mib` are people's.

    memory_mib and core_percent are the registered totals (after the plugin's scaling); slots is the greatest number
    of sharers.
    reserved_mib lowers free memory only; percentages are of the registered memory. custom is for the vendor's strategy.
    """

    uuid: str
    index: int
    vendor: str
    model: str
    memory_mib: int
    core_percent: int
    slots: int
    numa: int = 0
    mode: str = ""
    healthy: bool = True
    mig_profiles: tuple[MigProfile, ...] = ()
    cordoned: bool = False
    reserved_mib: int = 0
    custom: Custom = ()

    @property
    def key(self) -> DeviceKey:
        return (self.vendor, self.uuid)

    def fact(self, name: str) -> Fact | None:
        """What the vendor's plugin says of the device under this name; None where it says nothing."""
        return next((value for key, value in self.custom if key == name), None)


Notes = tuple[tuple[str, str], ...]
"""Pod annotations that only a vendor's strategy understands: (key, value)."""


@dataclass(frozen=True, slots=True)
class Held:
    """What is held on one device by some set of holders.

    notes: what the holders' pods say to the vendor's strategy, once for each pod that holds any of the device.
    """

    slots: int = 0
    memory_mib: int = 0
    core_percent: int = 0
    mig: tuple[MigUse, ...] = ()
    notes: Notes = ()

    def __add__(self, other: Held) -> Held:
        return Held(
            self.slots + other.slots,
            self.memory_mib + other.memory_mib,
            self.core_percent + other.core_percent,
            self.mig + other.mig,
            self.notes + other.notes,
        )

    def __bool__(self) -> bool:
        return bool(self.slots or self.memory_mib or self.core_percent or self.mig)


NOTHING = Held()


@dataclass(frozen=True, slots=True)
class Share:
    """What one container was given on one device. container_index counts init containers first, then apps.

    model: the device's model when the share was given; kept with the share because a device may be retired before its
    pod ends.
    """

    container_index: int
    container: str
    kind: ContainerKind
    vendor: str
    uuid: str
    memory_mib: int
    core_percent: int
    mig: MigUse | None = None
    model: str = ""

    @property
    def key(self) -> DeviceKey:
        return (self.vendor, self.uuid)
