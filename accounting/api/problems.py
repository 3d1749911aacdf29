"""Refusals and faults as `application/problem+json` (RFC 9457, the newer RFC 7807)."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied
from django.core.signals import got_request_exception
from django.http import Http404
from django.utils.translation import gettext
from rest_framework import exceptions, serializers
from rest_framework.response import Response
from rest_framework.views import set_rollback

from accounting import ledger
from accounting.services.errors import InvalidInput, Outdated
from hami_platform import logs

log = logs.get(__name__)
MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 1


class FieldProblem(serializers.Serializer[Any]):
    """What is wrong with one entry."""

    field = serializers.CharField(help_text="Name of the entry; empty: the request as a whole.")
    message = serializers.CharField()


class Problem(serializers.Serializer[Any]):
    """Why a request was not done."""

    type = serializers.CharField(help_text="Always about:blank: the status says the kind.")
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    instance = serializers.CharField(help_text="The address that was asked.")
    errors = FieldProblem(many=True, required=False)  # type: ignore[assignment]  # a property of the base class


def handler(fault: Exception, context: dict[str, Any]) -> Response:
    """The problem that answers a fault, whosever it is. Ours is logged, and told without its text."""
    set_rollback()
    answer = _refusal(fault) or _known(fault)
    if answer is None:
        log.error("rest_fault", path=_path(context), exc_info=fault)
        got_request_exception.send(sender=None, request=context.get("request"))
        answer = problem(500, "A fault of the platform's. X-Request-ID names it in the log.")
    return answer


def _refusal(fault: Exception) -> Response | None:
    """Of the platform's own kinds."""
    if isinstance(fault, ledger.LedgerUnavailable):
        return problem(503, str(fault), headers={"Retry-After": str(RETRY_AFTER_S)})
    if isinstance(fault, InvalidInput):
        status = 409 if isinstance(fault, Outdated) else 400
        told = fault.told(gettext)
        named = f"{fault.field}: {told}" if fault.field else told
        return problem(status, named, [{"field": fault.field, "message": told}])
    if isinstance(fault, Http404):
        return problem(404, str(fault) or "not found")
    return problem(403, str(fault) or "not allowed") if isinstance(fault, PermissionDenied) else None


def _known(fault: Exception) -> Response | None:
    """Of DRF's kinds."""
    if isinstance(fault, exceptions.ValidationError):
        errors = list(_flat(fault.detail, ""))
        return problem(400, "; ".join(f"{one['field']}: {one['message']}" for one in errors), errors)
    if not isinstance(fault, exceptions.APIException):
        return None
    asked: str | None = getattr(fault, "auth_header", None)
    headers = {"WWW-Authenticate": asked} if asked else {}
    wait_s: float | None = getattr(fault, "wait", None)  # of a Throttled, which is not typed so
    if wait_s is not None:
        headers["Retry-After"] = str(math.ceil(wait_s))
    return problem(fault.status_code, str(fault.detail), headers=headers)


def problem(
    status: int, detail: str, errors: list[dict[str, str]] | None = None, *, headers: dict[str, str] | None = None
) -> Response:
    """A problem document."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    if errors:
        body["errors"] = errors
    return Response(body, status=status, content_type=MEDIA_TYPE, headers=headers)


def _path(context: dict[str, Any]) -> str:
    request = context.get("request")
    return str(request.path) if request is not None else ""


def _flat(detail: Any, field: str) -> Any:
    """DRF's nested messages as (field, message) pairs; nested names are joined by dots."""
    if isinstance(detail, dict):
        for name, inner in detail.items():
            yield from _flat(inner, field if name == "non_field_errors" else f"{field}.{name}".lstrip("."))
    elif isinstance(detail, list):
        for inner in detail:
            yield from _flat(inner, field)
    else:
        yield {"field": field, "message": str(detail)}
