"""Quota arithmetic: amounts, limits, charges, and the first limit that a charge would break."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Amounts:
    """What is used or asked: device shares (slots), MiB, percent points of a card. Never a mix of units."""

    devices: int = 0
    memory_mib: int = 0
    core_percent: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(
            self.devices + other.devices, self.memory_mib + other.memory_mib, self.core_percent + other.core_percent
        )

    def __sub__(self, other: Amounts) -> Amounts:
        return Amounts(
            self.devices - other.devices, self.memory_mib - other.memory_mib, self.core_percent - other.core_percent
        )

    def __bool__(self) -> bool:
        return bool(self.devices or self.memory_mib or self.core_percent)


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds. None: no limit. 0: nothing allowed.

    The first three bound the sum over a scope; pod_* bound one pod; device_memory_mib bounds one share on one card.
    """

    devices: int | None = None
    memory_mib: int | None = None
    core_percent: int | None = None
    pod_devices: int | None = None
    pod_memory_mib: int | None = None
    pod_core_percent: int | None = None
    device_memory_mib: int | None = None


@dataclass(frozen=True, slots=True)
class Selector:
    """Which devices a quota counts. Empty vendor: any. model_pattern: shell-style, without regard to case; empty: any."""

    vendor: str = ""
    model_pattern: str = ""


@dataclass(frozen=True, slots=True)
class Charge:
    """What a pod takes of one kind of device. model is empty while no card is chosen: such a charge is a lower bound,
    counted by selectors without a model pattern only. largest_share_mib is the greatest share on one card."""

    vendor: str
    model: str
    amounts: Amounts
    largest_share_mib: int = 0


@dataclass(frozen=True, slots=True)
class Rule:
    """One set of limits in force for a pod's namespace (its own, a tenant's above it, or a native ResourceQuota)."""

    name: str
    selector: Selector
    limits: Limits


@dataclass(frozen=True, slots=True)
class Headroom:
    """The rules in force for a namespace with what their scope uses now, the asking pod itself not included.

    enforced is False in the namespace modes warn and observe: then `/filter` never refuses for quota.
    """

    rules: tuple[tuple[Rule, Amounts], ...] = ()
    enforced: bool = True


@dataclass(frozen=True, slots=True)
class Excess:
    """The first limit that a charge would break: all a person needs to understand the refusal."""

    rule: str
    resource: str
    limit: int
    used: int
    asked: int

    @property
    def free(self) -> int:
        return max(0, self.limit - self.used)

    def text(self) -> str:
        """`needs 4000, free 2000 of 10000 memory MiB, used 8000, quota nlp/default`."""
        unit = {"devices": "devices", "core_percent": "core %"}.get(self.resource.removeprefix("pod_"), "memory MiB")
        return f"needs {self.asked}, free {self.free} of {self.limit} {unit}, used {self.used}, quota {self.rule}"
