"""Quotas, namespaces and tenants: what is allowed and what is used of it."""

from __future__ import annotations

import itertools
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from accounting import ledger
from accounting.models import Namespace, Tenant
from accounting.pages import budgets, charts, csv_rows, csv_tables
from accounting.pages.shell import console, live_page, view_now
from accounting.selectors import access, native_beside, pods, quota_bars, usage_report
from accounting.services import standing

SHOWN = 200
"""Pods on a namespace's page; the list of pods has the rest."""


@console
def quotas(request: HttpRequest) -> HttpResponse:
    """Every limit, fullest first."""
    view, reach = view_now(), access.reach_for(request)

    def content() -> dict[str, Any]:
        spent = quota_bars.spent_by_namespace(view)
        limited = {bar.scope for bar in quota_bars.all_bars(view, reach) if bar.scope_kind == "namespace"}
        names = sorted(name for name in {*view.namespaces, *spent} if reach.sees(name) and name not in limited)
        return {
            "bars": quota_bars.all_bars(view, reach),
            "over": standing.over(view, reach),
            "starved": standing.starved(view, reach),
            "beside": native_beside.all_beside(view, reach),
            "unlimited": names,
            "tenants": _tenants(view, reach),
        }

    return live_page(
        request, "quotas", view, content, title=_("Quotas"), nav="quotas", tables=_quota_tables(view, reach)
    )


@console
def namespace(request: HttpRequest, name: str) -> HttpResponse:
    """One namespace: its limits, what it holds, its pods."""
    view, reach = view_now(), access.reach_for(request)
    if not reach.sees(name):
        raise PermissionDenied(_("You have no role in the namespace %(name)s.") % {"name": name})
    row = Namespace.objects.filter(cluster=ledger.cluster_id(), name=name).select_related("tenant").first()
    if row is None and name not in view.usage:
        raise Http404(f"no namespace {name}")

    def trend() -> charts.Chart | None:
        return charts.week_of(ledger.database_time(), {name})

    def content() -> dict[str, Any]:
        bars = quota_bars.bars_for(view, name, reach)
        lines, count = pods.pod_page(view, reach, namespace=name, most=SHOWN)
        return {
            "name": name,
            "row": row,
            "bars": bars,
            "may_set": reach.sets_quota(name) and not any(bar.scope == name and bar.editable for bar in bars),
            "usage": sorted(view.usage.get(name, {}).items()),
            "per_pod": _per_pod(view, name),
            "lines": lines,
            "count": count,
            "denied": pods.denied(reach, namespace=name),
            "chart": trend(),
            **budgets.of_scope(view, reach, namespace=name),
        }

    tables: csv_tables.Tables = {
        "amounts": lambda: itertools.starmap(csv_rows.amounts, sorted(view.usage.get(name, {}).items())),
        "pods": lambda: map(csv_rows.pod, pods.pod_lines(view, reach, namespace=name)),
        "trend": lambda: csv_rows.trend(trend()),
    }
    return live_page(request, "namespace", view, content, title=name, nav="quotas", tables=tables)


@console
def tenant(request: HttpRequest, name: str) -> HttpResponse:
    """One tenant: its limits, and the namespaces under it."""
    view, reach = view_now(), access.reach_for(request)
    row = Tenant.objects.filter(cluster=ledger.cluster_id(), name=name).select_related("parent").first()
    if row is None:
        raise Http404(f"no tenant {name}")
    if not reach.sees_tenant(row.pk):
        raise PermissionDenied(_("You have no role in the tenant %(name)s.") % {"name": name})

    def trend() -> charts.Chart | None:
        return charts.week_of(ledger.database_time(), usage_report.below(view, name))

    def content() -> dict[str, Any]:
        members = quota_bars.members_by_tenant(view).get(row.pk, set())
        bars = quota_bars.all_bars(view, reach)
        return {
            "row": row,
            "children": list(row.children.all()),
            "bars": [bar for bar in bars if bar.scope_kind == "tenant" and bar.scope == name],
            "member_bars": [bar for bar in bars if bar.scope_kind == "namespace" and bar.scope in members],
            "members": sorted(members),
            "chart": trend(),
            **budgets.of_scope(view, reach, tenant=name),
        }

    tables = {"trend": lambda: csv_rows.trend(trend())}
    return live_page(request, "tenant", view, content, title=name, nav="quotas", tables=tables)


def _quota_tables(view: Any, reach: access.Reach) -> csv_tables.Tables:
    return {
        "limits": lambda: map(csv_rows.limit, quota_bars.all_bars(view, reach)),
        "over": lambda: map(csv_rows.limit, standing.over(view, reach)),
        "starved": lambda: map(csv_rows.starved, standing.starved(view, reach)),
        "beside": lambda: map(csv_rows.beside, native_beside.all_beside(view, reach)),
    }


def _tenants(view: Any, reach: access.Reach) -> list[str]:
    return sorted(row.name for row in view.tenants.values() if reach.sees_tenant(row.id))


def _per_pod(view: Any, name: str) -> list[tuple[str, list[tuple[str, int]]]]:
    """Limits on one pod, by rule, of the namespace and the tenants above it."""
    rules = [rule for rule, _left in view.headroom(name).rules]
    return [(rule.name, limits) for rule in rules if (limits := quota_bars.pod_limits(rule))]
