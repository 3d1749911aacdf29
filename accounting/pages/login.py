"""The one-time link of a demonstration: a page with one button, whose press signs in."""

from __future__ import annotations

import ipaddress

from django.contrib.auth import login
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from accounting.services import login_links
from hami_platform import env


@never_cache
@require_http_methods(["GET", "POST"])
def login_link(request: HttpRequest, secret: str) -> HttpResponse:
    """GET looks, POST signs in; so no preview of the link by a mail or chat program uses it up."""
    if not env.current().demo or not _loopback(request):
        raise Http404
    if request.method == "POST":
        person = login_links.login_link_use(secret=secret)
        if person is not None:
            login(request, person, backend="django.contrib.auth.backends.ModelBackend")
            return redirect("console:cluster")
    known = login_links.login_link_known(secret=secret)
    return render(request, "console/login_link.html", {"known": known}, status=200 if known else 410)


def _loopback(request: HttpRequest) -> bool:
    """Whether the peer itself is this machine; what a proxy claims does not count."""
    if request.headers.get("X-Forwarded-For") or request.headers.get("Forwarded"):
        return False
    try:
        return ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False
