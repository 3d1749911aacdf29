"""Tenants and namespaces over REST. Changes are for operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.exceptions import PermissionDenied
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response

from accounting.api import answers, rows, serializers
from accounting.api.base import Endpoint
from accounting.api.lists import ListEndpoint
from accounting.models import Mode, Namespace, Tenant
from accounting.selectors import access
from accounting.services import attempts, namespaces, tenants


class TenantChange(drf.Serializer[Any]):
    """What is left out stays."""

    parent = drf.CharField(required=False, allow_blank=True, max_length=63, help_text="A tenant's name; empty: a root.")  # type: ignore[assignment]  # a property of the base class
    note = drf.CharField(required=False, allow_blank=True, max_length=400)
    reason = drf.CharField(max_length=2000)


class TenantNew(TenantChange):
    """A new tenant."""

    name = drf.SlugField(max_length=63)


class NamespaceChange(drf.Serializer[Any]):
    """What is left out stays."""

    tenant = drf.CharField(required=False, allow_blank=True, max_length=63, help_text="Its name; empty: none.")
    mode = drf.ChoiceField(required=False, choices=Mode.choices)
    reason = drf.CharField(max_length=2000)


class NamespaceNew(NamespaceChange):
    """A namespace that nobody has seen yet."""

    name = drf.CharField(max_length=63)


class TenantFilter(filters.FilterSet):
    """By place in the tree."""

    parent = filters.CharFilter(field_name="parent__name")

    class Meta:
        model = Tenant
        fields = ("name",)


class NamespaceFilter(filters.FilterSet):
    """By tenant and mode."""

    tenant = filters.CharFilter(field_name="tenant__name")

    class Meta:
        model = Namespace
        fields = ("name", "mode")


class OperatorsWrite(Endpoint):
    """Reading is everybody's, within reach; writing is the operators'."""

    def changed(self, act: Callable[[], attempts.Answer], *, cause: str) -> Response:
        """The change. Raises PermissionDenied."""
        if not self.reach.operates:
            raise PermissionDenied("this is for operators")
        return self.written(act, cause=cause)


class TenantsEndpoint(OperatorsWrite, ListEndpoint):
    """The tenant tree."""

    serializer_class = serializers.TenantShape
    queryset = Tenant.objects.none()
    filterset_class = TenantFilter
    search_fields = ("name", "note")
    ordering_fields = ("name",)
    file_name = "tenants"
    asked = ()

    def get_queryset(self) -> Any:
        return _tenants(self.reach)

    @extend_schema(operation_id="tenant_add", request=TenantNew, responses={201: serializers.TenantShape})
    def post(self, request: Request) -> Response:
        """Make a tenant."""
        form = TenantNew(data=request.data)
        form.is_valid(raise_exception=True)

        def act() -> attempts.Answer:
            row = tenants.tenant_save(actor=self.actor, new=True, **form.validated_data)
            self.state = _tenant_state(row)
            return attempts.Answer(201, dict(serializers.TenantShape(row).data))

        return self.changed(act, cause="tenant_save")


class TenantEndpoint(OperatorsWrite):
    """One tenant."""

    asked = ()

    @extend_schema(operation_id="tenant", responses=serializers.TenantShape)
    def get(self, request: Request, name: str) -> Response:
        """By name."""
        row = self._row(name)
        self.state = _tenant_state(row)
        return Response(serializers.TenantShape(row).data)

    @extend_schema(operation_id="tenant_change", request=TenantChange, responses=serializers.TenantShape)
    def patch(self, request: Request, name: str) -> Response:
        """Move it in the tree, or note something."""
        form = TenantChange(data=request.data)
        form.is_valid(raise_exception=True)

        def act() -> attempts.Answer:
            row = self._row(name)
            self.matched(_tenant_state(row))
            kept = {"parent": row.parent.name if row.parent else "", "note": row.note}
            changed = tenants.tenant_save(
                name=name, tenant_id=row.pk, actor=self.actor, **(kept | form.validated_data)
            )  # fmt: skip
            changed = self._row(changed.name)
            self.state = _tenant_state(changed)
            return attempts.Answer(200, dict(serializers.TenantShape(changed).data))

        return self.changed(act, cause="tenant_save")

    @extend_schema(operation_id="tenant_delete", request=serializers.Reason, responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Take away a tenant without namespaces, quotas and children."""
        reason = serializers.reason_of(request)

        def act() -> attempts.Answer:
            row = self._row(name)
            self.matched(_tenant_state(row))
            tenants.tenant_delete(tenant_id=row.pk, reason=reason, actor=self.actor)
            return attempts.Answer(204, None)

        return self.changed(act, cause="tenant_delete")

    def _row(self, name: str) -> Tenant:
        row: Tenant = rows.found(_tenants(self.reach).filter(name=name).first(), f"no tenant {name}")
        return row


