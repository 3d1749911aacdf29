"""Refusals and faults as `application/problem+json` (RFC 9457, the newer RFC 7807), and how the schema tells them."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404
from drf_spectacular.openapi import AutoSchema
from rest_framework import exceptions, serializers
from rest_framework.response import Response
from rest_framework.views import set_rollback

from accounting import ledger
from accounting.services.errors import InvalidInput, Outdated

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
    errors = FieldProblem(many=True, required=False)  # type: ignore[assignment]  # a property of the base class


def handler(fault: Exception, context: dict[str, Any]) -> Response | None:
    """The problem for a fault that a client can understand; None lets it become a 500."""
    set_rollback()
    if isinstance(fault, ledger.LedgerUnavailable):
        return problem(503, str(fault), headers={"Retry-After": str(RETRY_AFTER_S)})
    if isinstance(fault, InvalidInput):
        status = 409 if isinstance(fault, Outdated) else 400
        return problem(status, str(fault), [{"field": fault.field, "message": fault.message}])
    if isinstance(fault, Http404):
        return problem(404, str(fault) or "not found")
    if isinstance(fault, PermissionDenied):
        return problem(403, str(fault) or "not allowed")
    if isinstance(fault, exceptions.ValidationError):
        errors = list(_flat(fault.detail, ""))
        return problem(400, "; ".join(f"{one['field']}: {one['message']}" for one in errors), errors)
    if isinstance(fault, exceptions.APIException):
        asked: str | None = getattr(fault, "auth_header", None)
        headers = {"WWW-Authenticate": asked} if asked else {}
        wait_s: float | None = getattr(fault, "wait", None)  # of a Throttled, which is not typed so
        if wait_s is not None:
            headers["Retry-After"] = str(math.ceil(wait_s))
        return problem(fault.status_code, str(fault.detail), headers=headers)
    return None


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


class ProblemSchema(AutoSchema):
    """Every operation may answer with a problem."""

    def _get_response_bodies(self, direction: Any = "response") -> dict[str, Any]:
        bodies = super()._get_response_bodies(direction)
        bodies["default"] = self._get_response_for_code(  # type: ignore[no-untyped-call]
            Problem, "default", media_types=[MEDIA_TYPE]
        )
        return bodies


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
