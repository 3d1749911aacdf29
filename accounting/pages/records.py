"""Findings, activity, and the platform's own health."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from accounting import ledger
from accounting.models import Finding
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

    return live_page(request, "findings", view, content, title=_("Findings"), nav="findings")


@console
def health_page(request: HttpRequest) -> HttpResponse:
    """How the platform itself stands: leadership, jobs, locks."""
    view, reach = view_now(), access.reach_for(request)
    if not reach.everything:
        raise PermissionDenied(_("The platform's health is for operators and auditors."))
    stamp = f"{freshness.stamp(view)}-{int(ledger.database_time().timestamp()) // POLLED_S}"

    def content() -> dict[str, Any]:
        return {"health": health.health(view)}

    return live_page(request, "health", view, content, title=_("Health"), nav="health", stamp=stamp)


@console
def changes(request: HttpRequest) -> HttpResponse:
    """The Journal, newest first."""
    view, reach = view_now(), access.reach_for(request)
    kind, key, before = request.GET.get("kind", ""), request.GET.get("key", ""), request.GET.get("before", "")

    def content() -> dict[str, Any]:
        rows = activity.activity(reach, kind=kind, key=key, before=int(before) if before.isdigit() else None)
        oldest = rows[-1].row.revision if len(rows) == activity.PAGE else None
        return {"rows": rows, "kind": kind, "key": key, "kinds": KINDS, "oldest": oldest}

    return live_page(request, "activity", view, content, title=_("Activity"), nav="activity")


@console
def settings_page(request: HttpRequest) -> HttpResponse:
    """Every setting of the web process with its source, and what it depends on."""
    view, reach = view_now(), access.reach_for(request)
    if not reach.everything:
        raise PermissionDenied(_("The platform's settings are for operators and auditors."))

    def content() -> dict[str, Any]:
        return {"groups": settings_shown.settings_shown(), "dependencies": settings_shown.dependencies()}

    stamp = f"settings-{round(ledger.database_time().timestamp()) // POLLED_S}"
    return live_page(request, "settings", view, content, title=_("Settings"), nav="health", stamp=stamp)
