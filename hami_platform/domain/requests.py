"""What a pod asks for, as values. Parsing a pod into these is `vendors` and `admission`."""

from __future__ import annotations

from dataclasses import dataclass, field

from hami_platform.domain.devices import ContainerKind, Notes


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """One vendor's devices for one container.

    count: distinct devices (MIG: instances). memory_mib > 0 is per device and wins; else memory_percent (1…100) of the
    registered memory.
    core_percent: per device; 100 on a card of 100 means the whole card.
    """

    vendor: str
    count: int
    memory_mib: int = 0
    memory_percent: int | None = None
    core_percent: int = 0

    def memory_on(self, total_mib: int) -> int:
        """MiB asked on a device of total_mib; percentages round down (HAMi's integer division)."""
        if self.memory_mib > 0:
            return self.memory_mib
        return total_mib * self.memory_percent // 100 if self.memory_percent is not None else 0


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """One container of the pod; devices is empty where it asks for none. Position in the pod is its identity."""

    name: str
    kind: ContainerKind
    devices: tuple[DeviceRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the three terms of the device score (annotation hami.io/device-scoring-weights)."""

    slot: int = 1
    core: int = 1
    memory: int = 1


@dataclass(frozen=True, slots=True)
class Constraints:
    """Where a pod allows itself to be placed, and what it prefers. None: the cluster's default, or no constraint.

    use_/nouse_ lists hold trimmed entries; an empty tuple from a list made only of commas matches nothing.
    vgpu_mode: None accepts every mode; otherwise a device's mode must be a substring of it. notes: annotations that
    only the vendor's strategy understands, by key. by_vendor: where a pod asks for several vendors, each one's own,
    complete; these constraints then hold what is common.
    """

    node_policy: str | None = None
    device_policy: str | None = None
    use_models: tuple[str, ...] | None = None
    nouse_models: tuple[str, ...] | None = None
    use_uuids: tuple[str, ...] | None = None
    nouse_uuids: tuple[str, ...] | None = None
    numa_bind: bool = False
    vgpu_mode: str | None = None
    weights: Weights = Weights()
    notes: Notes = ()
    by_vendor: tuple[tuple[str, Constraints], ...] = ()

    def of(self, vendor: str) -> Constraints:
        """What holds for one vendor's devices."""
        return next((own for word, own in self.by_vendor if word == vendor), self)

    def note(self, key: str) -> str | None:
        """A pod annotation that the vendor's strategy reads; None where the pod has none."""
        return next((text for name, text in self.notes if name == key), None)

    @property
    def names_uuids(self) -> bool:
        """Whether any device is wanted or excluded by its uuid."""
        own = self.use_uuids is not None or self.nouse_uuids is not None
        return own or any(one.names_uuids for _, one in self.by_vendor)


@dataclass(frozen=True, slots=True)
class PodRequest:
    """All a decision needs to know of a pod: its containers (init first, then apps, in spec order), its constraints."""

    containers: tuple[ContainerRequest, ...]
    constraints: Constraints = field(default_factory=Constraints)

    @property
    def asks(self) -> bool:
        """Whether any container asks for a device."""
        return any(container.devices for container in self.containers)

    @property
    def vendors(self) -> tuple[str, ...]:
        """Vendor words asked for, sorted."""
        return tuple(sorted({ask.vendor for c in self.containers for ask in c.devices}))
