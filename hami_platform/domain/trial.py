"""What one decision takes, tried on a copy: devices with trial shares, and what the pod would hold over its life.

Mutable, and lives no longer than one call of `fit`. Knows nothing of conditions or policies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hami_platform.domain.devices import NOTHING, ContainerKind, Device, DeviceKey, Held, MigUse, Share
from hami_platform.domain.nodes import DeviceState


class Trial:
    """One device with what is held on it and what this decision took so far."""

    __slots__ = ("core_percent", "device", "memory_mib", "mig", "slots", "state")

    def __init__(self, state: DeviceState) -> None:
        held = state.held
        self.state = state
        self.device: Device = state.device
        self.slots = held.slots
        self.memory_mib = held.memory_mib
        self.core_percent = held.core_percent
        self.mig: tuple[MigUse, ...] = held.mig

    def copy(self) -> Trial:
        twin = Trial(self.state)
        twin.slots, twin.memory_mib, twin.core_percent = self.slots, self.memory_mib, self.core_percent
        twin.mig = self.mig
        return twin

    def take(self, share: Share) -> None:
        self.slots += 1
        self.memory_mib += share.memory_mib
        self.core_percent += share.core_percent
        if share.mig is not None:
            self.mig += (share.mig,)


class Sequence:
    """What the pod's containers hold per device, as far as they were placed, in order.

    An ordinary init container holds beside the sidecars before it, sidecars and apps add up; a device is held at the
    greatest of these sums, each amount for itself (Kubernetes KEP-753; HAMi after v2.10.0).
    """

    def __init__(self) -> None:
        self.running: dict[DeviceKey, Held] = {}
        self.peak: dict[DeviceKey, Held] = {}
        self.largest_mib: dict[DeviceKey, int] = {}

    def add(self, kind: ContainerKind, shares: Iterable[Share]) -> None:
        """Place one more container."""
        shares = tuple(shares)
        for key, taken in per_device(shares).items():
            total = self.running.get(key, NOTHING) + taken
            if kind is not ContainerKind.INIT:
                self.running[key] = total
            self.peak[key] = most(self.peak.get(key, NOTHING), total)
        for share in shares:
            self.largest_mib[share.key] = max(self.largest_mib.get(share.key, 0), share.memory_mib)

    def held(self) -> Mapping[DeviceKey, Held]:
        """The greatest amounts held per device over the pod's life."""
        return self.peak

    def with_shares(self, kind: ContainerKind, shares: Iterable[Share]) -> Sequence:
        """A copy with one more container placed."""
        twin = Sequence()
        twin.running, twin.peak, twin.largest_mib = dict(self.running), dict(self.peak), dict(self.largest_mib)
        twin.add(kind, shares)
        return twin

    def has_slack(self, key: DeviceKey) -> bool:
        """Whether another phase of the pod holds more of the device than the next container finds in use: a share there
        costs less than the same share elsewhere."""
        return key in self.peak and self.peak[key] != self.running.get(key, NOTHING)


def per_device(shares: Iterable[Share]) -> dict[DeviceKey, Held]:
    """Sums of one container's shares: several instances on one MIG card add up."""
    sums: dict[DeviceKey, Held] = {}
    for share in shares:
        sums[share.key] = sums.get(share.key, NOTHING) + Held(1, share.memory_mib, share.core_percent)
    return sums


def most(a: Held, b: Held) -> Held:
    """The greater of each amount. MIG placements are left out: they are not amounts."""
    return Held(max(a.slots, b.slots), max(a.memory_mib, b.memory_mib), max(a.core_percent, b.core_percent))
