"""Findings, activity, and the platform's own health."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from accounting import ledger
from accounting.models import Finding
from accounting.pages import csv_rows, csv_tables
from accounting.pages.shell import console, live_page, view_now
from accounting.selectors import access, activity, finding_words, freshness, health, settings_shown

POLLED_S = 5
"""How often the page of ages is drawn anew while nothing changes."""

KINDS = (
    "people",
    "pod",
    "quota",
    "budget",
    "namespace",
    "tenant",
    "device",
    "hold",
    "node",
    "lock",
    "native",
    "price",
    "role",
    "token",
    "clock",
)


@console
def findings(request: HttpRequest) -> HttpResponse:
    """Drift between ledger and cluster: what is open, and what was repaired lately."""
    view, reach = view_now(), access.reach_for(request)
    if not reach.everything:
        raise PermissionDenied(_("Findings concern the whole cluster: they are for operators and auditors."))

    def content() -> dict[str, Any]:
        repaired = Finding.objects.filter(cluster=ledger.cluster_id()).exclude(repaired_at=None)
        found = [finding_words.told(row) for row in activity.open_findings()]
        return {"open": found, "repaired": list(repaired.order_by("-repaired_at")[:50])}

    def table() -> csv_tables.Rows:
        ours = Finding.objects.filter(cluster=ledger.cluster_id())
        return csv_rows.findings(ours.order_by(F("repaired_at").desc(nulls_first=True), "-pk").iterator())

    return live_page(
        request, "findings", view, content, title=_("Findings"), nav="findings", tables={"findings": table}
    )


@console
def health_page(request: HttpRequest) -> HttpResponse:
    """How the platform itself stands: leadership, jobs, locks."""
    view, reach = view_now(), access.reach_for(request)
    if not reach.everything:
        raise PermissionDenied(_("The platform's health is for operators and auditors."))
    stamp = f"{freshness.stamp(view)}-{int(ledger.database_time().timestamp()) // POLLED_S}"

    def content() -> dict[str, Any]:
        return {"health": health.health(view)}

    tables = {
        "jobs": lambda: csv_rows.jobs(health.health(view)),
        "locks": lambda: csv_rows.locks(health.health(view)),
    }

    return live_page(request, "health", view, content, title=_("Health"), nav="health", stamp=stamp, tables=tables)


@console
def changes(request: HttpRequest) -> HttpResponse:
    """The Journal, newest first."""
    view, reach = view_now(), access.reach_for(request)
    kind, key, before = request.GET.get("kind", ""), request.GET.get("key", ""), request.GET.get("before", "")

    def content() -> dict[str, Any]:
        rows = activity.activity(reach, kind=kind, key=key, before=int(before) if before.isdigit() else None)
        oldest = rows[-1].row.revision if len(rows) == activity.PAGE else None
        return {"rows": rows, "kind": kind, "key": key, "kinds": KINDS, "oldest": oldest}

    def table() -> csv_tables.Rows:
        return map(csv_rows.change, activity.all_of(reach, kind=kind, key=key))

    return live_page(request, "activity", view, content, title=_("Activity"), nav="activity", tables={"changes": table})


@console
def settings_page(request: HttpRequest) -> HttpResponse:
    """Every setting of the web process with its source, and what it depends on."""
    view, reach = view_now(), access.reach_for(request)
    if not reach.everything:
        raise PermissionDenied(_("The platform's settings are for operators and auditors."))

    def content() -> dict[str, Any]:
        return {"groups": settings_shown.settings_shown(), "dependencies": settings_shown.dependencies()}

    tables: csv_tables.Tables = {
        "settings": lambda: csv_rows.settings(settings_shown.settings_shown()),
        "dependencies": lambda: map(csv_rows.dependency, settings_shown.dependencies()),
    }
    stamp = f"settings-{round(ledger.database_time().timestamp()) // POLLED_S}"
    return live_page(request, "settings", view, content, title=_("Settings"), nav="health", stamp=stamp, tables=tables)
