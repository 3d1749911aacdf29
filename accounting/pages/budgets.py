"""Budgets: what is planned, what of it is used, and when it will be spent. They inform and refuse nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounting.models import Budget
from accounting.pages import burndown_chart
from accounting.pages.shell import console, live_page, view_now
from accounting.selectors import access, burndown, usage_report
from accounting.selectors import budgets as selectors
from accounting.selectors.budgets import Standing
from hami_platform.domain.view import View

STATES: Final = {"": gettext_lazy("all"), "nearly": gettext_lazy("nearly spent"), "spent": gettext_lazy("spent")}
BY: Final = {
    "namespace": gettext_lazy("namespace"),
    "owner": gettext_lazy("owner"),
    "model": gettext_lazy("model"),
}
SHOWN: Final = 200


@console
def budgets(request: HttpRequest) -> HttpResponse:
    """Every budget, the most used first; `state=` narrows."""
    view, reach = view_now(), access.reach_for(request)
    state = request.GET.get("state", "") if request.GET.get("state") in STATES else ""

    def found() -> list[Standing]:
        return [one for one in selectors.standings(view, reach) if not state or one.state == state]

    def content() -> dict[str, Any]:
        return {
            "budgets": found(),
            "any": selectors.visible(reach).exists(),
            "states": [(words, name, name == state) for name, words in STATES.items()],
            "state": state,
            "scopes": _scopes(view, reach),
            "summed_at": usage_report.summed_at(),
        }

    tables = {"budgets": lambda: _lines(found())}
    return live_page(
        request, "budgets", view, content, title=_("Budgets"), nav="usage", stamp=_stamp(view), tables=tables
    )


@console
def budget(request: HttpRequest, budget_id: int) -> HttpResponse:
    """One budget: its burn-down, and who used it."""
    view, reach = view_now(), access.reach_for(request)
    row = _row(reach, budget_id)
    by = request.GET.get("by", "") if request.GET.get("by") in BY else "namespace" if row.tenant else "owner"
    (standing,) = selectors.of_rows(view, [row], reach)

    def content() -> dict[str, Any]:
        lines = burndown.burndowns(standing)
        holders = burndown.holders(standing, by)
        return {
            "one": standing,
            "drawings": [(line, burndown_chart.drawing(line)) for line in lines],
            "holders": holders[:SHOWN],
            "count": len(holders),
            "by": by,
            "ways": [(words, name, name == by) for name, words in BY.items()],
        }

    tables = {"burndown": lambda: _points(standing), "holders": lambda: _holders(standing, by)}
    return live_page(
        request, "budget", view, content, title=standing.rule, nav="usage", stamp=_stamp(view), tables=tables
    )


def of_scope(view: View, reach: access.Reach, *, namespace: str = "", tenant: str = "") -> dict[str, Any]:
    """What the page of a namespace or tenant shows of its budgets."""
    return {
        "budgets": selectors.standings(view, reach, namespace=namespace, tenant=tenant),
        "may_plan": reach.sets_quota(namespace or None),
    }


def _row(reach: access.Reach, budget_id: int) -> Budget:
    row: Budget | None = selectors.visible(reach).filter(pk=budget_id).first()
    if row is None:
        raise Http404(f"no budget {budget_id}")
    return row


def _stamp(view: View) -> str:
    """Changes with people's changes and with every new sum."""
    return f"budgets-{view.clock.revision}-{usage_report.summed_at() or 0}"


def _scopes(view: View, reach: access.Reach) -> list[tuple[str, list[str]]]:
    """(kind, names) of what the reader may set budgets of."""
    tenants = sorted(row.name for row in view.tenants.values()) if reach.sets_quota(None) else []
    names = sorted(name for name in view.namespaces if reach.sets_quota(name))
    return [(kind, names) for kind, names in (("tenant", tenants), ("namespace", names)) if names]


def _lines(found: Iterable[Standing]) -> Iterator[dict[str, Any]]:
    """A line for each amount of a budget."""
    for one in found:
        for burn in one.burns:
            yield {
                "tenant": one.scope if one.scope_kind == "tenant" else "",
                "namespace": one.scope if one.scope_kind == "namespace" else "",
                "name": one.row.name,
                "counts": one.selector,
                "from": one.period.since.date().isoformat(),
                "to": one.period.last_day.isoformat(),
                **selectors.plain(burn),
            }


def _points(standing: Standing) -> Iterator[dict[str, Any]]:
    """A line for each amount and point of time."""
    for line in burndown.burndowns(standing):
        for one in line.points:
            amounts = {name: getattr(one, name) for name in ("left", "low", "middle", "high", "even")}
            yield {"unit": line.burn.unit, "at": one.at.isoformat()} | {
                name: None if value is None else round(value, 6) for name, value in amounts.items()
            }


def _holders(standing: Standing, by: str) -> Iterator[dict[str, Any]]:
    names = {"model": ("vendor", "model"), "owner": ("namespace", "owner")}.get(by, ("namespace",))
    for one in burndown.holders(standing, by):
        money = {} if one.cents is None else {"currency": standing.row.currency, "amount": f"{one.cents / 100:.2f}"}
        yield {
            **dict(zip(names, one.parts, strict=True)),
            "device_hours": f"{float(one.device_hours):.6f}",
            **money,
        }
