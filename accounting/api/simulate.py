"""Why a pod waits, and what would happen if: asked over REST. Nothing here writes, whatever the method."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import permissions
from rest_framework.request import Request
from rest_framework.response import Response

from accounting import live_view
from accounting.api import explained as shapes
from accounting.api.base import Endpoint
from accounting.api.identity import Asks
from accounting.selectors import explained
from accounting.services import device_config, simulations, what_if
from accounting.services.errors import InvalidInput
from hami_platform.domain.rows import PodRow
from hami_platform.domain.view import View


class ExplainEndpoint(Endpoint):
    """Why one live pod waits."""

    asked: tuple[str, ...] = ()

    @extend_schema(operation_id="pod_explain", responses=shapes.ExplanationShape)
    def get(self, request: Request, uid: str) -> Response:
        """Answered anew from the ledger as it is: checks, numbers per node and device, and changes that would help."""
        view = live_view.live().refresh()
        row = view.pod(uid)
        if row is None or not self.reach.sees(row.namespace):
            raise Http404(f"no live pod {uid}")
        return self.explained(view, row)

    def explained(self, view: View, row: PodRow) -> Response:
        """The answer for one row."""
        reader = explained.Reader(view, self.reach, device_config.device_config())
        data = explained.of_pod(reader, row, what_if.explain_pod(view, row))
        return Response(shapes.ExplanationShape(data).data)


class ExplainNamedEndpoint(ExplainEndpoint):
    """The same, for whoever knows the pod by name."""

    asked = ("namespace", "name")

    @extend_schema(
        operation_id="explain",
        parameters=[OpenApiParameter(name, str, required=True) for name in asked],
        responses=shapes.ExplanationShape,
    )
    def get(self, request: Request) -> Response:  # type: ignore[override]  # asked by name, not by uid
        """Of several live pods of this name, the newest."""
        wanted = tuple(request.query_params.get(name, "") for name in self.asked)
        view = live_view.live().refresh()
        found = [pod for pod in view.pods.values() if (pod.namespace, pod.name) == wanted]
        if not found or not self.reach.sees(wanted[0]):
            raise Http404(f"no live pod {'/'.join(wanted)}")
        return self.explained(view, max(found, key=lambda pod: pod.created_at_s))


class SimulateEndpoint(Endpoint):
    """Questions of what if."""

    permission_classes = (permissions.IsAuthenticated, Asks)
    writes = False

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
