"""Refuses addresses that no page can have: a NUL, which no name has and which PostgreSQL does not take in a query.

Knows no app.
"""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

Answer = Callable[[HttpRequest], HttpResponse]


def refuse_nul(answer: Answer) -> Answer:
    """Middleware: 400 for a NUL in path or query."""

    def checked(request: HttpRequest) -> HttpResponse:
        if "\0" in request.path or "%00" in request.META.get("QUERY_STRING", ""):
            return HttpResponse("The address holds a NUL.", status=400, content_type="text/plain; charset=utf-8")
        return answer(request)

    return checked
