"""Measurements: reported by node agents, read by dashboards."""

from __future__ import annotations

from typing import Any

from django.db.models import Q
from django.http import Http404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from knox.auth import TokenAuthentication
from rest_framework import authentication, permissions
from rest_framework.request import Request
from rest_framework.response import Response

from accounting import ledger
from accounting.api import serializers
from accounting.api.base import InternalToken, IsAgent, ListEndpoint, Scoped
from accounting.models import Measurement, Pod
from accounting.services import measurements


class MeasurementsEndpoint(ListEndpoint):
    """What was measured. Agents report it; who sees a namespace reads its pods' figures, everybody the devices'."""

    serializer_class = serializers.MeasurementShape
    authentication_classes = (InternalToken, TokenAuthentication, authentication.SessionAuthentication)

    def get_permissions(self) -> Any:
        """Reports are an agent's, reading is people's."""
        return [IsAgent()] if self.request.method == "POST" else [permissions.IsAuthenticated(), Scoped()]

    def get_queryset(self) -> Any:
        rows = Measurement.objects.filter(cluster=ledger.cluster_id())
        for name in ("uuid", "pod_uid", "node"):
            if text := self.request.query_params.get(name, ""):
                rows = rows.filter(**{name: text})
        if not self.reach.everything:
            seen = Pod.objects.filter(cluster=ledger.cluster_id(), namespace__in=self.reach.namespaces)
            rows = rows.filter(Q(pod_uid="") | Q(pod_uid__in=seen.values("uid")))
        return rows.order_by("-slot", "pk")

    @extend_schema(
        operation_id="measurements",
        parameters=[OpenApiParameter(name, str) for name in ("uuid", "pod_uid", "node")],
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Newest first; one row for ten minutes of a device, or of a container's share."""
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="measurements_report",
        request=serializers.MeasurementReport,
        responses={200: serializers.MeasurementAnswer},
    )
    def post(self, request: Request) -> Response:
        """404: the ledger knows no such node. Samples of devices or pods that are not on the node are ignored."""
        form = serializers.MeasurementReport(data=request.data)
        form.is_valid(raise_exception=True)
        said = form.validated_data
        samples = [measurements.Sample(**one) for one in said["samples"]]
        done = measurements.measurements_store(node=said["node"], age_s=said["age_s"], samples=samples)
        if done is None:
            raise Http404("no such node")
        return Response(serializers.MeasurementAnswer(done).data)
