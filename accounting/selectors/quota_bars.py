"""Limits and what is used of them, as bars. One pass over the pods for all quotas."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from django.utils.translation import gettext_noop

from accounting.selectors.access import Reach
from hami_platform.domain.quota import SUMS, Amounts, Limits, Rule, covers
from hami_platform.domain.rows import PodRow, QuotaRow
from hami_platform.domain.view import View, native_rules

# Marked for translation here; templates translate, commands and notices do not.
UNITS = {"devices": gettext_noop("devices"), "memory_mib": "MiB", "core_percent": gettext_noop("% of cores")}
NAMES = {
    "devices": gettext_noop("devices"),
    "memory_mib": gettext_noop("memory"),
    "core_percent": gettext_noop("cores"),
}

APART = frozenset({"claimed", "releasing"})
"""States of pods whose part of a bar is drawn for itself."""

Kind = tuple[str, str]
"""(vendor, model)."""


@dataclass(slots=True)
class Spent:
    """What one namespace uses, by standing (used, claimed, releasing) and kind of device; pods of the last two."""

    amounts: dict[tuple[str, Kind], Amounts] = field(default_factory=dict)
    pods: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class QuotaBar:
    """One limit: used, claimed by pods without a device, and held by pods that are being deleted, in `unit`."""

    rule: str
    scope: str
    scope_kind: str
    resource: str
    limit: int
    used: int
    claimed: int
    releasing: int
    claiming_pods: int
    selector: str = ""
    native: bool = False
    quota_id: int | None = None
    editable: bool = False

    @property
    def unit(self) -> str:
        """What the numbers count."""
        return UNITS[self.resource]

    @property
    def name(self) -> str:
        """The resource in words."""
        return NAMES[self.resource]

    @property
    def held(self) -> int:
        """All that counts against the limit."""
        return self.used + self.claimed + self.releasing

    @property
    def free(self) -> int:
        """What may still be asked."""
        return max(0, self.limit - self.held)

    @property
    def over(self) -> int:
        """By how much the limit is exceeded."""
        return max(0, self.held - self.limit)

    @property
    def percent(self) -> int:
        """Held per hundred of the limit; 100 where nothing is allowed and something held."""
        return self.held * 100 // self.limit if self.limit else (100 if self.held else 0)

    @property
    def pieces(self) -> list[tuple[str, str, str, int]]:
        """(kind, x, width, amount) for the drawing, in percent of the longer of limit and held."""
        scale, at, found = max(self.limit, self.held, 1), 0, []
        for kind, amount in (("solid", self.used), ("claimed", self.claimed), ("releasing", self.releasing)):
            if amount:
                found.append((kind, f"{at * 100 / scale:.2f}%", f"{amount * 100 / scale:.2f}%", amount))
            at += amount
        return found

    @property
    def limit_x(self) -> str:
        """Where the limit lies, in percent of the drawing."""
        return f"{self.limit * 100 / max(self.limit, self.held, 1):.2f}%"


def spent_by_namespace(view: View) -> dict[str, Spent]:
    """What every namespace uses now. Used is what the View has for all, without what is claimed or releasing."""
    found: dict[str, Spent] = defaultdict(Spent)
    for name, usage in view.usage.items():
        found[name].amounts = {("used", kind): amounts for kind, amounts in usage.items()}
    for pod in view.pods.values():
        if pod.state in APART and pod.charges:
            _set_apart(found[pod.namespace], pod)
    return dict(found)


def _set_apart(here: Spent, pod: PodRow) -> None:
    here.pods[pod.state] += 1
    for charge in pod.charges:
        kind = (charge.vendor, charge.model)
        here.amounts["used", kind] = here.amounts.get(("used", kind), Amounts()) - charge.amounts
        here.amounts[pod.state, kind] = here.amounts.get((pod.state, kind), Amounts()) + charge.amounts


def all_bars(view: View, reach: Reach) -> list[QuotaBar]:
    """Every limit on a sum that the reader may see: the fullest first, tenants before namespaces."""
    spent = spent_by_namespace(view)
    members = members_by_tenant(view)
    found: list[QuotaBar] = []
    for row in view.quotas.values():
        if row.in_force and _seen(row, reach):
            found += _bars_of(view, row, spent, members)
    found += _native_bars(view, reach, spent)
    found = [replace(bar, editable=_may_edit(bar, reach)) for bar in found]
    return sorted(found, key=lambda bar: (-bar.percent, bar.scope_kind != "tenant", bar.rule, bar.resource))


def bars_for(view: View, namespace: str, reach: Reach) -> list[QuotaBar]:
    """The limits that bind one namespace: its own, native ones, and those of the tenants above it."""
    row = view.namespaces.get(namespace)
    above = {tenant for tenant, names in members_by_tenant(view).items() if namespace in names} if row else set()
    tenants = {view.tenants[tenant].name for tenant in above}
    wide = replace(reach, everything=reach.everything or reach.sees(namespace))
    return [
        bar
        for bar in all_bars(view, wide)
        if (bar.scope_kind == "namespace" and bar.scope == namespace)
        or (bar.scope_kind == "tenant" and bar.scope in tenants)
    ]


def members_by_tenant(view: View) -> dict[int, set[str]]:
    """Tenant → namespaces in it or anywhere below it."""
    found: dict[int, set[str]] = {tenant: set() for tenant in view.tenants}
    for name, row in view.namespaces.items():
        step, seen = row.tenant, set()
        while step is not None and step in found and step not in seen:
            found[step].add(name)
            seen.add(step)
            step = view.tenants[step].parent
    return found


def pod_limits(rule: Rule) -> list[tuple[str, int]]:
    """The limits on one pod and on one share, in words."""
    words = (
        ("pod_devices", "devices a pod"),
        ("pod_memory_mib", "MiB a pod"),
        ("pod_core_percent", "% of cores a pod"),
        ("device_memory_mib", "MiB a share"),
    )
    return [(text, limit) for name, text in words if (limit := getattr(rule.limits, name)) is not None]


def _may_edit(bar: QuotaBar, reach: Reach) -> bool:
    return not bar.native and reach.sets_quota(bar.scope if bar.scope_kind == "namespace" else None)


def _seen(row: QuotaRow, reach: Reach) -> bool:
    return reach.sees(row.namespace) if row.namespace else row.tenant is not None and reach.sees_tenant(row.tenant)


def _bars_of(
    view: View, row: QuotaRow, spent: Mapping[str, Spent], members: Mapping[int, set[str]]
) -> Iterable[QuotaBar]:
    if row.namespace is not None:
        return _bars(row.rule, row.namespace, "namespace", {row.namespace}, spent, quota_id=row.id)
    if row.tenant is None or row.tenant not in view.tenants:
        return ()
    return _bars(row.rule, view.tenants[row.tenant].name, "tenant", members[row.tenant], spent, quota_id=row.id)


def _native_bars(view: View, reach: Reach, spent: Mapping[str, Spent]) -> Iterable[QuotaBar]:
    for name in sorted({row.namespace for row in view.natives.values()}):
        if reach.sees(name):
            for rule in native_rules(view, name):
                yield from _bars(rule, name, "namespace", {name}, spent, native=True)


def _bars(
    rule: Rule,
    scope: str,
    kind: str,
    namespaces: Iterable[str],
    spent: Mapping[str, Spent],
    *,
    native: bool = False,
    quota_id: int | None = None,
) -> list[QuotaBar]:
    total: dict[str, Amounts] = defaultdict(Amounts)
    claiming = 0
    for here in (spent[name] for name in namespaces if name in spent):
        claiming += here.pods["claimed"]
        for (standing, (vendor, model)), amounts in here.amounts.items():
            if covers(rule.selector, vendor, model):
                total[standing] += amounts
    chosen = " ".join(part for part in (rule.selector.vendor, rule.selector.model_pattern) if part)
    return [
        QuotaBar(
            rule.name,
            scope,
            kind,
            resource,
            limit,
            getattr(total["used"], resource),
            getattr(total["claimed"], resource),
            getattr(total["releasing"], resource),
            claiming,
            chosen,
            native,
            quota_id,
        )
        for resource, limit in _sums(rule.limits)
    ]


def _sums(limits: Limits) -> list[tuple[str, int]]:
    return [(name, limit) for name in SUMS if (limit := getattr(limits, name)) is not None]
