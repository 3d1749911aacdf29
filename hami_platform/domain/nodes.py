"""A node as placement sees it: its devices, what is held on each, and an order-statistic screen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hami_platform.domain.devices import NOTHING, Device, Held
from hami_platform.domain.reasons import Reason


@dataclass(frozen=True, slots=True)
class DeviceState:
    """A device and all that is held on it now (pods and people's holds together)."""

    device: Device
    held: Held = NOTHING

    @property
    def free_memory_mib(self) -> int:
        """May be negative: a re-inflated init container or a human change can exceed the card."""
        return self.device.memory_mib - self.device.reserved_mib - self.held.memory_mib

    @property
    def free_core_percent(self) -> int:
        return self.device.core_percent - self.held.core_percent

    @property
    def free_slots(self) -> int:
        return self.device.slots - self.held.slots


PairScores = Mapping[tuple[str, str], int]
"""(uuid, uuid) → topology score; missing reads as 0 (HAMi annotation hami.io/node-nvidia-score)."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """An immutable picture of one node. Devices are in (vendor, index, uuid) order.

    blocked: a reason that takes the whole node out for new device pods (lock too old, accounting unknown).
    """

    name: str
    devices: tuple[DeviceState, ...] = ()
    blocked: Reason | None = None
    pair_scores: PairScores = field(default_factory=dict)
