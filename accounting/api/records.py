"""What happened: decisions, drift, changes of the ledger, who came in. Read only; newest first where not said."""

from __future__ import annotations

from typing import Any, Final

from django.core.exceptions import PermissionDenied
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import exceptions, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounting.api import lists, rows
from accounting.api.base import Endpoint
from accounting.models import AccessRecord, Finding, Journal, Trace
from accounting.selectors import access, activity

JOURNAL_PAGE: Final = 500


class TraceShape(serializers.ModelSerializer[Trace]):
    """One decision about one pod; repeats of the same reason count up."""

    detail = serializers.JSONField(help_text="Per node: the reasons, in HAMi's words, and numbers.")

    class Meta:
        model = Trace
        fields = (
            "id", "pod_uid", "namespace", "pod_name", "verdict", "reason", "summary", "detail", "inputs_hash",
            "revision", "first_at", "last_at", "times",
        )  # fmt: skip


class FindingShape(serializers.ModelSerializer[Finding]):
    """Drift, its evidence, and what was done about it."""

    evidence = serializers.JSONField()

    class Meta:
        model = Finding
        fields = ("kind", "subject", "message", "evidence", "found_at", "last_seen_at", "repaired_at", "repair")


class AccessShape(serializers.ModelSerializer[AccessRecord]):
    """Somebody came in, was kept out, used a token, or was refused a change: within one hour, so many times."""

    class Meta:
        model = AccessRecord
        fields = ("at", "kind", "who", "how", "what", "address", "times")


class JournalShape(serializers.ModelSerializer[Journal]):
    """One change of the ledger."""

    values = serializers.JSONField()

    class Meta:
        model = Journal
        fields = ("revision", "seq", "at", "kind", "key", "cause", "actor", "values")


class JournalPage(serializers.Serializer[Any]):
    """Changes in the ledger's order. Ask again with `after` = next to follow."""

    next = serializers.IntegerField(help_text="The last revision in this answer, or `after` where there is none.")
    results = JournalShape(many=True)


class ChangeShape(serializers.Serializer[Any]):
    """What a person changed, in words."""

    revision = serializers.IntegerField(source="row.revision")
    at = serializers.DateTimeField(source="row.at")
    kind = serializers.CharField(source="row.kind")
    key = serializers.CharField(source="row.key")
    subject = serializers.CharField()
    what = serializers.CharField()
    reason = serializers.CharField()
    actor = serializers.CharField(source="row.actor")


class ChangesPage(serializers.Serializer[Any]):
    """Newest first. Ask again with `before` = next for older ones."""

    next = serializers.IntegerField(allow_null=True, help_text="null: there are no older ones.")
    results = ChangeShape(many=True)


class TraceFilter(filters.FilterSet):
    """By pod, verdict and time."""

    since = filters.IsoDateTimeFilter(field_name="last_at", lookup_expr="gte")
    until = filters.IsoDateTimeFilter(field_name="last_at", lookup_expr="lt")

    class Meta:
        model = Trace
        fields = ("pod_uid", "namespace", "pod_name", "verdict", "reason")


class FindingFilter(filters.FilterSet):
    """By kind; open: those that nobody has repaired."""

    open = filters.BooleanFilter(field_name="repaired_at", lookup_expr="isnull")

    class Meta:
        model = Finding
        fields = ("kind", "subject")


class AccessFilter(filters.FilterSet):
    """By person, kind and time."""

    since = filters.IsoDateTimeFilter(field_name="at", lookup_expr="gte")
    until = filters.IsoDateTimeFilter(field_name="at", lookup_expr="lt")

    class Meta:
        model = AccessRecord
        fields = ("kind", "who", "how", "address")


class LogEndpoint(lists.ListEndpoint):
    """What is added to all the time: pages by cursor."""

    pagination_class = lists.Logs
    asked = ()
    log_order: tuple[str, ...] = ()


