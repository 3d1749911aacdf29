"""How budgets stand: what of each is used in its period, and when it will be spent at the pace of the last days.

Used is the sum of the hours that were summed up from who held what; prices are those of each day. It must not know how
a budget is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final

from django.db.models import Q

from accounting import ledger
from accounting.models import Budget
from accounting.selectors import budget_hours, usage_report
from accounting.selectors.access import Reach
from accounting.selectors.budget_hours import Hours, Worth
from hami_platform.domain import budgets as domain
from hami_platform.domain import cost, quota
from hami_platform.domain.budgets import HOUR, Ahead, Pace, Period
from hami_platform.domain.prices import PriceRow
from hami_platform.domain.view import View

HOURS: Final = "device_hours"
"""The unit of what is no money."""


@dataclass(frozen=True, slots=True)
class Burn:
    """One amount of a budget. unit: HOURS or a currency. limit, used: hours, or whole units of the currency.

    pace: use of a day; None where less than a day is on record. at: until when hours are summed up. until: the end of
    the period.
    """

    unit: str
    limit: Fraction
    used: Fraction
    pace: Pace | None
    at: datetime
    until: datetime

    @property
    def money(self) -> bool:
        """Whether it counts money."""
        return self.unit != HOURS

    @property
    def currency(self) -> str:
        """Of money; empty for device hours."""
        return self.unit if self.money else ""

    @property
    def left(self) -> Fraction:
        """What may still be used."""
        return max(Fraction(), self.limit - self.used)

    @property
    def over(self) -> Fraction:
        """By how much the budget is exceeded."""
        return max(Fraction(), self.used - self.limit)

    @property
    def percent(self) -> int:
        """Used per hundred of the budget, rounded down."""
        return domain.percent(self.used, self.limit)

    @property
    def state(self) -> str:
        """`spent`, `nearly`, or empty."""
        return domain.state(self.used, self.limit)

    @property
    def hours_left(self) -> int:
        """Whole hours until the period ends."""
        return max(0, (self.until - self.at) // HOUR)

    @property
    def end(self) -> Ahead | None:
        """What use comes to by the end of the period."""
        return self.pace.ahead(float(self.used), self.hours_left) if self.pace else None

    @property
    def spent(self) -> tuple[datetime | None, datetime | None, datetime | None]:
        """When it will be spent: at the earliest, likely, at the latest. None: not in this period."""
        if self.pace is None or self.state == "spent":
            return None, None, None
        found = self.pace.spent_after(float(self.used), float(self.limit), self.hours_left)
        first, likely, last = (
            None if n is None else self.at + n * HOUR for n in (found.earliest, found.likely, found.latest)
        )
        return first, likely, last

    @property
    def drawn(self) -> Bar:
        """Used, what is to come at the mean of the last days, and what is over, to scale."""
        used, limit = float(self.used), float(self.limit)
        ahead = max(self.end.middle, used) if self.end else used
        scale = max(limit, ahead) or 1.0
        edges = (
            ("solid", 0.0, min(used, limit)),
            ("claimed", used, min(ahead, limit)),
            ("over", limit, used),
            ("beyond", max(used, limit), ahead),
        )
        return Bar(
            tuple((kind, _per_cent(at, scale), _per_cent(to - at, scale)) for kind, at, to in edges if to > at),
            _per_cent(limit, scale),
        )


@dataclass(frozen=True, slots=True)
class Bar:
    """pieces: (kind, x, width); limit_x: where the budget ends. In per cent of the drawing's width."""

    pieces: tuple[tuple[str, str, str], ...]
    limit_x: str


def _per_cent(amount: float, scale: float) -> str:
    return f"{amount * 100 / scale:.2f}%"


@dataclass(frozen=True, slots=True)
class Standing:
    """A budget in the period that runs, or of which it is. unpriced: models whose use has no price in the currency.
    simulated: some hours are made up for a demonstration. at: until when hours are summed up; None: never. recorded:
    the first hour on record; None: there is none."""

    row: Budget
    period: Period
    names: frozenset[str]
    burns: tuple[Burn, ...]
    unpriced: tuple[str, ...]
    simulated: bool
    editable: bool
    at: datetime | None
    recorded: datetime | None

    @property
    def unrecorded(self) -> datetime | None:
        """Until when nothing of the period is on record; None: all of it is."""
        return self.recorded if self.recorded is not None and self.recorded > self.period.since else None

    @property
    def scope(self) -> str:
        """Name of the namespace or tenant."""
        owner = self.row.namespace or self.row.tenant
        return owner.name if owner else ""

    @property
    def scope_kind(self) -> str:
        """namespace or tenant."""
        return "namespace" if self.row.namespace else "tenant"

    @property
    def rule(self) -> str:
        """Scope and name."""
        return f"{self.scope}/{self.row.name}"

    @property
    def selector(self) -> str:
        """Which devices count; empty: all."""
        return " ".join(part for part in (self.row.vendor, self.row.model_pattern) if part)

    @property
    def percent(self) -> int:
        """Of what is most used of it."""
        return max((burn.percent for burn in self.burns), default=0)

    @property
    def state(self) -> str:
        """Of what is most used of it."""
        states = {burn.state for burn in self.burns}
        return "spent" if "spent" in states else "nearly" if "nearly" in states else ""


