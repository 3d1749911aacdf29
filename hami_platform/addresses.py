"""Refuses addresses that no page can have: a NUL, which no name has and which PostgreSQL does not take in a query.

Knows no app.
"""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, JsonResponse

Answer = Callable[[HttpRequest], HttpResponse]

API = "/api/"
WHY = "The address holds a NUL."


def refuse_nul(answer: Answer) -> Answer:
    """Middleware: 400 for a NUL in path or query; to clients of the REST API as the problem document they expect."""

    def checked(request: HttpRequest) -> HttpResponse:
        if "\0" not in request.path and "%00" not in request.META.get("QUERY_STRING", ""):
            return answer(request)
        if request.path.startswith(API):
            kind = {"type": "about:blank", "title": "Bad Request", "status": 400}
            problem = {**kind, "detail": WHY, "instance": request.path.replace("\0", "")}
            return JsonResponse(problem, status=400, content_type="application/problem+json")
        return HttpResponse(WHY, status=400, content_type="text/plain; charset=utf-8")

    return checked
