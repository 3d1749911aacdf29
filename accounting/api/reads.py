"""The cluster and its nodes."""

from __future__ import annotations

from typing import Any

from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from accounting.api import rows, serializers
from accounting.api.base import Endpoint
from accounting.api.lists import ListEndpoint
from accounting.models import Node
from accounting.selectors import cluster, freshness
from hami_platform import env


class ClusterEndpoint(Endpoint):
    """The cluster in four figures."""

    asked = ()

    @extend_schema(operation_id="cluster", responses=serializers.ClusterShape)
    def get(self, request: Request) -> Response:
        """What is held of what, and how current that is."""
        view = rows.view_now()
        figures = cluster.figures(view, self.reach)
        body = {
            "name": env.current().cluster,
            "revision": view.clock.revision,
            "ready": view.ready,
            "problem": freshness.freshness(view).problem,
            "devices": figures.devices,
            "memory_mib": figures.memory_mib,
            "core_percent": figures.core_percent,
            "pending": figures.pending,
        }
        return Response(serializers.ClusterShape(body).data)


class NodeFilter(filters.FilterSet):
    """By what is known of a node."""

    problem = filters.BooleanFilter(field_name="problem", lookup_expr="gt", label="Whether something is wrong with it.")

    class Meta:
        model = Node
        fields = ("name", "retired", "unschedulable", "agent", "limits")

    def filter_queryset(self, queryset: Any) -> Any:
        """A problem is a text, empty for none."""
        wanted = self.form.cleaned_data.pop("problem", None)
        queryset = super().filter_queryset(queryset)
        if wanted is None:
            return queryset
        return queryset.exclude(problem="") if wanted else queryset.filter(problem="")


class NodesEndpoint(ListEndpoint):
    """Nodes that have, or had, devices."""

    serializer_class = serializers.NodeShape
    queryset = Node.objects.none()
    filterset_class = NodeFilter
    search_fields = ("name",)
    ordering_fields = ("name", "agent", "retired")
    file_name = "nodes"
    asked = ()

    def get_queryset(self) -> Any:
        return rows.ours(Node) if self.reach else Node.objects.none()

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "reach": self.reach}


class NodeEndpoint(Endpoint):
    """One node."""

    asked = ()

    @extend_schema(operation_id="node", responses=serializers.NodeShape)
    def get(self, request: Request, name: str) -> Response:
        """By name."""
        row = rows.ours(Node).filter(name=name).first() if self.reach else None
        shape = serializers.NodeShape(rows.found(row, f"no node {name}"), context={"reach": self.reach})
        return Response(shape.data)
