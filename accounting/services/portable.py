"""All that people have decided, as one document: to keep in a repository, to look at differences, to put back.

It has no pods, no devices' observed facts and no secrets. Applying it twice is as once, and what is not in it stays,
unless pruning is asked for. Every change goes through the service that a person's change goes through. Must not know:
YAML, files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from accounting import ledger
from accounting.models import Budget, Device, Namespace, Price, Quota, Role, Tenant
from accounting.services import budgets, devices, errors, namespaces, people, prices, quotas, tenants
from accounting.services.portable_document import (
    VERSION,
    BudgetEntry,
    DeviceEntry,
    Document,
    Key,
    NamespaceEntry,
    PriceEntry,
    QuotaEntry,
    RoleEntry,
    TenantEntry,
)
from hami_platform.domain import quota as domain
from hami_platform.domain.sentences import phrase

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is, or would be, done. verb: add, change, remove. told: field → (before, after)."""

    verb: str
    kind: str
    subject: str
    told: Mapping[str, tuple[Any, Any]]


class _DryRun(Exception):
    """Takes everything back at the end of a dry run."""


def document() -> Document:
    """What people have decided, as it is now."""
    cluster = ledger.cluster_id()
    return Document(
        tenants=_sorted(
            TenantEntry(row.name, row.parent.name if row.parent else "", row.note)
            for row in Tenant.objects.filter(cluster=cluster).select_related("parent")
        ),
        namespaces=_sorted(
            NamespaceEntry(row.name, row.tenant.name if row.tenant else "", row.mode)
            for row in Namespace.objects.filter(cluster=cluster).select_related("tenant")
        ),
        quotas=_sorted(map(_quota, Quota.objects.filter(cluster=cluster).select_related("namespace", "tenant"))),
        budgets=_sorted(map(_budget, Budget.objects.filter(cluster=cluster).select_related("namespace", "tenant"))),
        prices=_sorted(
            PriceEntry(row.vendor, row.model_pattern, row.device_hour, row.valid_from, row.currency)
            for row in Price.objects.filter(cluster=cluster)
        ),
        roles=_sorted(map(_role, Role.objects.select_related("user", "group", "tenant", "namespace"))),
        devices=_sorted(
            DeviceEntry(row.node.name, row.vendor, row.uuid, row.cordoned, row.reserved_mib, row.note)
            for row in Device.objects.filter(cluster=cluster).select_related("node")
            if row.cordoned or row.reserved_mib or row.note
        ),
    )


def parse(data: Any) -> Document:
    """The document in plain data (as YAML or JSON gives it). Raises InvalidInput with the path of what is wrong."""
    try:
        found = msgspec.convert(data, Document, strict=True, str_keys=False)
    except msgspec.ValidationError as fault:
        raise errors.InvalidInput("", str(fault)) from fault
    if found.version != VERSION:
        raise errors.InvalidInput(
            "version",
            phrase("%(given)s is not known: this platform writes %(ours)s", given=found.version, ours=VERSION),
        )
    for kind in KINDS:
        keys = [one.key for one in getattr(found, kind)]
        twice = sorted({" ".join(filter(None, key)) for key in keys if keys.count(key) > 1})
        if twice:
            raise errors.InvalidInput(kind, phrase("more than once: %(names)s", names=", ".join(twice)))
    return found


def apply(
    wanted: Document, *, reason: str, actor: str = "", prune: bool = False, dry_run: bool = False
) -> list[Change]:
    """Make what people have decided what the document says; the changes. All of them or none.

    prune: also remove what is not in the document. dry_run: the same, taken back at the end. Raises InvalidInput.
    """
    done: list[Change] = []
    try:
        with ledger.transaction(cause="apply", actor=actor):
            now = document()
            for kind in KINDS:
                done += _put_all(kind, _by_key(getattr(now, kind)), getattr(wanted, kind), reason, actor)
            if prune:
                for kind in reversed(KINDS):
                    done += _remove_all(kind, getattr(now, kind), _by_key(getattr(wanted, kind)), reason, actor)
            if dry_run:
                raise _DryRun
    except _DryRun:
        pass
    return done


