"""Why a pod waits, and what would happen if: asked over REST. Nothing here writes, whatever the method."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import permissions
from rest_framework.request import Request
from rest_framework.response import Response

from accounting import live_view
from accounting.api import explained as shapes
from accounting.api.base import Endpoint, Scoped
from accounting.models import ApiToken
from accounting.selectors import explained
from accounting.services import device_config, simulations, what_if
from accounting.services.errors import InvalidInput


class Asks(Scoped):
    """A POST that only asks: reading is enough for it."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Needs `read` or `write`."""
        scopes = request.auth.scopes if isinstance(request.auth, ApiToken) else []
        return not scopes or bool({"read", "write"} & set(scopes))


class ExplainEndpoint(Endpoint):
    """Why one live pod waits."""

    @extend_schema(operation_id="pod_explain", responses=shapes.ExplanationShape)
    def get(self, request: Request, uid: str) -> Response:
        """Answered anew from the ledger as it is: checks, numbers per node and device, and changes that would help."""
        view = live_view.live().refresh()
        row = view.pod(uid)
        if row is None or not self.reach.sees(row.namespace):
            raise Http404(f"no live pod {uid}")
        reader = explained.Reader(view, self.reach, device_config.device_config())
        data = explained.of_pod(reader, row, what_if.explain_pod(view, row))
        return Response(shapes.ExplanationShape(data).data)


class SimulateEndpoint(Endpoint):
    """Questions of what if."""

    permission_classes = (permissions.IsAuthenticated, Asks)

    @extend_schema(
        operation_id="simulate", request=shapes.SimulateAsk, responses={200: shapes.SimulationShape}
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """Where a pod would go, or why not; what changes of limits, nodes and devices would do to the pods of today."""
        form = shapes.SimulateAsk(data=request.data)
        form.is_valid(raise_exception=True)
        data = form.validated_data
        submitted = _submitted(data)
        view = live_view.live().refresh()
        _refuse_unseen(self, view, submitted, data["changes"])
        if submitted is None and not data["changes"]:
            raise InvalidInput("", "name a pod (ask, pod or manifest), changes, or both")
        found = simulations.simulation(view, submitted, data["changes"], copies=data["copies"])
        reader = explained.Reader(view, self.reach, device_config.device_config())
        return Response(shapes.SimulationShape(simulations.shown(reader, submitted, found)).data)


def _submitted(data: dict[str, Any]) -> simulations.Submitted | None:
    given = [name for name in ("ask", "pod", "manifest") if data[name]]
    if len(given) > 1:
        raise InvalidInput(given[1], f"one pod at a time: {given[0]} is there already")
    if data["ask"]:
        wish = simulations.Wish(namespace=data["namespace"] or simulations.DEFAULT_NAMESPACE, **data["ask"])
        return simulations.from_wish(wish)
    if data["pod"]:
        return simulations.from_object(data["pod"], data["namespace"])
    return simulations.from_text(data["manifest"], data["namespace"]) if data["manifest"] else None


def _refuse_unseen(
    endpoint: Endpoint, view: Any, submitted: simulations.Submitted | None, changes: list[dict[str, Any]]
) -> None:
    """What is asked about must lie within the caller's reach: an answer tells of limits and use."""
    reason = simulations.unseen(view, endpoint.reach, submitted, changes)
    if reason:
        raise PermissionDenied(reason)
