"""What was measured on this node in one round: values that metrics, reports and pages are made of.

Must not know: where the figures come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from deviceplugin.region import DeviceUse


@dataclass(frozen=True, slots=True)
class Condition:
    """How a card is, beside its use. None where the driver does not tell.

    slowed: why its clocks are held down, in nvml_use's words; empty: they are not. xid: the last one heard since the
    agent began, xid_age_s ago. ailment: why it is unhealthy; empty: it is well.
    """

    temperature_c: int | None = None
    temperature_limit_c: int | None = None
    power_w: int | None = None
    power_limit_w: int | None = None
    slowed: tuple[str, ...] | None = None
    xid: int | None = None
    xid_age_s: int | None = None
    ailment: str = ""


@dataclass(frozen=True, slots=True)
class CardUse:
    """A whole card, all its processes and the driver's own part. None where the driver does not tell. 0 to 100."""

    uuid: str
    index: int
    model: str
    memory_used_bytes: int | None = None
    core_percent: int | None = None
    memory_controller_percent: int | None = None
    condition: Condition = Condition()


@runtime_checkable
class Measuring(Protocol):
    """An inventory that can also measure."""

    def use(self) -> tuple[CardUse, ...]:
        """Every card that answers. Raises InventoryError."""
        ...


@dataclass(frozen=True, slots=True)
class ContainerUse:
    """A container that runs, with the devices that it is entitled to. last_kernel_s: unix time, 0 where unknown."""

    namespace: str
    pod: str
    uid: str
    container: str
    devices: tuple[DeviceUse, ...]
    last_kernel_s: int = 0


@dataclass(frozen=True, slots=True)
class MigUse:
    """A MIG instance that a container has. index: its place in the container's row."""

    namespace: str
    pod: str
    container: str
    index: int
    card: str
    uuid: str
    profile: str
    gpu_instance: int
    compute_instance: int


@dataclass(frozen=True, slots=True)
class Picture:
    """One round. at_s: unix time of its end. problems: how many regions have each."""

    at_s: float = 0.0
    cards: tuple[CardUse, ...] = ()
    containers: tuple[ContainerUse, ...] = ()
    instances: tuple[MigUse, ...] = ()
    problems: Mapping[str, int] = field(default_factory=dict)
