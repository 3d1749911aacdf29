"""Names each request, so that an answer can be found in the logs: `X-Request-ID`, the caller's own or a new one.

Knows no app.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import Final

import structlog
from django.http import HttpRequest, HttpResponse

Answer = Callable[[HttpRequest], HttpResponse]

HEADER: Final = "X-Request-ID"
_SOUND: Final = re.compile(r"[A-Za-z0-9._:+/=-]{1,64}")


def name_requests(answer: Answer) -> Answer:
    """Middleware: whatever is logged meanwhile carries the name, and so does the answer."""

    def named(request: HttpRequest) -> HttpResponse:
        sent = request.headers.get(HEADER, "")
        name = sent if _SOUND.fullmatch(sent) else uuid.uuid4().hex
        with structlog.contextvars.bound_contextvars(request=name):
            response = answer(request)
        response.headers[HEADER] = name
        return response

    return named
