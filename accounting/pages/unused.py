"""What waste costs: shares that were held and, by what was measured, not used, over some days, by whom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounting import ledger
from accounting.api import tables
from accounting.pages import usage
from accounting.pages.shell import console, live_page, view_now
from accounting.selectors import access, usage_report, waste
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
        return _file(view, by, window, _found(view, reach, window, by, scope)[0] or [])

    def content() -> dict[str, Any]:
        found, simulated = _found(view, reach, window, by, scope)
        return usage.choices(request, by, window, scope, BY) | {
            "lines": (found or [])[:SHOWN],
            "count": len(found or []),
            "too_many": found is None,
            "sums": totals(found or []),
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


def totals(found: Iterable[Line | PodWaste]) -> dict[str, Any]:
    """Of all lines: hours held, measured, not used and with idle cores; cents by currency."""
    sums = dict.fromkeys(("card_us", "measured_us", "unused_us", "unbusy_us"), 0)
    cents: dict[str, int] = {}
    unused: dict[str, int] = {}
    for line in found:
        for name in sums:
            sums[name] += getattr(line, name)
        for into, each in ((cents, line.cents), (unused, line.unused_cents)):
            for currency, amount in each.items():
                into[currency] = into.get(currency, 0) + amount
    hours = {name.replace("_us", "_hours"): Fraction(us, cost.HOUR_US) for name, us in sums.items()}
    whole = sums["card_us"]
    return hours | {
        "cents": cents,
        "unused": sorted(unused.items()),
        "currencies": sorted(cents),
        "measured_permille": sums["measured_us"] * 1000 // whole if whole else None,
        "unused_permille": sums["unused_us"] * 1000 // sums["measured_us"] if sums["measured_us"] else None,
    }


def _file(view: View, by: str, window: Window, found: Iterable[Line | PodWaste]) -> HttpResponse:
    answer = HttpResponse(tables.lines(_rows(view, by, window, found)), content_type="text/csv; charset=utf-8")
    name = f"waste-{by}-{window.since:%Y-%m-%d}-{window.last_day:%Y-%m-%d}.csv"
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer


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
            money = {"currency": currency, "amount": _money(cents) if currency else ""}
            unused = _money(line.unused_cents.get(currency, 0)) if currency else ""
            yield days | named(view, by, line) | hours | money | {"unused_amount": unused}


def named(view: View, by: str, line: Line | PodWaste) -> dict[str, str]:
    """Who a line is about: tenant, namespace, pod, owner, vendor and model, as far as they are known."""
    if isinstance(line, PodWaste):
        tenant = usage_report.tenant_of(view, line.namespace)
        known = {"tenant": tenant, "namespace": line.namespace, "pod": line.name, "owner": line.owner}
    else:
        known = usage_report.holder(view, by, line.parts)
    return {name: known.get(name, "") for name in ("tenant", "namespace", "pod", "owner", "vendor", "model")}


def _money(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02}"
