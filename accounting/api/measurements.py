"""Measurements: reported by node agents, read by dashboards."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from django.db.models import Q
from django.http import Http404
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import permissions
from rest_framework.request import Request
from rest_framework.response import Response

from accounting import ledger
from accounting.api import serializers
from accounting.api.identity import OF_PEOPLE, InternalToken, IsAgent, Scoped
from accounting.api.lists import ListEndpoint, Logs
from accounting.models import Measurement, Pod
from accounting.services import measurements


class MeasurementFilter(filters.FilterSet):
    """By what was measured, and when."""

    since = filters.IsoDateTimeFilter(field_name="slot", lookup_expr="gte")
    until = filters.IsoDateTimeFilter(field_name="slot", lookup_expr="lt")

    class Meta:
        model = Measurement
        fields = ("uuid", "pod_uid", "node", "container")


class MeasurementsEndpoint(ListEndpoint):
    """What was measured. Agents report it; who sees a namespace reads its pods' figures, everybody the devices'."""

    serializer_class = serializers.MeasurementShape
    authentication_classes = (InternalToken, *OF_PEOPLE)
    pagination_class = Logs
    log_order = ("-slot", "-id")
    queryset = Measurement.objects.none()
    filterset_class = MeasurementFilter
    file_name = "measurements"
    asked = ()
    writes = False

    def get_permissions(self) -> Any:
        """Reports are an agent's, reading is people's."""
        return [IsAgent()] if self.request.method == "POST" else [permissions.IsAuthenticated(), Scoped()]

    def get_queryset(self) -> Any:
        rows = Measurement.objects.filter(cluster=ledger.cluster_id())
        if not self.reach.everything:
            seen = Pod.objects.filter(cluster=ledger.cluster_id(), namespace__in=self.reach.namespaces)
            rows = rows.filter(Q(pod_uid="") | Q(pod_uid__in=seen.values("uid")))
        return rows.order_by(*self.log_order)

    @extend_schema(operation_id="measurements")
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
        samples = [_sample(one) for one in said["samples"]]
        done = measurements.measurements_store(node=said["node"], age_s=said["age_s"], samples=samples)
        if done is None:
            raise Http404("no such node")
        return Response(serializers.MeasurementAnswer(done).data)


def _sample(said: dict[str, Any]) -> measurements.Sample:
    """What was measured of it, and how it is."""
    how = measurements.Condition(**{one.name: said.pop(one.name) for one in fields(measurements.Condition)})
    return measurements.Sample(**said, condition=how)