class NamespacesEndpoint(OperatorsWrite, ListEndpoint):
    """Namespaces, with what each holds."""

    serializer_class = serializers.NamespaceShape
    queryset = Namespace.objects.none()
    filterset_class = NamespaceFilter
    search_fields = ("name",)
    ordering_fields = ("name", "mode")
    file_name = "namespaces"
    asked = ()

    def get_queryset(self) -> Any:
        return _namespaces(self.reach)

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "view": rows.view_now()}

    @extend_schema(operation_id="namespace_add", request=NamespaceNew, responses={201: serializers.NamespaceShape})
    def post(self, request: Request) -> Response:
        """Say of what tenant and mode a namespace is before its first pod comes."""
        form = NamespaceNew(data=request.data)
        form.is_valid(raise_exception=True)
        view = rows.view_now()

        def act() -> attempts.Answer:
            row = namespaces.namespace_save(actor=self.actor, new=True, **form.validated_data)
            self.state = _namespace_state(row)
            return attempts.Answer(201, dict(serializers.NamespaceShape(row, context={"view": view}).data))

        return self.changed(act, cause="namespace_save")


class NamespaceEndpoint(OperatorsWrite):
    """One namespace."""

    asked = ()

    @extend_schema(operation_id="namespace", responses=serializers.NamespaceShape)
    def get(self, request: Request, name: str) -> Response:
        """By name."""
        row = self._row(name)
        self.state = _namespace_state(row)
        return Response(serializers.NamespaceShape(row, context={"view": rows.view_now()}).data)

    @extend_schema(operation_id="namespace_change", request=NamespaceChange, responses=serializers.NamespaceShape)
    def patch(self, request: Request, name: str) -> Response:
        """Its tenant, and what happens over quota."""
        form = NamespaceChange(data=request.data)
        form.is_valid(raise_exception=True)
        view = rows.view_now()

        def act() -> attempts.Answer:
            self.matched(_namespace_state(self._row(name)))
            namespaces.namespace_save(name=name, actor=self.actor, **form.validated_data)
            row = self._row(name)
            self.state = _namespace_state(row)
            return attempts.Answer(200, dict(serializers.NamespaceShape(row, context={"view": view}).data))

        return self.changed(act, cause="namespace_save")

    @extend_schema(operation_id="namespace_delete", request=serializers.Reason, responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Forget a namespace that holds nothing and has no quota."""
        reason = serializers.reason_of(request)

        def act() -> attempts.Answer:
            self.matched(_namespace_state(self._row(name)))
            namespaces.namespace_delete(name=name, reason=reason, actor=self.actor)
            return attempts.Answer(204, None)

        return self.changed(act, cause="namespace_delete")

    def _row(self, name: str) -> Namespace:
        row: Namespace = rows.found(_namespaces(self.reach).filter(name=name).first(), f"no namespace {name}")
        return row


def _tenants(reach: access.Reach) -> Any:
    found = rows.ours(Tenant).select_related("parent")
    return found if reach.everything else found.filter(pk__in=reach.tenants)


def _namespaces(reach: access.Reach) -> Any:
    return access.visible(rows.ours(Namespace).select_related("tenant"), reach, "name")


def _tenant_state(row: Tenant) -> str:
    return answers.state_of({"parent": row.parent_id, "note": row.note})


def _namespace_state(row: Namespace) -> str:
    return answers.state_of({"tenant": row.tenant_id, "mode": row.mode})