def standings(view: View, reach: Reach, *, namespace: str = "", tenant: str = "") -> list[Standing]:
    """Budgets that the reader may see, the most used first; of one namespace or tenant only, if named."""
    rows = visible(reach).filter(**_only(namespace, tenant))
    found = of_rows(view, list(rows), reach)
    return sorted(found, key=lambda one: (-one.percent, one.scope_kind != "tenant", one.rule))


def visible(reach: Reach) -> Any:
    """The rows that the reader may see."""
    rows = Budget.objects.filter(cluster=ledger.cluster_id()).select_related("namespace", "tenant")
    if reach.everything:
        return rows
    return rows.filter(Q(namespace__name__in=reach.namespaces) | Q(tenant__in=reach.tenants))


def may_set(row: Budget, reach: Reach) -> bool:
    """As for limits: a namespace's by its tenant's admins, a tenant's by operators."""
    return reach.sets_quota(row.namespace.name if row.namespace else None)


def of_rows(view: View, rows: Sequence[Budget], reach: Reach, *, fresh_s: int = 0) -> list[Standing]:
    """How these stand, in their order. fresh_s: hours that were summed up so long ago will do."""
    if not rows:
        return []
    stamp = usage_report.summed_at()
    at = stamp or ledger.database_time()
    periods = [period_now(row, at) for row in rows]
    table = usage_report.price_rows()
    hours = budget_hours.hours(periods, table, at, stamp, fresh_s=fresh_s)
    return [
        _standing(view, row, period, hours, table, may_set(row, reach))
        for row, period in zip(rows, periods, strict=True)
    ]


def period_now(row: Budget, at: datetime | None = None) -> Period:
    """The period that runs at a time, now unless one is given; of a budget for once, its days."""
    if row.first_day is not None and row.last_day is not None:
        return domain.period_of(row.period, row.first_day, row.first_day, row.last_day)
    return domain.period_of(row.period, (at or ledger.database_time()).astimezone(UTC).date())


def names_of(view: View, row: Budget) -> frozenset[str]:
    """The namespaces whose use counts: a tenant's are those that belong to it, or to one below it, now."""
    if row.namespace is not None:
        return frozenset((row.namespace.name,))
    return frozenset(usage_report.below(view, row.tenant.name) if row.tenant else ())


def worth_of(row: Budget, table: Iterable[PriceRow], unit: str) -> Worth:
    """What an hour of a device of some kind on some day counts in this unit of the budget."""
    selector = quota.Selector(row.vendor, row.model_pattern)
    return budget_hours.worth(selector, list(table), "" if unit == HOURS else unit)


def amounts_of(row: Budget) -> Iterable[tuple[str, Fraction]]:
    """(unit, limit) of each amount that is planned."""
    if row.device_hours is not None:
        yield HOURS, Fraction(row.device_hours)
    if row.amount is not None:
        yield row.currency, Fraction(row.amount)


def plain(burn: Burn) -> dict[str, Any]:
    """A burn as REST and the command line give it: numbers, and times that are no text yet."""
    earliest, likely, latest = burn.spent
    end, pace = burn.end, burn.pace
    return {
        "unit": burn.unit,
        "limit": float(burn.limit),
        "used": round(float(burn.used), 2 if burn.money else 6),
        "used_us": None if burn.money else int(burn.used * cost.HOUR_US),
        "used_cents": round(burn.used * 100) if burn.money else None,
        "left": round(float(burn.left), 6),
        "over": round(float(burn.over), 6),
        "percent": burn.percent,
        "state": burn.state,
        "day_mean": pace.mean if pace else None,
        "day_deviation": pace.deviation if pace else None,
        "known_days": pace.days if pace else 0,
        "forecast": {name: getattr(end, name) for name in ("low", "middle", "high")} if end else None,
        "spent_earliest": earliest,
        "spent_likely": likely,
        "spent_latest": latest,
    }


def _standing(
    view: View, row: Budget, period: Period, hours: Hours, table: Sequence[PriceRow], editable: bool
) -> Standing:
    names = names_of(view, row)
    burns, unpriced = [], set[str]()
    for unit, limit in amounts_of(row):
        worth = worth_of(row, table, unit)
        used, left_out = hours.used(names, period, worth)
        unpriced |= left_out
        burns.append(Burn(unit, limit, used, domain.pace(hours.days(names, worth)), _at(hours, period), period.until))
    counted = worth_of(row, table, HOURS)
    return Standing(
        row=row,
        period=period,
        names=names,
        burns=tuple(burns),
        unpriced=tuple(sorted(unpriced)),
        simulated=hours.simulated(names, period, counted),
        editable=editable,
        at=hours.stamp,
        recorded=hours.first,
    )


def _at(hours: Hours, period: Period) -> datetime:
    """Until when use in the period is known, in whole hours and within it."""
    return min(max(hours.end, period.since), period.until)


def _only(namespace: str, tenant: str) -> Mapping[str, str]:
    return {"namespace__name": namespace} if namespace else {"tenant__name": tenant} if tenant else {}
