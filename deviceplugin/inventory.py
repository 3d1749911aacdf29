"""The port to a node's physical GPUs, and the inventory that is read from a file.

The file stands for hardware wherever there is none: demo, tests, a dry run on a real node. It is
read again on every scan, so that editing it is how a card breaks or recovers.
Must not know: kubelet, Kubernetes, or shares.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from deviceplugin.monitor_use import CardUse, Condition, Measuring
from hami_platform.domain import devices

HAMI_CORE = "hami-core"
MIG = "mig"


class InventoryError(Exception):
    """The GPUs cannot be read, or an instance cannot be made. The message names the card or field."""


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A MIG instance that exists now. Zero is a valid instance id (NVML)."""

    uuid: str
    gpu_instance_id: int
    compute_instance_id: int


@dataclass(frozen=True, slots=True)
class CardProfile:
    """A MIG geometry a card can realise, and how many of it fit on the empty card."""

    profile: devices.MigProfile
    instances: int


@dataclass(frozen=True, slots=True)
class Partition:
    """A MIG instance as it is found on a card, whoever made it."""

    instance: MigInstance
    profile: str
    placement: devices.MigPlacement
    healthy: bool = True


@dataclass(frozen=True, slots=True)
class Peer:
    """How well another card of the node is reached. symmetric False: the two sides disagree, and the score is 0."""

    uuid: str
    score: int
    symmetric: bool = True


@dataclass(frozen=True, slots=True)
class Card:
    """One physical GPU as the node has it now, before any scaling. numa, minor: None where unknown.

    ailment: why it is unhealthy. partitions: only of cards in MIG mode. minor: of `/dev/nvidia<minor>`.
    numbered: whether the driver counts it under this index now; when a card is gone it may count others anew.
    """

    uuid: str
    index: int
    model: str
    memory_mib: int
    numa: int | None = None
    mode: str = HAMI_CORE
    healthy: bool = True
    profiles: tuple[CardProfile, ...] = ()
    ailment: str = ""
    partitions: tuple[Partition, ...] = ()
    minor: int | None = None
    peers: tuple[Peer, ...] = ()
    numbered: bool = True

    @property
    def label(self) -> str:
        """The index by which a runtime finds this card; empty where that is not certain."""
        return str(self.index) if self.numbered else ""


class Inventory(Protocol):
    """A node's GPUs. Implementations are safe to call from several threads."""

    def scan(self) -> tuple[Card, ...]:
        """All cards, lost ones included as unhealthy, in index order. Raises InventoryError."""
        ...

    def realise(self, card: str, use: devices.MigUse) -> MigInstance:
        """The instance at exactly this placement, made if absent. Raises InventoryError."""
        ...

    def dissolve(self, card: str, use: devices.MigUse) -> None:
        """Destroy the instance at this placement; absent is fine. Raises InventoryError."""
        ...

    def cut(self, card: str) -> None:
        """Put the card in MIG mode; it may be so already. Raises InventoryError, also while somebody computes on it."""
        ...


