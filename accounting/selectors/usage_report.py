"""What use of devices comes to over some time, and what it costs: read from the hourly sums only.

Charges are worked out over everybody's time, then narrowed to what the reader may see. With the idle row they come to
capacity × price, to the cent. Namespaces count to the tenant that they belong to now.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from fractions import Fraction
from typing import Any, Final

from django.db.models import Case, Max, Sum, Value, When
from django.utils.translation import gettext

from accounting import ledger
from accounting.models import Price, ProcessLease, UsageHour
from accounting.selectors.access import Reach
from accounting.selectors.held_time import HeldTime
from accounting.selectors.windows import Window
from hami_platform.domain import cost, prices
from hami_platform.domain.prices import PriceRow
from hami_platform.domain.view import View

ROLLUP: Final = "rollup"
"""The periodic task that sums up hours."""
BY: Final = ("tenant", "namespace", "owner", "model")
AMOUNTS: Final = ("card_us", "memory_mib_s", "core_percent_s", "measured_us", "unused_us", "unbusy_us")
Parts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose use is asked about: a namespace, a tenant with all below it, a model. Empty: everybody's, every."""

    namespace: str = ""
    tenant: str = ""
    model: str = ""

    @property
    def everybody(self) -> bool:
        """Whether idle time belongs to it."""
        return not self.namespace and not self.tenant


@dataclass(slots=True)
class Line(HeldTime):
    """One holder. parts: (tenant), (namespace), (namespace, owner) or (vendor, model)."""

    parts: Parts = ()
    memory_mib_s: int = 0
    core_percent_s: int = 0
    share_permille: int = 0

    def count(self, amounts: Mapping[str, Any]) -> None:
        """More of the holder's use, by AMOUNTS."""
        for name in AMOUNTS:
            setattr(self, name, getattr(self, name) + amounts[name])


@dataclass(frozen=True, slots=True)
class Report:
    """idle: what nobody held; None where the reader or the question leaves it out. total: of the lines and the idle
    row. unpriced: models in it that had no price on some day. simulated: some of the hours are made up for a
    demonstration. summed_at: when hours were last summed up; None: never."""

    window: Window
    by: str
    lines: tuple[Line, ...]
    idle: Line | None
    total: Line
    currencies: tuple[str, ...]
    unpriced: tuple[str, ...]
    simulated: bool
    summed_at: datetime | None


def usage_report(view: View, reach: Reach, window: Window, *, by: str, scope: Scope | None = None) -> Report:
    """The report that somebody may see. by: one of BY."""
    scope = scope or Scope()
    table = price_rows()
    book = _Book(view, by, None if _all(reach, scope) else frozenset(namespaces_of(view, reach, scope)))
    for start, end in segments(window, table):
        for row in _sums(start, end, scope, owners=by == "owner"):
            kind = row["vendor"], row["model"]
            book.add(row, prices.price_of(table, *kind, start.astimezone(UTC).date()))
    lines, idle = book.closed(table)
    shown = reach.everything and scope.everybody
    return _report(window, by, lines, idle if shown and (lines or idle.card_us) else None, book)


def price_rows() -> list[PriceRow]:
    """Every price of the cluster."""
    rows = Price.objects.filter(cluster=ledger.cluster_id())
    return [
        PriceRow(
            row.pk,
            row.vendor,
            row.model_pattern,
            row.valid_from,
            Fraction(row.device_hour) * 100,
            row.currency,
        )
        for row in rows
    ]


def summed_at() -> datetime | None:
    """When hours were last summed up."""
    lease = ProcessLease.objects.filter(cluster=ledger.cluster_id(), name=ROLLUP)
    return lease.values_list("succeeded_at", flat=True).first()


def beyond(view: View, reach: Reach, scope: Scope) -> str:
    """Why the reader may not ask about this; empty: he may."""
    if scope.namespace and not reach.sees(scope.namespace):
        return gettext("You have no role in the namespace %(name)s.") % {"name": scope.namespace}
    known = {row.name: row.id for row in view.tenants.values()}
    if scope.tenant and not reach.sees_tenant(known.get(scope.tenant, 0)):
        return gettext("You have no role in the tenant %(name)s.") % {"name": scope.tenant}
    return ""


def holder(view: View, by: str, parts: Parts) -> dict[str, str]:
    """Tenant, namespace, owner, vendor and model of a line: what is known of them."""
    found = dict.fromkeys(("tenant", "namespace", "owner", "vendor", "model"), "")
    if by == "tenant":
        return found | {"tenant": parts[0]}
    if by == "model":
        return found | {"vendor": parts[0], "model": parts[1]}
    owner = parts[1] if by == "owner" else ""
    return found | {"tenant": tenant_of(view, parts[0]), "namespace": parts[0], "owner": owner}


def tenant_of(view: View, namespace: str) -> str:
    """The tenant that a namespace belongs to now; empty: none."""
    row = view.namespaces.get(namespace)
    tenant = view.tenants.get(row.tenant) if row is not None and row.tenant is not None else None
    return tenant.name if tenant is not None else ""


