"""A decision taken again, over REST. Nothing is written."""

from __future__ import annotations

from typing import Any, Final

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounting.api import rows
from accounting.api.base import Endpoint
from accounting.models import Trace
from accounting.services import replay, replay_told

Shape = serializers.Serializer[Any]
OUTCOMES: Final = [one.value for one in replay.Outcome]


class AgainShape(Shape):
    """The answer as it comes out now."""

    verdict = serializers.CharField()
    reason = serializers.CharField()
    summary = serializers.CharField()
    detail = serializers.JSONField(help_text="As of the decision: reasons per node, devices chosen.")


class DifferenceShape(Shape):
    """One thing that came out otherwise."""

    what = serializers.CharField()
    then = serializers.CharField()
    again = serializers.CharField()


class InputChangeShape(Shape):
    """An input that is another one today."""

    part = serializers.CharField(help_text="request, limits, nodes, policy or configuration")
    subject = serializers.CharField(help_text="The limit, or node and device.")
    field = serializers.CharField(help_text="With its unit.")
    then = serializers.CharField()
    now = serializers.CharField()


class ReplayShape(Shape):
    """A decision, taken again on exactly what it was taken on."""

    id = serializers.IntegerField()
    pod_uid = serializers.CharField()
    namespace = serializers.CharField()
    pod_name = serializers.CharField()
    verdict = serializers.CharField()
    reason = serializers.CharField()
    summary = serializers.CharField()
    decided_at = serializers.DateTimeField()
    revision = serializers.IntegerField(help_text="Of the ledger, at which was decided.")
    inputs_hash = serializers.CharField()
    outcome = serializers.ChoiceField(choices=OUTCOMES, help_text="unknown: it could not be taken again.")
    sentence = serializers.CharField()
    unknown = serializers.CharField(help_text="Why it could not be taken again; else empty.")
    missing = serializers.CharField(help_text="The part of which a piece is lost.")
    hash_again = serializers.CharField(help_text="Of the inputs that were found, each piece checked.")
    again = AgainShape(allow_null=True)
    differences = DifferenceShape(many=True)
    nodes = serializers.IntegerField(help_text="Nodes that the ledger had.")
    candidates = serializers.IntegerField(help_text="Nodes among which was chosen.")
    changes = InputChangeShape(many=True, allow_null=True, help_text="Against today; null: the pod is no more.")
    more_changes = serializers.BooleanField()
    revision_now = serializers.IntegerField(allow_null=True)


class ReplayEndpoint(Endpoint):
    """One decision taken again."""

    asked: tuple[str, ...] = ()

    @extend_schema(operation_id="trace_replay", responses=ReplayShape)
    def get(self, request: Request, trace_id: int) -> Response:
        """Whether the same inputs give the same answer, and which inputs are others today."""
        trace = rows.ours(Trace).filter(pk=trace_id).first()
        if trace is None or not self.reach.sees(trace.namespace):
            raise Http404(f"no decision {trace_id}")
        found = replay.replayed(trace, rows.view_now())
        return Response(ReplayShape(replay_told.told(trace, found)).data)
