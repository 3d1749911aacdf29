"""What every page shares: who may see it, the frame around it, and how a page stays current by polling.

It must not know what a page shows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from accounting import ledger, live_view
from accounting.pages import csv_tables
from accounting.selectors import access, freshness
from hami_platform import env
from hami_platform.domain.view import View

Page = Callable[..., HttpResponse]

NAVIGATION = (
    ("cluster", _("Cluster")),
    ("pending", _("Pending")),
    ("pods", _("Pods")),
    ("nodes", _("Nodes")),
    ("devices", _("Devices")),
    ("quotas", _("Quotas")),
    ("usage", _("Usage")),
    ("simulate", _("Simulate")),
    ("findings", _("Findings")),
    ("activity", _("Activity")),
    ("health", _("Health")),
)
NO_ROLE = _("You have no role in this cluster yet. Ask an operator for one in your namespace or tenant.")


def console(page: Page) -> Page:
    """A page for people with a role. Polls of somebody who was signed out reload the page, which asks to sign in."""

    @wraps(page)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not request.user.is_authenticated:
            if _polls(request):
                return HttpResponse(status=401, headers={"HX-Refresh": "true"})
            return redirect_to_login(request.get_full_path())
        try:
            if not access.reach_for(request):
                raise PermissionDenied(NO_ROLE)
            return page(request, *args, **kwargs)
        except ledger.LedgerUnavailable as fault:
            return render(request, "console/unavailable.html", {"fault": fault}, status=503)

    return guarded


def view_now() -> View:
    """The View at the last committed revision."""
    return live_view.live().refresh()


def live_page(
    request: HttpRequest,
    name: str,
    view: View,
    content: Callable[[], dict[str, Any]],
    *,
    title: str,
    nav: str,
    uid: str = "",
    uuid: str = "",
    stamp: str = "",
    tables: csv_tables.Tables | None = None,
) -> HttpResponse:
    """The page `console/<name>.html`; to a poll only its live part, or 204 while nothing has changed.

    `content` is called only when something is shown. uid, uuid: the pod or device of which the page shows
    more than the View has. stamp: changes whenever the page does, for one that shows something else than the View.
    tables: what of it there is as CSV.
    """
    if csv_tables.asked(request):
        return csv_tables.answer(request, name, tables or {})
    stamp = stamp or freshness.stamp(view, pod_uid=uid, uuid=uuid)
    if _polls(request) and request.GET["after"] == stamp:
        return HttpResponse(status=204)
    context = content() | {
        "stamp": stamp,
        "here": _here(request),
        "freshness": freshness.freshness(view),
        "reach": access.reach_for(request),
        "live": f"console/{name}.html",
        "title": title,
    }
    if _polls(request):
        return render(request, "console/_live.html", context)
    return render(request, "console/page.html", context | frame(nav))


def frame(nav: str) -> dict[str, Any]:
    """What the frame around a page shows."""
    links = [(reverse(f"console:{name}"), label, name == nav) for name, label in NAVIGATION]
    current = env.current()
    return {"links": links, "cluster": current.cluster, "demo": current.demo, "seed": current.demo_seed}


def _polls(request: HttpRequest) -> bool:
    return request.headers.get("HX-Request") == "true" and "after" in request.GET


def _here(request: HttpRequest) -> str:
    """This page's address, without what the poll adds, ready for `after=`."""
    query = request.GET.copy()
    query.pop("after", None)
    return f"{request.path}?{query.urlencode()}{'&' if query else ''}"