def below(view: View, tenant: str) -> set[str]:
    """Namespaces of a tenant and of all tenants below it."""
    inside = {row.id for row in view.tenants.values() if row.name == tenant}
    while more := {row.id for row in view.tenants.values() if row.parent in inside} - inside:
        inside |= more
    return {row.name for row in view.namespaces.values() if row.tenant in inside}


def namespaces_of(view: View, reach: Reach, scope: Scope) -> set[str]:
    """The namespaces asked for that the reader may see. Also one that has no row any more, if it was named."""
    if scope.namespace:
        names = {scope.namespace}
    elif scope.tenant:
        names = below(view, scope.tenant)
    else:
        names = {*view.namespaces} if reach.everything else set(reach.namespaces)
    if scope.tenant:
        names &= below(view, scope.tenant)
    return {name for name in names if reach.sees(name)}


def segments(window: Window, table: Iterable[PriceRow]) -> list[tuple[datetime, datetime]]:
    """The window, cut where some price begins."""
    days: set[date] = {one.valid_from for one in table}
    cuts = {datetime.combine(day, time(), UTC) for day in days}
    edges = sorted({window.since, window.until, *(at for at in cuts if window.since < at < window.until)})
    return list(itertools.pairwise(edges))


class _Book:
    """Adds up rows by holder. Holders outside what is asked for keep their own place, so that nobody's cents depend
    on who asks."""

    def __init__(self, view: View, by: str, shown: frozenset[str] | None) -> None:
        self.view, self.by, self.shown = view, by, shown
        self.lines: dict[tuple[bool, Parts], Line] = defaultdict(Line)
        self.time: dict[str, dict[tuple[tuple[bool, Parts], int], int]] = defaultdict(lambda: defaultdict(int))
        self.waste: dict[str, dict[tuple[tuple[bool, Parts], int], int]] = defaultdict(lambda: defaultdict(int))
        self.unpriced: set[str] = set()
        self.simulated = False

    def add(self, row: Mapping[str, Any], price: PriceRow | None) -> None:
        key = self._key(row)
        self.lines[key].count(row)
        self.simulated = self.simulated or bool(row["made_up"])
        if price is not None:
            self.time[price.currency][key, price.id] += row["card_us"]
            self.waste[price.currency][key, price.id] += row["unused_us"]
        elif row["card_us"] and key[0]:
            self.unpriced.add(row["model"] or row["vendor"])

    def closed(self, table: Iterable[PriceRow]) -> tuple[list[Line], Line]:
        """(the lines asked for, most time first; the idle one), with what they cost."""
        hours = {one.id: one.hour_cents for one in table}
        for name, money in (("cents", self.time), ("unused_cents", self.waste)):
            for currency, times in money.items():
                in_order = dict(sorted(times.items(), key=lambda one: (one[0][0][1], one[0])))
                for key, cents in cost.charges_cents(in_order, hours).items():
                    getattr(self.lines[key], name)[currency] = cents
        for (_, parts), line in self.lines.items():
            line.parts = parts
        idle = self.lines.pop((True, ()), Line())
        lines = [line for (shown, _), line in self.lines.items() if shown]
        return sorted(lines, key=lambda line: (-line.card_us, line.parts)), idle

    def _key(self, row: Mapping[str, Any]) -> tuple[bool, Parts]:
        namespace = row["namespace"]
        if not namespace:
            return True, ()
        shown = self.shown is None or namespace in self.shown
        if self.by == "tenant":
            return shown, (tenant_of(self.view, namespace),)
        if self.by == "model":
            return shown, (row["vendor"], row["model"])
        return shown, (namespace, row["owner"]) if self.by == "owner" else (namespace,)


def _report(window: Window, by: str, lines: list[Line], idle: Line | None, book: _Book) -> Report:
    total = Line()
    for line in [*lines, *([idle] if idle else [])]:
        total.add(line)
        total.memory_mib_s += line.memory_mib_s
        total.core_percent_s += line.core_percent_s
    for line in [*lines, *([idle] if idle else [])]:
        line.share_permille = round(Fraction(line.card_us * 1000, total.card_us)) if total.card_us else 0
    return Report(
        window=window,
        by=by,
        lines=tuple(lines),
        idle=idle,
        total=total,
        currencies=tuple(total.currencies),
        unpriced=tuple(sorted(book.unpriced)),
        simulated=book.simulated,
        summed_at=summed_at(),
    )


def _all(reach: Reach, scope: Scope) -> bool:
    return reach.everything and scope.everybody


def _sums(start: datetime, end: datetime, scope: Scope, *, owners: bool) -> Iterable[dict[str, Any]]:
    rows = UsageHour.objects.filter(cluster=ledger.cluster_id(), hour__gte=start, hour__lt=end)
    if scope.model:
        rows = rows.filter(model=scope.model)
    columns = ("namespace", "vendor", "model", *(("owner",) if owners else ()))
    made_up = Max(Case(When(simulated=True, then=Value(1)), default=Value(0)))
    grouped = rows.order_by().values(*columns)
    found: Iterable[dict[str, Any]] = grouped.annotate(**{name: Sum(name) for name in AMOUNTS}, made_up=made_up)
    return found
