"""`/livez`, `/startupz`, `/readyz` (and `/healthz`) of a listener, and `/metrics`.

Must not know: what is looked at.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from hami_platform import health, metrics
from scheduler_ext import edge


def livez(request: HttpRequest) -> HttpResponse:
    """200 while the process answers: restarting it would not bring a database back."""
    return _answered(request, health.LIVE)


def startupz(request: HttpRequest) -> HttpResponse:
    """200 once the application is loaded. No dependency counts: one that is away must not end who waits for it."""
    return _answered(request, health.STARTED)


def readyz(request: HttpRequest) -> HttpResponse:
    """200 when every item that counts is ok, else 503; the items say which is not, and why."""
    return _answered(request, health.READY)


def show_metrics(request: HttpRequest) -> HttpResponse:
    """Everything this process measures, in Prometheus' text format."""
    refused = edge.method_not_allowed(request)
    if refused is not None:
        return refused
    body, headers = metrics.answer(request.headers.get("Accept-Encoding", ""))
    return HttpResponse(body, headers=headers)


def _answered(request: HttpRequest, asked: str) -> HttpResponse:
    refused = edge.method_not_allowed(request)
    if refused is not None:
        return refused
    found = health.answer(asked, verbose="verbose" in request.GET)
    return edge.text(found.body, status=found.status, content_type=found.content_type)
