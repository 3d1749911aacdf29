"""What waste costs: shares that were held and, by what was measured, not used, over some days, by whom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounting import ledger
from accounting.pages import csv_tables, usage
from accounting.pages.shell import console, live_page, view_now
from accounting.selectors import access, held_time, usage_report, waste
from accounting.selectors.usage_report import Line, Scope
from accounting.selectors.waste import PodWaste
from accounting.selectors.windows import Window
from hami_platform.domain import cost
from hami_platform.domain.view import View

SHOWN: Final = 200
EVERY_S: Final = 30
"""Of pods: how often what is measured just now is looked at anew."""
POD: Final = "pod"
BY: Final = {POD: _("pod"), **usage.BY}


@console
def wasted(request: HttpRequest) -> HttpResponse:
    """By pod, owner, namespace, tenant or model over some days; `format=csv` for a spreadsheet."""
    view, reach = view_now(), access.reach_for(request)
    window, problem = usage.window_asked(request)
    by = request.GET.get("by", "") if request.GET.get("by") in BY else "tenant" if reach.everything else "namespace"
    scope = usage.scope_of(request, view, reach)
    if request.GET.get("format") == "csv":
        found, _made_up = _found(view, reach, window, by, scope)
        name = f"waste-{by}-{window.since:%Y-%m-%d}-{window.last_day:%Y-%m-%d}"
        return csv_tables.file(_rows(view, by, window, found or []), name)

    def content() -> dict[str, Any]:
        found, simulated = _found(view, reach, window, by, scope)
        return usage.choices(request, by, window, scope, BY) | {
            "lines": (found or [])[:SHOWN],
            "count": len(found or []),
            "too_many": found is None,
            "sums": held_time.total(found or []),
            "problem": problem,
            "simulated": simulated,
            "summed_at": usage_report.summed_at(),
        }

    stamp = f"waste-{usage_report.summed_at() or 0}"
    if by == POD:
        stamp = f"waste-{int(ledger.database_time().timestamp()) // EVERY_S}"
    answer = live_page(request, "waste", view, content, title=gettext("What waste costs"), nav="usage", stamp=stamp)
    answer.status_code = 400 if problem else answer.status_code
    return answer


def _found(
    view: View, reach: access.Reach, window: Window, by: str, scope: Scope
) -> tuple[list[Line] | list[PodWaste] | None, bool]:
    """(who wasted what, the most first, or None for too many pods to look at; whether some of it is made up)."""
    if by == POD:
        return waste.pods(view, reach, window, scope), False
    report = usage_report.usage_report(view, reach, window, by=by, scope=scope)
    return sorted(report.lines, key=lambda line: (-line.unused_us, line.parts)), report.simulated


def _rows(view: View, by: str, window: Window, found: Iterable[Line | PodWaste]) -> Iterator[dict[str, Any]]:
    """A line for each holder and currency."""
    for line in found:
        hours = {
            name: f"{getattr(line, column) / cost.HOUR_US:.6f}"
            for name, column in (
                ("device_hours", "card_us"),
                ("measured_device_hours", "measured_us"),
                ("unused_device_hours", "unused_us"),
                ("cores_idle_device_hours", "unbusy_us"),
            )
        }
        days = {"from": window.since.date().isoformat(), "to": window.last_day.isoformat()}
        for currency, cents in sorted(line.cents.items()) or [("", 0)]:
            money = {"currency": currency, "amount": usage.money(cents) if currency else ""}
            unused = usage.money(line.unused_cents.get(currency, 0)) if currency else ""
            yield days | named(view, by, line) | hours | money | {"unused_amount": unused}


def named(view: View, by: str, line: Line | PodWaste) -> dict[str, str]:
    """Who a line is about: tenant, namespace, pod, owner, vendor and model, as far as they are known."""
    if isinstance(line, PodWaste):
        tenant = usage_report.tenant_of(view, line.namespace)
        known = {"tenant": tenant, "namespace": line.namespace, "pod": line.name, "owner": line.owner}
    else:
        known = usage_report.holder(view, by, line.parts)
    return {name: known.get(name, "") for name in ("tenant", "namespace", "pod", "owner", "vendor", "model")}
