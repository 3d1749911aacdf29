"""Read-only endpoints: what the console shows, for scripts."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response

from accounting import ledger, live_view
from accounting.api import serializers
from accounting.api.base import Endpoint, ListEndpoint
from accounting.models import Device, Finding, Journal, Namespace, Node, Tenant
from accounting.selectors import access, activity, cluster, freshness, pods
from hami_platform import env
from hami_platform.domain.view import View

JOURNAL_PAGE = 500


class ClusterEndpoint(Endpoint):
    """The cluster in four figures."""

    @extend_schema(operation_id="cluster", responses=serializers.ClusterShape)
    def get(self, request: Request) -> Response:
        """What is held of what, and how current that is."""
        view = _view()
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


class NodesEndpoint(ListEndpoint):
    """Nodes that have, or had, devices."""

    serializer_class = serializers.NodeShape

    def get_queryset(self) -> Any:
        return _ours(Node) if self.reach else Node.objects.none()

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "reach": self.reach}


class NodeEndpoint(Endpoint):
    """One node."""

    @extend_schema(operation_id="node", responses=serializers.NodeShape)
    def get(self, request: Request, name: str) -> Response:
        """By name."""
        row = _ours(Node).filter(name=name).first() if self.reach else None
        shape = serializers.NodeShape(_found(row, f"no node {name}"), context={"reach": self.reach})
        return Response(shape.data)


class DevicesEndpoint(ListEndpoint):
    """Devices, with what is held of each."""

    serializer_class = serializers.DeviceShape

    def get_queryset(self) -> Any:
        return _ours(Device).select_related("node") if self.reach else Device.objects.none()

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "held": _held(_view())}


class DeviceEndpoint(Endpoint):
    """One device."""

    @extend_schema(operation_id="device", responses=serializers.DeviceShape)
    def get(self, request: Request, uuid: str) -> Response:
        """By uuid."""
        row = _ours(Device).select_related("node").filter(uuid=uuid).first() if self.reach else None
        shape = serializers.DeviceShape(_found(row, f"no device {uuid}"), context={"held": _held(_view())})
        return Response(shape.data)


class PodsEndpoint(Endpoint):
    """Live pods that ask for devices."""

    @extend_schema(
        operation_id="pods",
        parameters=[
            OpenApiParameter("namespace", str),
            OpenApiParameter("node", str),
            OpenApiParameter("state", str, description="A state, `pending` for waiting and claimed, or `unmanaged`."),
        ],
        responses=serializers.PodShape(many=True),
    )
    def get(self, request: Request) -> Response:
        """Those that wait first, with their reasons."""
        query = {name: request.query_params.get(name, "") for name in ("namespace", "node", "state")}
        lines = pods.pod_lines(_view(), self.reach, **query)
        return Response(serializers.PodShape(lines, many=True).data)


class PodEndpoint(Endpoint):
    """One live pod."""

    @extend_schema(operation_id="pod", responses=serializers.PodShape)
    def get(self, request: Request, uid: str) -> Response:
        """By uid."""
        view = _view()
        row = view.pod(uid)
        if row is None or not self.reach.sees(row.namespace):
            raise Http404(f"no live pod {uid}")
        return Response(serializers.PodShape(pods.pod_line(row)).data)


class NamespacesEndpoint(ListEndpoint):
    """Namespaces, with what each holds."""

    serializer_class = serializers.NamespaceShape

    def get_queryset(self) -> Any:
        return access.visible(_ours(Namespace).select_related("tenant"), self.reach, "name")

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "view": _view()}


class TenantsEndpoint(ListEndpoint):
    """The tenant tree."""

    serializer_class = serializers.TenantShape

    def get_queryset(self) -> Any:
        rows = _ours(Tenant).select_related("parent")
        return rows if self.reach.everything else rows.filter(pk__in=self.reach.tenants)


class FindingsEndpoint(ListEndpoint):
    """Drift between ledger and cluster, newest first. For those who see the whole cluster."""

    serializer_class = serializers.FindingShape

    def get_queryset(self) -> Any:
        return _ours(Finding) if self.reach.everything else Finding.objects.none()


class JournalEndpoint(Endpoint):
    """Changes of the ledger."""

    @extend_schema(
        operation_id="journal",
        parameters=[OpenApiParameter("after", int, description="Only later revisions. Default: from the oldest kept.")],
        responses=serializers.JournalPage,
    )
    def get(self, request: Request) -> Response:
        """In commit order, JOURNAL_PAGE rows at most; a revision is never cut in two."""
        after = _whole(request.query_params.get("after", "0"))
        rows = list(_ours(Journal).filter(revision__gt=after).order_by("revision", "seq")[: JOURNAL_PAGE + 1])
        if len(rows) > JOURNAL_PAGE:
            rows = [row for row in rows if row.revision != rows[-1].revision] or _revision(rows[0].revision)
        last = rows[-1].revision if rows else after
        seen = list(activity.within(rows, self.reach))
        return Response(serializers.JournalPage({"next": last, "results": seen}).data)


def _revision(revision: int) -> list[Journal]:
    """All rows of one revision, however many."""
    return list(_ours(Journal).filter(revision=revision).order_by("seq"))


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise drf.ValidationError({"after": "a revision number"})
    return int(text)


def _view() -> View:
    return live_view.live().refresh()


def _ours(model: Any) -> Any:
    return model.objects.filter(cluster=ledger.cluster_id())


def _found(row: Any, message: str) -> Any:
    if row is None:
        raise Http404(message)
    return row


def _held(view: View) -> dict[tuple[str, str, str], Any]:
    """(node, vendor, uuid) → what is held."""
    return {(name, *one.device.key): one.held for name, node in view.states.items() for one in node.devices}