# -- Each kind: how it is put, and how it is taken away ---------------------------------------------------------------


def _put_tenant(one: TenantEntry, reason: str, actor: str) -> None:
    tenants.tenant_save(name=one.name, parent=one.parent, note=one.note, reason=reason, actor=actor)


def _put_namespace(one: NamespaceEntry, reason: str, actor: str) -> None:
    namespaces.namespace_save(name=one.name, tenant=one.tenant, mode=one.mode, reason=reason, actor=actor)


def _put_quota(one: QuotaEntry, reason: str, actor: str) -> None:
    quotas.quota_set(
        namespace=one.namespace,
        tenant=one.tenant,
        name=one.name,
        limits=domain.Limits(**{name: getattr(one, name) for name in Quota.LIMITS}),
        selector=domain.Selector(one.vendor, one.model_pattern),
        valid_from=one.valid_from,
        valid_until=one.valid_until,
        reason=reason,
        actor=actor,
    )


def _put_budget(one: BudgetEntry, reason: str, actor: str) -> None:
    budgets.budget_set(
        namespace=one.namespace,
        tenant=one.tenant,
        name=one.name,
        plan=budgets.Plan(**{name: getattr(one, name) for name in budgets.Plan.__slots__}),
        selector=domain.Selector(one.vendor, one.model_pattern),
        reason=reason,
        actor=actor,
    )


def _put_price(one: PriceEntry, reason: str, actor: str) -> None:
    prices.price_set(**msgspec.structs.asdict(one), reason=reason, actor=actor)


def _put_role(one: RoleEntry, reason: str, actor: str) -> None:
    people.role_grant(**msgspec.structs.asdict(one), reason=reason, actor=actor)


def _put_device(one: DeviceEntry, reason: str, actor: str) -> None:
    devices.device_edit(**msgspec.structs.asdict(one), reason=reason, actor=actor)


def _remove_tenant(one: TenantEntry, reason: str, actor: str) -> None:
    row = Tenant.objects.get(cluster=ledger.cluster_id(), name=one.name)
    tenants.tenant_delete(tenant_id=row.pk, reason=reason, actor=actor)


def _remove_namespace(one: NamespaceEntry, reason: str, actor: str) -> None:
    namespaces.namespace_delete(name=one.name, reason=reason, actor=actor)


def _remove_quota(one: QuotaEntry, reason: str, actor: str) -> None:
    scope = {"namespace__name": one.namespace} if one.namespace else {"tenant__name": one.tenant}
    row = Quota.objects.get(cluster=ledger.cluster_id(), name=one.name, **scope)
    quotas.quota_delete(quota_id=row.pk, reason=reason, actor=actor)


def _remove_budget(one: BudgetEntry, reason: str, actor: str) -> None:
    scope = {"namespace__name": one.namespace} if one.namespace else {"tenant__name": one.tenant}
    row = Budget.objects.get(cluster=ledger.cluster_id(), name=one.name, **scope)
    budgets.budget_delete(budget_id=row.pk, reason=reason, actor=actor)


def _remove_price(one: PriceEntry, reason: str, actor: str) -> None:
    named = {"vendor": one.vendor, "model_pattern": one.model_pattern, "valid_from": one.valid_from}
    prices.price_delete(price_id=Price.objects.get(cluster=ledger.cluster_id(), **named).pk, reason=reason, actor=actor)


def _remove_role(one: RoleEntry, reason: str, actor: str) -> None:
    row = next(row for row in Role.objects.select_related("user", "group") if _role(row) == one)
    people.role_revoke(role_id=row.pk, reason=reason, actor=actor)


def _remove_device(one: DeviceEntry, reason: str, actor: str) -> None:
    _put_device(DeviceEntry(one.node, one.vendor, one.uuid), reason, actor)


