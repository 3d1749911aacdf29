"""What node agents find out about their kubelets."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from accounting.api.base import Endpoint
from accounting.api.identity import OF_AGENTS, IsAgent
from accounting.services import kubelet_books, liveness


class DifferenceShape(serializers.Serializer[Any]):
    """One container about which a kubelet and its node's agent disagree."""

    namespace = serializers.CharField(max_length=63)
    pod = serializers.CharField(max_length=253)
    container = serializers.CharField(max_length=63)
    kind = serializers.ChoiceField(["unrecorded", "other-ids", "not-held"])
    message = serializers.CharField(max_length=4000, help_text="A sentence for people.")


class DifferencesReport(serializers.Serializer[Any]):
    """All differences of a node: those that were reported before and are missing here are over."""

    node = serializers.CharField(max_length=253)
    differences = DifferenceShape(many=True)


class AgentFindingsEndpoint(Endpoint):
    """What the kubelet says that pods hold, where it is not what they were given. Repeating a report is harmless."""

    authentication_classes = OF_AGENTS
    writes = False
    permission_classes = (IsAgent,)

    @extend_schema(operation_id="agent_findings_report", request=DifferencesReport, responses={204: None})
    def post(self, request: Request) -> Response:
        """404: the ledger knows no such node."""
        form = DifferencesReport(data=request.data)
        form.is_valid(raise_exception=True)
        said = form.validated_data
        found = [kubelet_books.Difference(**one) for one in said["differences"]]
        if not kubelet_books.differences_set(node=said["node"], found=found):
            raise Http404("no such node")
        liveness.report_heard(node=said["node"])
        return Response(status=status.HTTP_204_NO_CONTENT)
