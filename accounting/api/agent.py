"""Reports of node agents."""

from __future__ import annotations

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from accounting.api import problems, serializers
from accounting.api.base import Endpoint
from accounting.api.identity import OF_AGENTS, IsAgent
from accounting.services import completions, liveness, unmanaged


class AllocationsEndpoint(Endpoint):
    """A container's Allocate was served. Repeating a report is harmless."""

    authentication_classes = OF_AGENTS
    writes = False
    permission_classes = (IsAgent,)

    @extend_schema(operation_id="allocation_report", request=serializers.AllocationReport, responses={204: None})
    def post(self, request: Request) -> Response:
        """404: the ledger knows no such pod on that node; the report need not be repeated."""
        form = serializers.AllocationReport(data=request.data)
        form.is_valid(raise_exception=True)
        if not completions.completion_report(**form.validated_data):
            raise Http404("no such pod on this node")
        liveness.report_heard(node=form.validated_data["node"])
        return Response(status=status.HTTP_204_NO_CONTENT)


class UnmanagedEndpoint(Endpoint):
    """Which devices the kubelet has given to a pod that came past the platform. Repeating a report is harmless."""

    authentication_classes = OF_AGENTS
    writes = False
    permission_classes = (IsAgent,)

    @extend_schema(operation_id="unmanaged_report", request=serializers.UnmanagedReport, responses={204: None})
    def post(self, request: Request) -> Response:
        """204: it is counted, or the pod is the platform's. 503: nothing is known of it yet, tell it again."""
        form = serializers.UnmanagedReport(data=request.data)
        form.is_valid(raise_exception=True)
        said = form.validated_data
        settled = unmanaged.unmanaged_use_set(
            node=said["node"], namespace=said["namespace"], name=said["name"], uuids=said["devices"]
        )
        if not settled:
            return problems.problem(503, "no such pod or device is known yet", headers={"Retry-After": "15"})
        return Response(status=status.HTTP_204_NO_CONTENT)
