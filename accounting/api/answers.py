"""How answers are given whatever is in them: a validator for each, 304 for what the caller has, chosen fields.

A validator is `"<state>.<content>"`: state stands for what people set of a row, content for the whole answer. A write
with `If-Match` is about the state, so that it does not fail because use has changed meanwhile.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from django.http import HttpResponse, HttpResponseNotModified
from django.utils.http import parse_etags
from rest_framework import exceptions, status
from rest_framework.request import Request

KEPT = ("ETag", "Cache-Control", "Vary", "RateLimit", "RateLimit-Policy")
"""What a 304 says of what the full answer would have said. Source: RFC 9110, section 15.4.5."""


class Changed(exceptions.APIException):
    """412: it is not what the caller saw."""

    status_code = status.HTTP_412_PRECONDITION_FAILED
    default_detail = "It was changed meanwhile. Read it again, then decide."


class Unconditional(exceptions.APIException):
    """428: the caller does not say what it saw."""

    status_code = status.HTTP_428_PRECONDITION_REQUIRED
    default_detail = "Send If-Match with the ETag that you read, or * to write whatever is there."


def state_of(values: dict[str, Any]) -> str:
    """A short name of what people set of a row."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:12]


def matched(request: Request, state: str) -> None:
    """Raises Changed where If-Match names another state, Unconditional where there is none."""
    sent = request.headers.get("If-Match", "")
    if not sent.strip():
        raise Unconditional
    if sent.strip() == "*":
        return
    # A proxy that compresses makes validators weak; the state is the same.
    tags = {tag.removeprefix("W/").strip('"').partition(".")[0] for tag in parse_etags(sent)}
    if state not in tags:
        raise Changed


def tagged(response: Any, *, request: Request, state: str) -> HttpResponse | None:
    """Put the validator on a rendered answer; a 304 in its place where the caller has it already."""
    content = hashlib.sha256(response.content).hexdigest()[:24]
    response["ETag"] = f'"{state}.{content}"' if state else f'"{content}"'
    if request.method not in ("GET", "HEAD"):
        return None
    known = {tag.removeprefix("W/") for tag in parse_etags(request.headers.get("If-None-Match", ""))}
    if not known & {response["ETag"], "*"}:
        return None
    short = HttpResponseNotModified()
    for name in KEPT:
        if name in response:
            short[name] = response[name]
    return short


def pruned(data: Any, names: list[str]) -> Any:
    """Of an answer, or of each row of a list, only these fields. Raises ValidationError for one that is not there."""
    rows = data.get("results") if isinstance(data, dict) and "results" in data else None
    if rows is not None:
        return {**data, "results": [_chosen(row, names) for row in rows]}
    return [_chosen(row, names) for row in data] if isinstance(data, list) else _chosen(data, names)


def _chosen(row: Any, names: list[str]) -> Any:
    unknown = [name for name in names if name not in row]
    if unknown:
        raise exceptions.ValidationError({"fields": f"no {unknown[0]} here; there are {', '.join(row)}"})
    return {name: row[name] for name in names}
