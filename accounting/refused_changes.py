"""Middleware of the console: a change that was refused for lack of rights is kept for auditors, whoever refused it."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from accounting.models import AccessRecord
from accounting.services import access_log

READS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})

Answer = Callable[[HttpRequest], HttpResponse]


def keep_refused_changes(answer: Answer) -> Answer:
    """Look at each answer: 401 and 403 to anything but a read."""

    def answered(request: HttpRequest) -> HttpResponse:
        response = answer(request)
        if response.status_code in (401, 403) and request.method not in READS:
            access_log.record(
                AccessRecord.Kind.REFUSED,
                who=request.user.get_username() if hasattr(request, "user") else "",
                what=f"{request.method} {request.path}",
                address=str(request.META.get("REMOTE_ADDR", "")),
            )
        return response

    return answered
