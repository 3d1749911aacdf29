"""`/healthz` (the process answers), `/readyz` (its dependencies, one by one) and `/metrics`.

Must not know: what the dependencies are used for.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from django.http import HttpRequest, HttpResponse

from accounting import ledger, live_view
from hami_platform import metrics
from hami_platform.domain.view import View
from scheduler_ext import edge

OK = "ok"


def healthz(request: HttpRequest) -> HttpResponse:
    """200 and nothing else: restarting the process would not bring a database back."""
    return edge.method_not_allowed(request) or edge.text("")


def readyz(request: HttpRequest) -> HttpResponse:
    """200 when every item is ok, else 503; the items say which is not, and why."""
    refused = edge.method_not_allowed(request)
    if refused is not None:
        return refused
    items = {name: check() for name, check in CHECKS.items()}
    ready = all(item == OK for item in items.values())
    body = msgspec.json.encode({"ready": ready, "items": items})
    return edge.text(body, status=200 if ready else 503, content_type=edge.JSON)


def show_metrics(request: HttpRequest) -> HttpResponse:
    """Everything this process measures, in Prometheus' text format."""
    refused = edge.method_not_allowed(request)
    if refused is not None:
        return refused
    body, headers = metrics.answer(request.headers.get("Accept-Encoding", ""))
    return HttpResponse(body, headers=headers)


def database() -> str:
    """Whether the ledger can be read now."""
    try:
        live_view.live().refresh()
    except ledger.LedgerUnavailable as error:
        return str(error)
    return OK


def view() -> str:
    """Whether this process has a View to decide on."""
    return OK if _now().clock.revision else "nothing is loaded yet"


def compared() -> str:
    """Whether the ledger was compared in full with the API server since it was made or restored."""
    return OK if _now().ready else "the ledger has not been compared with the API server yet"


def _now() -> View:
    try:
        return live_view.live().now
    except ledger.LedgerUnavailable:
        return View()


CHECKS: dict[str, Callable[[], str]] = {"database": database, "view": view, "compared": compared}
