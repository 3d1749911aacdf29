"""What a process answers, by its role. A listener has the routes of its role and no others.

`tool` (tests, shells) has them all, so that `reverse` works everywhere.
"""

from __future__ import annotations

import importlib

from allauth.account.decorators import secure_admin_login
from django.contrib import admin
from django.templatetags.static import static
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

from hami_platform import env

Routes = list[URLPattern | URLResolver]


def _admin_site() -> admin.AdminSite:
    """The console's admin site, whose login is the platform's: second factor and provider included."""
    site: admin.AdminSite = importlib.import_module("accounting.admin").site
    site.login = secure_admin_login(site.login)  # type: ignore[method-assign]  # allauth's documented way
    return site


def _web() -> Routes:
    health = importlib.import_module("scheduler_ext.health")
    return [
        # For the kubelet's probes. Not /metrics: who reaches the console need not see every namespace's use.
        path("livez", health.livez),
        path("healthz", health.livez),
        path("startupz", health.startupz),
        path("readyz", health.readyz),
        path("favicon.ico", RedirectView.as_view(url=static("console/icon.svg"))),  # asked for whatever a page says
        path("admin/", _admin_site().urls),
        path("accounts/", include("allauth.urls")),
        path("api/", include("accounting.api.urls")),
        path("", include("accounting.urls")),
    ]


def _machines() -> Routes:
    return [path("", include("scheduler_ext.urls"))]


def routes(role: str) -> Routes:
    """The routes of a role."""
    if role in {"webhook", "extender"}:
        return _machines()
    if role == "tool":
        return [*_machines(), *_web()]
    return _web()


urlpatterns = routes(env.current().role)