class TracesEndpoint(LogEndpoint):
    """Decisions about pods: placed, refused, denied, with reasons and numbers."""

    serializer_class = TraceShape
    queryset = Trace.objects.none()
    log_order = ("-last_at", "-id")
    filterset_class = TraceFilter
    search_fields = ("pod_name", "summary")
    file_name = "traces"

    def get_queryset(self) -> Any:
        return access.visible(rows.ours(Trace), self.reach).order_by(*self.log_order)


class FindingsEndpoint(LogEndpoint):
    """Drift between ledger and cluster. For those who see the whole cluster."""

    serializer_class = FindingShape
    queryset = Finding.objects.none()
    log_order = ("-last_seen_at", "-id")
    filterset_class = FindingFilter
    search_fields = ("subject", "message")
    file_name = "findings"

    def get_queryset(self) -> Any:
        if not self.reach.everything:
            raise PermissionDenied("findings concern the whole cluster: they are for operators and auditors")
        return rows.ours(Finding).order_by(*self.log_order)


class AccessEndpoint(LogEndpoint):
    """Sign-ins, tokens in use and refused changes. For operators and auditors of the whole cluster."""

    serializer_class = AccessShape
    queryset = AccessRecord.objects.none()
    log_order = ("-at", "-id")
    filterset_class = AccessFilter
    search_fields = ("who", "what", "address")
    file_name = "access"

    def get_queryset(self) -> Any:
        if not self.reach.audits:
            raise PermissionDenied("access records are for operators and auditors of the whole cluster")
        return rows.ours(AccessRecord).order_by(*self.log_order)


class JournalEndpoint(Endpoint):
    """Changes of the ledger, oldest first: to follow it."""

    asked = ("after",)

    @extend_schema(
        operation_id="journal",
        parameters=[OpenApiParameter("after", int, description="Only later revisions. Default: from the oldest kept.")],
        responses=JournalPage,
    )
    def get(self, request: Request) -> Response:
        """In commit order, JOURNAL_PAGE rows at most; a revision is never cut in two."""
        after = _revision(request, "after") or 0
        later = rows.ours(Journal).filter(revision__gt=after)
        page, _ = _page(later.order_by("revision", "seq"), later)
        last = page[-1].revision if page else after
        seen = list(activity.within(page, self.reach))
        return Response(JournalPage({"next": last, "results": seen}).data)


class ChangesEndpoint(Endpoint):
    """What people changed, newest first: limits, budgets, tenants, devices, holds, prices, roles, tokens."""

    asked = ("before", "kind", "key")

    @extend_schema(
        operation_id="changes",
        parameters=[
            OpenApiParameter("before", int, description="Only earlier revisions."),
            OpenApiParameter("kind", str, enum=activity.PEOPLE),
            OpenApiParameter("key", str),
        ],
        responses=ChangesPage,
    )
    def get(self, request: Request) -> Response:
        """A page of them."""
        kind = lists.choice(request, "kind", activity.PEOPLE)
        found = rows.ours(Journal).filter(kind__in=[kind] if kind else activity.PEOPLE).exclude(actor="")
        if key := request.query_params.get("key", ""):
            found = found.filter(key=key)
        if (before := _revision(request, "before")) is not None:
            found = found.filter(revision__lt=before)
        page, more = _page(found.order_by("-revision", "seq"), found)
        seen = [activity.change(row) for row in activity.within(page, self.reach)]
        return Response(ChangesPage({"next": page[-1].revision if more else None, "results": seen}).data)


def _page(ordered: Any, all_of_them: Any) -> tuple[list[Journal], bool]:
    """(JOURNAL_PAGE rows at most, or one revision, which is never cut in two; whether there are more)."""
    page = list(ordered[: JOURNAL_PAGE + 1])
    if len(page) <= JOURNAL_PAGE:
        return page, False
    last = page[-1].revision
    whole = [row for row in page if row.revision != last]
    return whole or list(all_of_them.filter(revision=last).order_by("seq")), True


def _revision(request: Request, name: str) -> int | None:
    text = request.query_params.get(name, "")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise exceptions.ValidationError({name: "a revision number"})
    return int(text)
