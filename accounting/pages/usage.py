"""Usage: who held how much of which devices, and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from fractions import Fraction
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounting import ledger
from accounting.pages import charts, csv_rows, csv_tables
from accounting.pages.shell import console, live_page, view_now
from accounting.selectors import access, trends, usage_report, windows
from accounting.selectors.usage_report import Line, Report, Scope
from hami_platform.domain import cost
from hami_platform.domain.view import View

SHOWN = 200
MOST_DRAWN_H = 30 * trends.DAY_H
INSTANT = timedelta(microseconds=1)
BY = {"tenant": _("tenant"), "namespace": _("namespace"), "owner": _("owner"), "model": _("model")}
WINDOWS = {
    "today": _("today"),
    "yesterday": _("yesterday"),
    "7d": _("7 days"),
    "30d": _("30 days"),
    "month": _("this month"),
    "last-month": _("last month"),
}
COLUMNS = ("from", "to", "tenant", "namespace", "owner", "vendor", "model", "device_hours", "memory_mib_hours",
           "core_percent_hours", "currency", "amount", "measured_device_hours", "unused_device_hours",
           "cores_idle_device_hours", "unused_amount")  # fmt: skip


@console
def usage(request: HttpRequest) -> HttpResponse:
    """Charges by tenant, namespace, owner or model over some days; `format=csv` for a spreadsheet."""
    view, reach = view_now(), access.reach_for(request)
    window, problem = window_asked(request)
    by = request.GET.get("by", "") if request.GET.get("by") in BY else "tenant" if reach.everything else "namespace"
    scope = scope_of(request, view, reach)
    if csv_tables.asked(request) and "table" not in request.GET:
        return csv_answer(view, usage_report.usage_report(view, reach, window, by=by, scope=scope))

    def content() -> dict[str, Any]:
        report = usage_report.usage_report(view, reach, window, by=by, scope=scope)
        return {"report": report, "shown": report.lines[:SHOWN], **choices(request, by, window, scope)} | {
            "chart": charts.chart(_trend(view, reach, window, scope)),
            "held_hours": sum((line.device_hours for line in report.lines), Fraction()),
            "charged": [(name, sum(line.cents.get(name, 0) for line in report.lines)) for name in report.currencies],
            "problem": problem,
        }

    tables = {"trend": lambda: csv_rows.trend(charts.chart(_trend(view, reach, window, scope)))}
    stamp = f"usage-{usage_report.summed_at() or 0}"
    answer = live_page(request, "usage", view, content, title=gettext("Usage"), nav="usage", stamp=stamp, tables=tables)
    answer.status_code = 400 if problem else answer.status_code
    return answer


def window_asked(request: HttpRequest) -> tuple[windows.Window, str]:
    """The days asked for, or the usual ones and what is wrong with those asked for."""
    now = ledger.database_time()
    try:
        return windows.window_of(request.GET.dict(), now), ""
    except windows.BadWindow as bad:
        return windows.window_of({}, now), f"{bad.field}: {bad.sentence.text(gettext)}"


def scope_of(request: HttpRequest, view: View, reach: access.Reach) -> Scope:
    """What is asked about. Raises PermissionDenied for a namespace or tenant that the reader may not see."""
    scope = Scope(**{name: request.GET.get(name, "").strip() for name in ("namespace", "tenant", "model")})
    if why := usage_report.beyond(view, reach, scope):
        raise PermissionDenied(why)
    return scope


def csv_answer(view: View, report: Report) -> HttpResponse:
    """The whole report, a line for each holder and currency."""
    lines = (dict(zip(COLUMNS, row, strict=True)) for row in _cells(view, report))
    name = f"usage-{report.by}-{report.window.since:%Y-%m-%d}-{report.window.last_day:%Y-%m-%d}"
    return csv_tables.file(lines, name, COLUMNS)


def _cells(view: View, report: Report) -> Iterator[list[Any]]:
    days = [report.window.since.date().isoformat(), report.window.last_day.isoformat()]
    for line in report.lines:
        yield from _rows(line, [*days, *usage_report.holder(view, report.by, line.parts).values()])
    if report.idle is not None:
        yield from _rows(report.idle, [*days, "", "(idle)", "", "", ""])


def _rows(line: Line, first: list[str]) -> Iterable[list[Any]]:
    amounts = [f"{float(line.device_hours):.6f}", line.memory_mib_s // 3600, line.core_percent_s // 3600]
    measured = [f"{us / cost.HOUR_US:.6f}" for us in (line.measured_us, line.unused_us, line.unbusy_us)]
    for currency, cents in sorted(line.cents.items()):
        yield [*first, *amounts, currency, money(cents), *measured, money(line.unused_cents.get(currency, 0))]
    if not line.cents:
        yield [*first, *amounts, "", "", *measured, ""]


def money(cents: int) -> str:
    """`1234.56`, as files have it."""
    return f"{cents // 100}.{cents % 100:02}"


def choices(
    request: HttpRequest, by: str, window: windows.Window, scope: Scope, ways: Mapping[str, Any] = BY
) -> dict[str, Any]:
    """Links that change one thing and keep the rest, and what the form of days holds."""
    return {
        "ways": [(words, _address(request, by=name), name == by) for name, words in ways.items()],
        "spans": [
            (words, _address(request, window=name, **{"from": "", "to": ""}), name == window.name)
            for name, words in WINDOWS.items()
        ],
        "csv": _address(request, format="csv"),
        "waste": reverse("console:waste") + _address(request, by=by if by in BY else ""),
        "by": by,
        "scope": scope,
        "first_day": window.since.date().isoformat(),
        "last_day": window.last_day.isoformat(),
        "everything": _address(request, namespace="", tenant="", model=""),
    }


def _address(request: HttpRequest, **changed: str) -> str:
    query = request.GET.copy()
    query.pop("after", None)
    for name, text in changed.items():
        query.pop(name, None)
        if text:
            query[name] = text
    return f"?{query.urlencode()}"


def _trend(view: View, reach: access.Reach, window: windows.Window, scope: Scope) -> trends.Trend:
    """Of what the report is about. More than 30 days are drawn from the last 30."""
    hours = trends.hours_before(window.until - INSTANT, min(max(window.hours, 2), MOST_DRAWN_H))
    if scope.everybody and reach.everything:
        return trends.cluster_trend(hours)
    names = usage_report.namespaces_of(view, reach, scope)
    return trends.scope_trend(hours, names)
