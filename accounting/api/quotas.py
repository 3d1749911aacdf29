"""Quotas over REST: read, set, change, lift. Every write is the service's, with a reason."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Any, Final

from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import Http404
from django.utils.dateparse import parse_datetime
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from accounting.api import lists, rows, serializers
from accounting.api.base import Endpoint
from accounting.models import Quota
from accounting.selectors import access, quota_bars, quota_history
from accounting.services import attempts, quotas
from hami_platform.domain.quota import Limits, Selector

PLAIN = ("vendor", "model_pattern", *Quota.LIMITS, "valid_from", "valid_until")
BLANK: dict[str, Any] = {name: "" if name in ("vendor", "model_pattern") else None for name in PLAIN}
AS_OF: Final = OpenApiParameter(
    "as_of", OpenApiTypes.DATETIME, description="The limits as they were then; `use` is empty."
)


class QuotaFilter(filters.FilterSet):
    """By scope and by what is counted."""

    namespace = filters.CharFilter(field_name="namespace__name")
    tenant = filters.CharFilter(field_name="tenant__name")

    class Meta:
        model = Quota
        fields = ("name", "vendor", "model_pattern", "in_force")


@extend_schema_view(get=extend_schema(operation_id="quotas", parameters=[AS_OF]))
class QuotasEndpoint(lists.ListEndpoint):
    """Quotas that the caller may see, with what is used of them."""

    serializer_class = serializers.QuotaShape
    queryset = Quota.objects.none()
    filterset_class = QuotaFilter
    search_fields = ("name", "namespace__name", "tenant__name", "reason")
    ordering_fields = ("name", "devices", "memory_mib", "core_percent", "valid_until")
    file_name = "quotas"
    asked = ("as_of",)

    def get_queryset(self) -> Any:
        return _visible(self)

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "bars": {} if _at(self.request) else _bars(self.reach)}

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Any:
        """As they are, or as they were."""
        at = _at(request)
        if at is None:
            return super().list(request, *args, **kwargs)
        found = [row for row in quota_history.quotas_as_of(at, self.reach) if self._wanted(row)]
        csv = request.accepted_renderer.format == "csv"
        page = found if csv and not self.paged else self.paginate_queryset(found)
        if csv:
            return self.as_file(page)
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    @extend_schema(operation_id="quota_add", request=serializers.QuotaNew, responses={201: serializers.QuotaShape})
    def post(self, request: Request) -> Response:
        """Set a new quota; 409 if there is one of this name already."""
        form = serializers.QuotaNew(data=request.data)
        form.is_valid(raise_exception=True)
        data = form.validated_data
        if not self.reach.sets_quota(data["namespace"] or None):
            raise PermissionDenied("you may not set this quota")

        def act() -> attempts.Answer:
            row = _set(self, data | {"version": 0}, BLANK | data, data["namespace"], data["tenant"], data["name"], None)
            self.state = str(row.version)
            return attempts.Answer(201, _shown(row))

        return self.written(act, cause="quota_set")

    def _wanted(self, row: Quota) -> bool:
        query = self.request.query_params
        texts = {
            "namespace": row.namespace.name if row.namespace else "",
            "tenant": row.tenant.name if row.tenant else "",
            **{name: getattr(row, name) for name in ("name", "vendor", "model_pattern")},
        }
        unasked = sorted({"q", "ordering"} & set(query))
        if unasked:
            raise exceptions.ValidationError({unasked[0]: "not together with as_of"})
        wanted = query.get("in_force", "").lower()
        return all(text == query.get(name, text) for name, text in texts.items()) and (
            not wanted or wanted == str(row.in_force).lower()
        )


class QuotaEndpoint(Endpoint):
    """One quota."""

    asked = ("as_of",)

    @extend_schema(operation_id="quota", parameters=[AS_OF], responses=serializers.QuotaShape)
    def get(self, request: Request, quota_id: int) -> Response:
        """By id."""
        at = _at(request)
        if at is None:
            row = _one(self, quota_id)
            self.state = str(row.version)
            return Response(_shown(row, _bars(self.reach)))
        then = (row for row in quota_history.quotas_as_of(at, self.reach) if row.pk == quota_id)
        return Response(_shown(rows.found(next(then, None), f"no quota {quota_id} at that time")))

    @extend_schema(operation_id="quota_change", request=serializers.QuotaChange, responses=serializers.QuotaShape)
    def patch(self, request: Request, quota_id: int) -> Response:
        """Change what is named; the rest stays."""
        return self._write(request, quota_id, keep=True)

    @extend_schema(operation_id="quota_set", request=serializers.QuotaChange, responses=serializers.QuotaShape)
    def put(self, request: Request, quota_id: int) -> Response:
        """Set all of it; what is not named is unlimited."""
        return self._write(request, quota_id, keep=False)

    @extend_schema(operation_id="quota_delete", request=serializers.Reason, responses={204: None})
    def delete(self, request: Request, quota_id: int) -> Response:
        """Lift the quota."""
        reason = serializers.reason_of(request)

        def act() -> attempts.Answer:
            row = _writable(self, quota_id)
            self.matched(str(row.version))
            quotas.quota_delete(quota_id=row.pk, reason=reason, actor=self.actor)
            return attempts.Answer(204, None)

        return self.written(act, cause="quota_delete")

    def _write(self, request: Request, quota_id: int, *, keep: bool) -> Response:
        form = serializers.QuotaChange(data=request.data)
        form.is_valid(raise_exception=True)
        data = form.validated_data

        def act() -> attempts.Answer:
            row = _writable(self, quota_id)
            if data.get("version") is None or "If-Match" in request.headers:
                self.matched(str(row.version))
            base = {name: getattr(row, name) for name in PLAIN} if keep else BLANK
            namespace, tenant = (row.namespace.name if row.namespace else ""), (row.tenant.name if row.tenant else "")
            changed = _set(self, data, base | data, namespace, tenant, row.name, row.pk)
            self.state = str(changed.version)
            return attempts.Answer(200, _shown(changed))

        return self.written(act, cause="quota_set")


def _set(
    endpoint: Endpoint,
    data: dict[str, Any],
    values: dict[str, Any],
    namespace: str,
    tenant: str,
    name: str,
    pk: int | None,
) -> Quota:
    return quotas.quota_set(
        namespace=namespace,
        tenant=tenant,
        name=name,
        limits=Limits(**{limit: values[limit] for limit in Quota.LIMITS}),
        selector=Selector(values["vendor"], values["model_pattern"]),
        valid_from=values["valid_from"],
        valid_until=values["valid_until"],
        reason=data["reason"],
        actor=endpoint.actor,
        expected_version=data.get("version"),
        quota_id=pk,
    )


def _at(request: Request) -> datetime | None:
    text = request.query_params.get("as_of", "")
    if not text:
        return None
    try:
        at = parse_datetime(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise exceptions.ValidationError({"as_of": "a time with its zone, such as 2026-05-03T00:00:00Z"})
    return at


def _bars(reach: access.Reach) -> dict[int, list[quota_bars.QuotaBar]]:
    """Quota's id → what is used of its limits."""
    found: dict[int, list[quota_bars.QuotaBar]] = defaultdict(list)
    for bar in quota_bars.all_bars(rows.view_now(), reach):
        if bar.quota_id is not None:
            found[bar.quota_id].append(bar)
    return found


def _shown(row: Quota, bars: dict[int, list[quota_bars.QuotaBar]] | None = None) -> dict[str, Any]:
    return dict(serializers.QuotaShape(row, context={"bars": bars or {}}).data)


def _visible(endpoint: Endpoint) -> Any:
    found = rows.ours(Quota).select_related("namespace", "tenant")
    reach = endpoint.reach
    if reach.everything:
        return found
    return found.filter(Q(namespace__name__in=reach.namespaces) | Q(tenant__in=reach.tenants))


def _one(endpoint: Endpoint, quota_id: int) -> Quota:
    row: Quota | None = _visible(endpoint).filter(pk=quota_id).first()
    if row is None:
        raise Http404(f"no quota {quota_id}")
    return row


def _writable(endpoint: Endpoint, quota_id: int) -> Quota:
    row = _one(endpoint, quota_id)
    if not endpoint.reach.sets_quota(row.namespace.name if row.namespace else None):
        raise PermissionDenied("you may not change this quota")
    return row
