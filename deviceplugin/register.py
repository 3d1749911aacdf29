"""What a node says of its cards: the register annotation's devices, and kubelet's list of shares.

Both come from the same cards and the same scaling, so they cannot disagree.
Must not know: how either is sent. Source of the rules: HAMi v2.10.0, device plugin register loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from deviceplugin import inventory, replicas
from hami_platform.domain import devices
from hami_platform.domain.vendors import nvidia


@dataclass(frozen=True, slots=True)
class Scaling:
    """How a card is cut. Memory and cores may be promised beyond what is there (factors above 1)."""

    slots: int = 10
    memory: float = 1.0
    cores: float = 1.0


@dataclass(frozen=True, slots=True)
class Share:
    """One schedulable share as kubelet sees it. numa: None where it is unknown or not to be told."""

    id: str
    healthy: bool
    numa: int | None


def device(card: inventory.Card, scaling: Scaling) -> devices.Device | None:
    """The card as it is registered; None for a MIG card without a single profile."""
    mig = card.mode == inventory.MIG
    slots = slots_of(card, scaling)
    if not slots:
        return None
    return devices.Device(
        uuid=card.uuid,
        index=card.index,
        vendor=nvidia.WORD,
        model=model(card.model),
        memory_mib=card.memory_mib if mig else int(card.memory_mib * scaling.memory),
        core_percent=100 if mig else int(scaling.cores * 100),
        slots=slots,
        numa=card.numa or 0,
        mode=card.mode,
        healthy=card.healthy,
        mig_profiles=tuple(entry.profile for entry in card.profiles) if mig else (),
    )


def registered(cards: Iterable[inventory.Card], scaling: Scaling) -> tuple[devices.Device, ...]:
    """The node's devices, sorted by uuid so that the same cards always give the same text."""
    found = (device(card, scaling) for card in cards)
    return tuple(sorted((entry for entry in found if entry is not None), key=lambda entry: entry.uuid))


def shares(cards: Iterable[inventory.Card], scaling: Scaling, *, numa: bool) -> tuple[Share, ...]:
    """Every share of every card. Telling kubelet the NUMA node lets it reject misaligned pods."""
    return tuple(
        Share(replica, card.healthy, card.numa if numa else None)
        for card in cards
        for replica in replicas.replica_ids(card.uuid, slots_of(card, scaling))
    )


def slots_of(card: inventory.Card, scaling: Scaling) -> int:
    """Greatest number of sharers; in MIG mode the most instances that any profile allows."""
    if card.mode == inventory.MIG:
        return max((entry.instances for entry in card.profiles), default=0)
    return scaling.slots


def model(name: str) -> str:
    """`Tesla P4` -> `NVIDIA-Tesla P4`; a name that says NVIDIA stays."""
    return name if name.startswith(nvidia.WORD) else f"{nvidia.WORD}-{name}"
