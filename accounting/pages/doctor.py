"""Connect a cluster: the steps, and what the doctor says of each. Operators only."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from accounting import ledger
from accounting.pages.shell import console, live_page, view_now
from accounting.selectors import access, connection
from accounting.services import examinations

POLLED_S = 5
"""How often ages are drawn anew while nothing changes."""


@require_http_methods(["GET", "HEAD", "POST"])
@console
def connect(request: HttpRequest) -> HttpResponse:
    """What still has to be done until the platform serves this cluster. POST: look again."""
    if not access.reach_for(request).operates:
        raise PermissionDenied(_("Connecting a cluster is for operators."))
    if request.method == "POST":
        if not examinations.examination_ask(actor=request.user.get_username()):
            messages.info(request, _("It was asked for already: one look at a time."))
        return redirect("console:connect")
    found = connection.looks()

    def content() -> dict[str, Any]:
        return {"looks": found}

    stamp = f"connect-{found.stamp}-{int(ledger.database_time().timestamp()) // POLLED_S}"
    return live_page(request, "connect", view_now(), content, title=_("Connect a cluster"), nav="health", stamp=stamp)
