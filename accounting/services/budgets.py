"""Budgets: device hours, money, or both, that a namespace or a tenant plans for a period. They refuse nothing.

It must not know how much of one is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final

from accounting import ledger
from accounting.models import Budget, Namespace
from accounting.services import edits, errors, scopes
from hami_platform.domain import quota as domain
from hami_platform.domain.sentences import phrase

ANY: Final = domain.Selector()
LARGEST: Final = Decimal("999999999999.99")
HOURS_MOST: Final = 10**12
DAYS_MOST: Final = 366
"""Of a budget for once: its burn-down is drawn hour by hour."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is planned. device_hours, amount: None: nothing is planned of that; one of them must be there. first_day,
    last_day: of a budget for once, both included."""

    device_hours: int | None = None
    amount: Decimal | None = None
    currency: str = ""
    period: str = Budget.Period.MONTH
    first_day: date | None = None
    last_day: date | None = None


def budget_set(
    *,
    namespace: str = "",
    tenant: str = "",
    name: str = "default",
    plan: Plan,
    selector: domain.Selector = ANY,
    reason: str,
    actor: str = "",
    expected_version: int | None = None,
    budget_id: int | None = None,
) -> Budget:
    """Make the budget `name` of one namespace or one tenant, or change it (by id: also its name).

    Its version rises by one. A namespace without a row gets one. expected_version: the version that the person saw; 0:
    it must be new; None: whatever. Raises InvalidInput, which names the field; Outdated for another version.
    """
    reason = edits.reason_checked(reason)
    with ledger.transaction(cause="budget_set", actor=actor) as entry:
        row = _found(entry, namespace, tenant, name, budget_id)
        _refuse_outdated(row, expected_version)
        values: dict[str, Any] = {
            "name": edits.text_checked(row, "name", name),
            "vendor": scopes.vendor_checked(row, selector.vendor),
            "model_pattern": edits.text_checked(row, "model_pattern", selector.model_pattern),
            **plan_checked(plan),
        }
        new = edits.is_new(row)
        if new or any(getattr(row, column) != value for column, value in values.items()):
            values |= {"reason": reason, "version": 1 if new else row.version + 1}
        _put(entry, row, values, reason)
    return row


def budget_delete(*, budget_id: int, reason: str, actor: str = "", expected_version: int | None = None) -> None:
    """Take a budget away; its history stays. Raises InvalidInput; Outdated when the version is another one."""
    reason = edits.reason_checked(reason)
    with ledger.transaction(cause="budget_delete", actor=actor) as entry:
        row = _by_id(entry, budget_id)
        _refuse_outdated(row, expected_version)
        edits.take_away(entry, row, kind="budget", reason=reason)


def plan_checked(plan: Plan) -> dict[str, Any]:
    """Column → value. Raises InvalidInput."""
    if plan.device_hours is None and plan.amount is None:
        raise errors.InvalidInput("device_hours", phrase("plan device hours, an amount of money, or both"))
    return {
        "device_hours": edits.amount_checked("device_hours", plan.device_hours, HOURS_MOST),
        **_money_checked(plan.amount, plan.currency.strip().upper()),
        "period": plan.period,
        **_days_checked(plan),
    }


def _money_checked(amount: Decimal | None, currency: str) -> dict[str, Any]:
    if amount is None:
        return {"amount": None, "currency": ""}
    if not amount.is_finite() or not 0 <= amount <= LARGEST:
        raise errors.InvalidInput("amount", phrase("from 0 to %(most)s", most=str(LARGEST)))
    if len(currency) != 3 or not (currency.isascii() and currency.isalpha()):
        raise errors.InvalidInput("currency", phrase("three letters, such as EUR: that of the prices"))
    return {"amount": amount.quantize(Decimal("0.01")), "currency": currency}


def _days_checked(plan: Plan) -> dict[str, Any]:
    if plan.period not in Budget.Period.values:
        raise errors.InvalidInput("period", phrase("one of %(names)s", names=", ".join(Budget.Period.values)))
    first, last = plan.first_day, plan.last_day
    if plan.period != Budget.Period.ONCE:
        if first is not None or last is not None:
            raise errors.InvalidInput("first_day" if first else "last_day", phrase("only of a budget for once"))
    elif first is None or last is None:
        raise errors.InvalidInput("last_day" if first else "first_day", phrase("a budget for once needs both days"))
    elif last < first:
        raise errors.InvalidInput("last_day", phrase("is before the first day"))
    elif (last - first).days >= DAYS_MOST:
        raise errors.InvalidInput(
            "last_day", phrase("more than %(most)s days: make one for each year", most=str(DAYS_MOST))
        )
    elif not 2000 <= first.year <= 9000:
        raise errors.InvalidInput("first_day", phrase("a year from 2000 to 9000"))
    return {"first_day": first, "last_day": last}


def _put(entry: ledger.Entry, row: Budget, values: dict[str, Any], reason: str) -> None:
    """A budget of a namespace that nobody has seen yet makes the namespace's row as well."""
    row.namespace = scopes.namespace_stored(entry, row.namespace, reason)
    scope = row.namespace.name if row.namespace is not None else ""
    edits.put(entry, row, values, kind="budget", reason=reason, scope=scope)


def _refuse_outdated(row: Budget, expected: int | None) -> None:
    stored = 0 if edits.is_new(row) else row.version
    if expected is None or expected == stored:
        return
    if expected == 0:
        raise errors.Outdated("name", phrase("there is a budget %(name)s already", name=str(row)))
    raise errors.Outdated(
        "version",
        phrase(
            "you saw version %(expected)s, it is now %(stored)s: look at the newer one first",
            expected=expected,
            stored=stored,
        ),
    )


def _by_id(entry: ledger.Entry, budget_id: int) -> Budget:
    row = Budget.objects.filter(cluster=entry.clock.cluster_id, pk=budget_id).first()
    if row is None:
        raise errors.InvalidInput("budget", phrase("is gone"))
    return row


def _found(entry: ledger.Entry, namespace: str, tenant: str, name: str, budget_id: int | None) -> Budget:
    owner = scopes.scope_row(entry, namespace, tenant)
    scope: dict[str, Any] = {"namespace": owner} if isinstance(owner, Namespace) else {"tenant": owner}
    named = None if edits.is_new(owner) else Budget.objects.filter(**scope, name=name.strip()).first()
    if budget_id is None:
        return named or Budget(cluster_id=entry.clock.cluster_id, **scope)
    row = _by_id(entry, budget_id)
    if (row.namespace or row.tenant) != owner:
        field = "namespace" if isinstance(owner, Namespace) else "tenant"
        raise errors.InvalidInput(field, phrase("a budget stays with its scope: make another one"))
    if named is not None and named.pk != row.pk:
        raise errors.InvalidInput("name", phrase("there is a budget %(name)s already", name=str(named)))
    return row
