"""Live pods, and those that wait."""

from __future__ import annotations

from typing import Any, Final

from django.http import Http404
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response

from accounting.api import lists, rows, serializers
from accounting.api.base import Endpoint
from accounting.models import DeniedAsk, PodState
from accounting.selectors import access, pods

STATES: Final = (*(state for state in PodState.values if state != PodState.ENDED), "pending", pods.UNMANAGED)
ORDERS: Final = {
    "name": lambda line: (line.row.namespace, line.name),
    "created": lambda line: line.row.created_at_s,
    "state": lambda line: line.row.state,
    "node": lambda line: line.row.node,
    "memory_mib": lambda line: line.holds.memory_mib,
}
_ASKED: Final = (
    OpenApiParameter("namespace", str),
    OpenApiParameter("node", str),
    OpenApiParameter("reason", str, description="The word why it waits."),
    OpenApiParameter("q", str, description="Part of namespace/name or uid."),
    OpenApiParameter("ordering", str, enum=[*ORDERS, *(f"-{name}" for name in ORDERS)]),
)


@extend_schema_view(
    get=extend_schema(operation_id="pods", parameters=[*_ASKED, OpenApiParameter("state", str, enum=STATES)])
)
class PodsEndpoint(lists.LinesEndpoint):
    """Live pods that ask for devices: those that wait first, with their reasons."""

    serializer_class = serializers.PodShape
    file_name = "pods"
    asked: tuple[str, ...] = ("namespace", "node", "state", "reason", "q", "ordering")
    state_asked = ""

    def lines(self, first: int, most: int | None) -> tuple[list[Any], int]:
        """From the View."""
        query = {name: self.request.query_params.get(name, "") for name in ("namespace", "node", "reason")}
        query["text"] = self.request.query_params.get("q", "")
        query["state"] = self.state_asked or lists.choice(self.request, "state", STATES)
        order = lists.choice(self.request, "ordering", [*ORDERS, *(f"-{name}" for name in ORDERS)])
        last = None if most is None else first + most
        found, count = pods.pod_page(rows.view_now(), self.reach, **query, most=None if order else last)
        if order:
            found.sort(key=ORDERS[order.removeprefix("-")], reverse=order.startswith("-"))
        return found[first:last], count


@extend_schema_view(get=extend_schema(operation_id="pending", parameters=list(_ASKED)))
class PendingEndpoint(PodsEndpoint):
    """Pods that wait for a device or for quota, with the reason."""

    file_name = "pending"
    asked = ("namespace", "node", "reason", "q", "ordering")
    state_asked = "pending"


class PodEndpoint(Endpoint):
    """One live pod."""

    asked = ()

    @extend_schema(operation_id="pod", responses=serializers.PodShape)
    def get(self, request: Request, uid: str) -> Response:
        """By uid."""
        row = rows.view_now().pod(uid)
        if row is None or not self.reach.sees(row.namespace):
            raise Http404(f"no live pod {uid}")
        return Response(serializers.PodShape(pods.pod_line(row)).data)


class DeniedEndpoint(lists.ListEndpoint):
    """Asks that admission denied for quota: their pods do not exist. Newest first."""

    serializer_class = serializers.DeniedShape
    queryset = DeniedAsk.objects.none()
    pagination_class = lists.Logs
    log_order = ("-last_at", "-id")
    filterset_class = serializers.DeniedFilter
    search_fields = ("owner", "message")
    file_name = "denied"
    asked = ()

    def get_queryset(self) -> Any:
        return access.visible(rows.ours(DeniedAsk), self.reach).order_by(*self.log_order)
