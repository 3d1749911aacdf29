"""Quotas over REST: read, set, change, lift. Every write is the service's, with a reason."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from accounting import ledger
from accounting.api import serializers
from accounting.api.base import Endpoint, ListEndpoint
from accounting.models import Quota
from accounting.services import quotas
from hami_platform.domain.quota import Limits, Selector

PLAIN = ("vendor", "model_pattern", *Quota.LIMITS, "valid_from", "valid_until")
BLANK: dict[str, Any] = {name: "" if name in ("vendor", "model_pattern") else None for name in PLAIN}


class QuotasEndpoint(ListEndpoint):
    """Quotas that the caller may see."""

    serializer_class = serializers.QuotaShape

    def get_queryset(self) -> Any:
        return _visible(self)

    @extend_schema(request=serializers.QuotaNew, responses={201: serializers.QuotaShape})
    def post(self, request: Request) -> Response:
        """Set a new quota; 409 if there is one of this name already."""
        form = serializers.QuotaNew(data=request.data)
        form.is_valid(raise_exception=True)
        data = form.validated_data
        if not self.reach.sets_quota(data["namespace"] or None):
            raise PermissionDenied("you may not set this quota")
        row = _set(self, data | {"version": 0}, BLANK | data, data["namespace"], data["tenant"], data["name"], None)
        return Response(serializers.QuotaShape(row).data, status=status.HTTP_201_CREATED)


class QuotaEndpoint(Endpoint):
    """One quota."""

    @extend_schema(operation_id="quota", responses=serializers.QuotaShape)
    def get(self, request: Request, quota_id: int) -> Response:
        """By id."""
        return Response(serializers.QuotaShape(_one(self, quota_id)).data)

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
        form = serializers.Reason(data=request.data or request.query_params)
        form.is_valid(raise_exception=True)
        row = _writable(self, quota_id)
        quotas.quota_delete(quota_id=row.pk, reason=form.validated_data["reason"], actor=self.actor)
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _write(self, request: Request, quota_id: int, *, keep: bool) -> Response:
        form = serializers.QuotaChange(data=request.data)
        form.is_valid(raise_exception=True)
        row = _writable(self, quota_id)
        base = {name: getattr(row, name) for name in PLAIN} if keep else BLANK
        data = dict(form.validated_data)
        if keep and data.get("version") is None:
            data["version"] = row.version  # what is kept was read a moment ago: nobody may have changed it since
        namespace, tenant = (row.namespace.name if row.namespace else ""), (row.tenant.name if row.tenant else "")
        changed = _set(self, data, base | form.validated_data, namespace, tenant, row.name, row.pk)
        return Response(serializers.QuotaShape(changed).data)


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


def _visible(endpoint: Endpoint) -> Any:
    rows = Quota.objects.filter(cluster=ledger.cluster_id()).select_related("namespace", "tenant")
    reach = endpoint.reach
    if reach.everything:
        return rows
    return rows.filter(Q(namespace__name__in=reach.namespaces) | Q(tenant__in=reach.tenants))


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