class Without:
    """An inventory that does not show some cards, named by uuid or index."""

    def __init__(self, cards: Inventory, left_out: frozenset[str | int]) -> None:
        self._cards = cards
        self._left_out = left_out

    def scan(self) -> tuple[Card, ...]:
        """See Inventory."""
        return tuple(card for card in self._cards.scan() if not {card.uuid, card.index} & self._left_out)

    def realise(self, card: str, use: devices.MigUse) -> MigInstance:
        """See Inventory."""
        return self._cards.realise(card, use)

    def dissolve(self, card: str, use: devices.MigUse) -> None:
        """See Inventory."""
        self._cards.dissolve(card, use)

    def cut(self, card: str) -> None:
        """See Inventory."""
        self._cards.cut(card)

    def use(self) -> tuple[CardUse, ...]:
        """See monitor_use.Measuring."""
        found = self._cards.use() if isinstance(self._cards, Measuring) else ()
        return tuple(one for one in found if not {one.uuid, one.index} & self._left_out)


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base: a mistyped key is an error, not a default."""


class _Placement(_Record, frozen=True):
    start: int
    size: int


class _Profile(_Record, frozen=True):
    name: str
    memory_mib: int
    core_percent: int
    slices: int
    instances: int
    placements: tuple[_Placement, ...] = ()


class _Instance(_Record, frozen=True):
    uuid: str
    profile: str
    start: int
    size: int
    gpu_instance_id: int
    compute_instance_id: int = 0


class _Reading(_Record, frozen=True):
    """What a driver would tell of the card. See monitor_use.Condition."""

    temperature_c: int | None = None
    temperature_limit_c: int | None = None
    power_w: int | None = None
    power_limit_w: int | None = None
    slowed: tuple[str, ...] | None = None
    xid: int | None = None


class _Device(_Record, frozen=True):
    uuid: str
    model: str
    memory_mib: int
    index: int | None = None
    numa: int | None = None
    health: Literal["healthy", "unhealthy"] = "healthy"
    mode: Literal["hami-core", "mig"] = "hami-core"
    mig_profiles: tuple[_Profile, ...] = ()
    mig_devices: tuple[_Instance, ...] = ()
    minor: int | None = None
    peers: dict[str, int] = {}
    memory_used_mib: int | None = None
    core_used_percent: int | None = None
    reading: _Reading | None = None
    ailment: str = "the inventory file says so"


class _File(_Record, frozen=True):
    devices: tuple[_Device, ...]


class FileInventory:
    """GPUs as a JSON file lists them: `{"devices": [{"uuid", "model", "memory_mib", …}]}`.

    Instances named under `mig_devices` are used as they are; others are made up, always with the
    same uuid for the same card, profile and placement, so that a restart finds them again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def scan(self) -> tuple[Card, ...]:
        """See Inventory."""
        listed = self._read().devices
        cards = tuple(_card(device, position) for position, device in enumerate(listed))
        _refuse_duplicates(cards)
        return tuple(sorted(cards, key=lambda card: card.index))

    def realise(self, card: str, use: devices.MigUse) -> MigInstance:
        """See Inventory."""
        device = self._device(card)
        for known in device.mig_devices:
            if (known.profile, known.start, known.size) == (use.profile, use.placement.start, use.placement.size):
                return MigInstance(known.uuid, known.gpu_instance_id, known.compute_instance_id)
        _refuse_impossible(device, use)
        name = f"{card}/{use.profile}/{use.placement.start}+{use.placement.size}"
        return MigInstance(f"MIG-{uuid.uuid5(uuid.NAMESPACE_OID, name)}", use.placement.start, 0)

    def dissolve(self, card: str, use: devices.MigUse) -> None:
        """Nothing exists apart from the file, so nothing is left behind."""

    def cut(self, card: str) -> None:
        """The file alone says what mode a card is in."""
        raise InventoryError(f"{self._path}: card {card} has the mode that the file says")

    def use(self) -> tuple[CardUse, ...]:
        """See monitor_use.Measuring. The cards of which the file says how they are used."""
        listed = enumerate(self._read().devices)
        return tuple(one for place, device in listed if (one := _use(device, place)) is not None)

    def _device(self, card: str) -> _Device:
        for device in self._read().devices:
            if device.uuid == card:
                return device
        raise InventoryError(f"{self._path}: no card {card}")

    def _read(self) -> _File:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_File)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InventoryError(f"{self._path}: {error}") from error


def _card(device: _Device, position: int) -> Card:
    if not device.uuid or any(mark in device.uuid for mark in ",:;"):
        raise InventoryError(f"devices[{position}].uuid: {device.uuid!r} may not be empty or hold , : ;")
    if device.memory_mib <= 0:
        raise InventoryError(f"devices[{position}].memory_mib: must be positive, not {device.memory_mib}")
    return Card(
        uuid=device.uuid,
        index=position if device.index is None else device.index,
        model=device.model,
        memory_mib=device.memory_mib,
        numa=device.numa,
        mode=device.mode,
        healthy=device.health == "healthy",
        ailment="" if device.health == "healthy" else device.ailment,
        minor=device.minor,
        peers=tuple(Peer(uuid_, score) for uuid_, score in sorted(device.peers.items())),
        partitions=tuple(_partition(one) for one in device.mig_devices) if device.mode == MIG else (),
        profiles=tuple(_profile(profile) for profile in device.mig_profiles),
    )


def _use(device: _Device, position: int) -> CardUse | None:
    used_mib, percent = device.memory_used_mib, device.core_used_percent
    if used_mib is None and percent is None and device.reading is None:
        return None
    card = _card(device, position)
    used_bytes = None if used_mib is None else used_mib << 20
    condition = Condition(ailment=card.ailment)
    if (told := device.reading) is not None:
        condition = Condition(
            told.temperature_c,
            told.temperature_limit_c,
            told.power_w,
            told.power_limit_w,
            told.slowed,
            told.xid,
            None if told.xid is None else 0,
            card.ailment,
        )
    return CardUse(card.uuid, card.index, card.model, used_bytes, percent, condition=condition)


def _partition(record: _Instance) -> Partition:
    instance = MigInstance(record.uuid, record.gpu_instance_id, record.compute_instance_id)
    return Partition(instance, record.profile, devices.MigPlacement(record.start, record.size))


def _profile(record: _Profile) -> CardProfile:
    return CardProfile(
        devices.MigProfile(
            name=record.name,
            memory_mib=record.memory_mib,
            core_percent=record.core_percent,
            slice_count=record.slices,
            placements=tuple(devices.MigPlacement(p.start, p.size) for p in record.placements),
        ),
        record.instances,
    )


def _refuse_duplicates(cards: tuple[Card, ...]) -> None:
    for name in ("uuid", "index"):
        seen: set[object] = set()
        for card in cards:
            value = getattr(card, name)
            if value in seen:
                raise InventoryError(f"two devices have {name} {value}")
            seen.add(value)


def _refuse_impossible(device: _Device, use: devices.MigUse) -> None:
    """A placement the card does not offer is an error, never another placement instead."""
    wanted = _Placement(use.placement.start, use.placement.size)
    for profile in device.mig_profiles:
        if profile.name == use.profile and wanted in profile.placements:
            return
    raise InventoryError(f"card {device.uuid} has no MIG placement {use.profile} at {wanted.start}, size {wanted.size}")