KINDS: dict[str, tuple[Callable[[Any, str, str], None], Callable[[Any, str, str], None]]] = {
    "tenants": (_put_tenant, _remove_tenant),
    "namespaces": (_put_namespace, _remove_namespace),
    "quotas": (_put_quota, _remove_quota),
    "budgets": (_put_budget, _remove_budget),
    "prices": (_put_price, _remove_price),
    "roles": (_put_role, _remove_role),
    "devices": (_put_device, _remove_device),
}
"""In the order in which they need each other."""


def _put_all(kind: str, now: Mapping[Key, Any], wanted: Iterable[Any], reason: str, actor: str) -> Iterator[Change]:
    put, _ = KINDS[kind]
    for number, one in _in_need(wanted):
        before = now.get(one.key)
        if before == one:
            continue
        with _named(f"{kind}[{number}]"):
            put(one, reason, actor)
        yield Change("change" if before else "add", kind, _subject(one), _told(before, one))


def _remove_all(kind: str, now: Iterable[Any], wanted: Mapping[Key, Any], reason: str, actor: str) -> Iterator[Change]:
    _, remove = KINDS[kind]
    for _number, one in reversed(list(_in_need(now))):
        if one.key not in wanted:
            with _named(f"{kind} {_subject(one)}"):
                remove(one, reason, actor)
            yield Change("remove", kind, _subject(one), {})


def _in_need(entries: Iterable[Any]) -> list[tuple[int, Any]]:
    """With their numbers; tenants after those above them."""
    listed = list(enumerate(entries))
    parents = {one.name: one.parent for _, one in listed if isinstance(one, TenantEntry)}

    def depth(one: Any) -> int:
        name, steps = getattr(one, "parent", ""), 0
        while name in parents and steps <= len(parents):
            name, steps = parents[name], steps + 1
        return steps

    return sorted(listed, key=lambda item: depth(item[1]))


class _named:  # noqa: N801  a context manager by its use
    """Says of which entry a refusal is."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: Any, fault: BaseException | None, _trace: Any) -> None:
        if isinstance(fault, errors.InvalidInput):
            field = f"{self._where}.{fault.field}" if fault.field else self._where
            raise errors.InvalidInput(field, fault.message) from fault


def _told(before: Any, after: Any) -> dict[str, tuple[Any, Any]]:
    old = msgspec.structs.asdict(before) if before is not None else {}
    new = msgspec.structs.asdict(after)
    return {name: (old.get(name), value) for name, value in new.items() if old.get(name) != value and value != ""}


def _subject(one: Any) -> str:
    return " ".join(part for part in one.key if part)


def _sorted(entries: Iterable[T]) -> tuple[T, ...]:
    found: Any = entries
    return tuple(sorted(found, key=lambda one: one.key))


def _by_key(entries: Iterable[Any]) -> dict[Key, Any]:
    return {one.key: one for one in entries}


def _quota(row: Quota) -> QuotaEntry:
    return QuotaEntry(
        row.name,
        row.namespace.name if row.namespace else "",
        row.tenant.name if row.tenant else "",
        row.vendor,
        row.model_pattern,
        valid_from=row.valid_from,
        valid_until=row.valid_until,
        **{name: getattr(row, name) for name in Quota.LIMITS},
    )


def _budget(row: Budget) -> BudgetEntry:
    return BudgetEntry(
        row.name,
        row.namespace.name if row.namespace else "",
        row.tenant.name if row.tenant else "",
        row.vendor,
        row.model_pattern,
        **{name: getattr(row, name) for name in budgets.Plan.__slots__},
    )


def _role(row: Role) -> RoleEntry:
    return RoleEntry(
        row.role,
        row.user.get_username() if row.user else "",
        row.group.name if row.group else "",
        row.tenant.name if row.tenant else "",
        row.namespace.name if row.namespace else "",
    )
