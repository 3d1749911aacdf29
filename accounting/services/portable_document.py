"""The document that holds all that people have decided: its shapes. It must not know the ledger."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import msgspec

VERSION = 1
Key = tuple[str, ...]


class Entry(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """Base of everything in the document: a misspelled key is an error."""


class TenantEntry(Entry, frozen=True):
    """See Tenant."""

    name: str
    parent: str = ""
    note: str = ""

    @property
    def key(self) -> Key:
        return (self.name,)


class NamespaceEntry(Entry, frozen=True):
    """See Namespace."""

    name: str
    tenant: str = ""
    mode: str = "enforce"

    @property
    def key(self) -> Key:
        return (self.name,)


class QuotaEntry(Entry, frozen=True):
    """See Quota: of one namespace or one tenant. A limit that is left out is none."""

    name: str = "default"
    namespace: str = ""
    tenant: str = ""
    vendor: str = ""
    model_pattern: str = ""
    devices: int | None = None
    memory_mib: int | None = None
    core_percent: int | None = None
    pod_devices: int | None = None
    pod_memory_mib: int | None = None
    pod_core_percent: int | None = None
    device_memory_mib: int | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None

    @property
    def key(self) -> Key:
        return (self.tenant, self.namespace, self.name)


class BudgetEntry(Entry, frozen=True):
    """See Budget: of one namespace or one tenant. An amount that is left out is not planned."""

    name: str = "default"
    namespace: str = ""
    tenant: str = ""
    vendor: str = ""
    model_pattern: str = ""
    period: str = "month"
    first_day: date | None = None
    last_day: date | None = None
    device_hours: int | None = None
    amount: Decimal | None = None
    currency: str = ""

    @property
    def key(self) -> Key:
        return (self.tenant, self.namespace, self.name)


class PriceEntry(Entry, frozen=True):
    """See Price."""

    vendor: str
    model_pattern: str
    device_hour: Decimal
    valid_from: date
    currency: str = "EUR"

    @property
    def key(self) -> Key:
        return (self.vendor, self.model_pattern, self.valid_from.isoformat())


class RoleEntry(Entry, frozen=True):
    """See Role: of a user or a group, in a tenant, a namespace, or everywhere."""

    role: str
    user: str = ""
    group: str = ""
    tenant: str = ""
    namespace: str = ""

    @property
    def key(self) -> Key:
        return (self.role, self.user, self.group, self.tenant, self.namespace)


class DeviceEntry(Entry, frozen=True):
    """What people decided about a device; one that is left out has the defaults."""

    node: str
    vendor: str
    uuid: str
    cordoned: bool = False
    reserved_mib: int = 0
    note: str = ""

    @property
    def key(self) -> Key:
        return (self.node, self.vendor, self.uuid)


class Document(Entry, frozen=True):
    """The whole. Lists are in the order of their keys, so that two exports can be compared line by line."""

    version: int = VERSION
    tenants: tuple[TenantEntry, ...] = ()
    namespaces: tuple[NamespaceEntry, ...] = ()
    quotas: tuple[QuotaEntry, ...] = ()
    budgets: tuple[BudgetEntry, ...] = ()
    prices: tuple[PriceEntry, ...] = ()
    roles: tuple[RoleEntry, ...] = ()
    devices: tuple[DeviceEntry, ...] = ()
