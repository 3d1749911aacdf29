"""What each role's listener answers; a webhook has no `/bind`, an extender no `/webhook`."""

from __future__ import annotations

from django.urls import URLPattern, path

from hami_platform import env
from scheduler_ext import extender, health, refit, webhook

HEALTH = [
    path("livez", health.livez),
    path("healthz", health.livez),
    path("startupz", health.startupz),
    path("readyz", health.readyz),
    path("metrics", health.show_metrics),
]
EXTENDER = [
    path("filter", extender.FilterView.as_view()),
    path("bind", extender.BindView.as_view()),
]
WEBHOOK = [
    path("webhook", webhook.WebhookView.as_view()),
    path("refit", refit.RefitView.as_view()),
]


def routes(role: str) -> list[URLPattern]:
    """The routes of a role; any other than the two listeners' (tests, tools) has them all."""
    own = {"webhook": WEBHOOK, "extender": EXTENDER}
    return [*own.get(role, [*WEBHOOK, *EXTENDER]), *HEALTH]


urlpatterns = routes(env.current().role)
