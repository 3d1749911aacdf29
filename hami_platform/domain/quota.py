"""Quota arithmetic: amounts, limits, charges, and the first limit that a charge would break."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from hami_platform.domain.devices import DeviceKey, Held
from hami_platform.domain.requests import PodRequest


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
    """Which devices a quota counts. Empty vendor: any. model_pattern: shell-style, in any case; empty: any."""

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


UNLIMITED = Headroom()
"""No rule binds."""

SUMS = ("devices", "memory_mib", "core_percent")
"""The limits that bound a sum over a scope; the pod's bound of each is `pod_` + its name."""


@dataclass(frozen=True, slots=True)
class Remaining:
    """What a limit leaves. Never negative: over says by how much the use exceeds the limit."""

    limit: int
    used: int

    @property
    def free(self) -> int:
        return max(0, self.limit - self.used)

    @property
    def over(self) -> int:
        return max(0, self.used - self.limit)


def covers(selector: Selector, vendor: str, model: str) -> bool:
    """Whether a quota counts devices of this vendor and model. A model pattern counts no charge without a model."""
    if selector.vendor and selector.vendor != vendor:
        return False
    if not selector.model_pattern:
        return True
    return bool(model) and fnmatch.fnmatchcase(model.lower(), selector.model_pattern.lower())


def excess(headroom: Headroom, charges: Iterable[Charge]) -> Excess | None:
    """The first limit that granting the charges of one pod would break, or None. charges are the pod's total.

    Whether the headroom is enforced is the caller's business. Law: None never refuses, 0 refuses any positive ask, and
    more use never turns a refusal into a grant. Nothing asked is never refused, also where a scope is over its limit.
    """
    charges = tuple(charges)
    for rule, used in headroom.rules:
        found = _excess_of(rule, used, [c for c in charges if covers(rule.selector, c.vendor, c.model)])
        if found is not None:
            return found
    return None


def never_refuses(headroom: Headroom, request: PodRequest, largest_mib: int) -> bool:
    """Whether no placement on devices of at most largest_mib can break a limit: an upper bound of the charge fits.

    Holds for devices that give what is asked; a MIG instance can be larger than the request.
    """
    asked, largest = _NO_AMOUNTS, 0
    for ask in (ask for container in request.containers for ask in container.devices):
        memory_mib = ask.memory_on(largest_mib)
        asked += Amounts(ask.count, memory_mib * ask.count, ask.core_percent * ask.count)
        largest = max(largest, memory_mib)
    charge = Charge("", "", asked, largest)
    return all(_excess_of(rule, used, [charge]) is None for rule, used in headroom.rules)


def effective(limits: Iterable[Limits]) -> Limits:
    """The minimum of several sets of limits, each bound for itself; a bound that none sets stays None."""
    rows = tuple(limits)
    least: dict[str, int | None] = {}
    for bound in fields(Limits):
        values = [value for row in rows if (value := getattr(row, bound.name)) is not None]
        least[bound.name] = min(values, default=None)
    return Limits(**least)


def charges_of(
    held: Mapping[DeviceKey, Held], models: Mapping[DeviceKey, str], largest: Mapping[DeviceKey, int] | None = None
) -> tuple[Charge, ...]:
    """What a pod that holds this takes of each kind of device, sorted by vendor and model.

    largest: the greatest share of memory on a device, where the pod's rows are known; else all that is held on it.
    """
    kinds: dict[tuple[str, str], Amounts] = {}
    shares: dict[tuple[str, str], int] = {}
    for key, amount in held.items():
        kind = (key[0], models.get(key, ""))
        kinds[kind] = kinds.get(kind, _NO_AMOUNTS) + Amounts(amount.slots, amount.memory_mib, amount.core_percent)
        share_mib = amount.memory_mib if largest is None else largest.get(key, 0)
        shares[kind] = max(shares.get(kind, 0), share_mib)
    return tuple(Charge(*kind, kinds[kind], shares[kind]) for kind in sorted(kinds))


_NO_AMOUNTS = Amounts()


def _excess_of(rule: Rule, used: Amounts, charges: list[Charge]) -> Excess | None:
    asked = sum((charge.amounts for charge in charges), _NO_AMOUNTS)
    limits = rule.limits
    for name in SUMS:
        found = _over(rule.name, name, getattr(limits, name), getattr(used, name), getattr(asked, name))
        found = found or _over(rule.name, f"pod_{name}", getattr(limits, f"pod_{name}"), 0, getattr(asked, name))
        if found is not None:
            return found
    largest = max((charge.largest_share_mib for charge in charges), default=0)
    return _over(rule.name, "device_memory_mib", limits.device_memory_mib, 0, largest)


def _over(rule: str, resource: str, limit: int | None, used: int, asked: int) -> Excess | None:
    if limit is None or asked <= 0 or used + asked <= limit:
        return None
    return Excess(rule, resource, limit, used, asked)
