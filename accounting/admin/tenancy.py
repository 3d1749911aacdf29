"""Tenants, namespaces, quotas, and the native quotas that are shown beside them."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from import_export import tmp_storages
from import_export.admin import ImportExportMixin
from import_export.formats import base_formats

from accounting.admin.console import HistoryAdmin, ReadAdmin, ReasonForm, actor_of, site
from accounting.admin.resources import QuotaResource
from accounting.models import Namespace, NativeQuota, Quota, Tenant
from accounting.selectors import access
from accounting.services import namespaces, quotas, tenants
from hami_platform.domain.quota import Limits, Selector


@admin.register(Tenant, site=site)
class TenantAdmin(HistoryAdmin):
    """The tenant tree."""

    list_display = ("name", "parent", "note")
    list_select_related = ("parent",)
    search_fields = ("name", "note")
    fields = ("name", "parent", "note", "reason")

    def write(self, request: HttpRequest, row: Tenant, data: dict[str, Any], *, new: bool) -> Model:
        return tenants.tenant_save(
            tenant_id=None if new else row.pk,
            new=new,
            name=data["name"],
            parent=data["parent"].name if data["parent"] else "",
            note=data["note"],
            reason=data["reason"],
            actor=actor_of(request),
        )

    def remove(self, request: HttpRequest, row: Tenant, reason: str) -> None:
        tenants.tenant_delete(tenant_id=row.pk, reason=reason, actor=actor_of(request))


@admin.register(Namespace, site=site)
class NamespaceAdmin(HistoryAdmin):
    """Which tenant a namespace belongs to, and what happens over quota."""

    list_display = ("name", "tenant", "mode")
    list_filter = ("mode",)
    list_select_related = ("tenant",)
    search_fields = ("name", "tenant__name")
    fields = ("name", "tenant", "mode", "reason")

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        """Kubernetes does not rename namespaces, so neither do we."""
        return () if obj is None else ("name",)

    def write(self, request: HttpRequest, row: Namespace, data: dict[str, Any], *, new: bool) -> Model:
        return namespaces.namespace_save(
            name=data["name"] if new else row.name,
            tenant=data["tenant"].name if data["tenant"] else "",
            mode=data["mode"],
            reason=data["reason"],
            actor=actor_of(request),
            new=new,
        )

    def remove(self, request: HttpRequest, row: Namespace, reason: str) -> None:
        namespaces.namespace_delete(name=row.name, reason=reason, actor=actor_of(request))


class QuotaForm(ReasonForm):
    """Carries the version that the person saw, so that nobody overwrites what they have not read."""

    seen_version = forms.IntegerField(widget=forms.HiddenInput, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        stored = Quota.objects.filter(pk=self.instance.pk).values_list("version", flat=True).first()
        self.initial["seen_version"] = stored or 0


@admin.register(Quota, site=site)
class QuotaAdmin(ImportExportMixin, HistoryAdmin):
    """Limits of a namespace or a tenant; also as a spreadsheet, imported with a preview."""

    resource_classes = (QuotaResource,)
    formats = (base_formats.CSV,)
    skip_export_form = True
    tmp_storage_class = tmp_storages.CacheStorage  # another process may answer the confirmation

    form = QuotaForm
    list_display = (
        "__str__",
        "devices",
        "memory_mib",
        "core_percent",
        "vendor",
        "model_pattern",
        "in_force",
        "version",
    )
    list_filter = ("in_force", "vendor")
    list_select_related = ("namespace", "tenant")
    search_fields = ("name", "namespace__name", "tenant__name")
    fieldsets = (
        (None, {"fields": ("namespace", "tenant", "name", "reason", "seen_version")}),
        ("Limits of the sum: empty is no limit, 0 is nothing", {"fields": ("devices", "memory_mib", "core_percent")}),
        (
            "Limits of one pod and of one share",
            {"fields": ("pod_devices", "pod_memory_mib", "pod_core_percent", "device_memory_mib")},
        ),
        ("Which devices count", {"fields": ("vendor", "model_pattern")}),
        ("When", {"fields": ("valid_from", "valid_until")}),
    )

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        """A quota stays with its scope."""
        return () if obj is None else ("namespace", "tenant")

    def has_import_permission(self, request: HttpRequest) -> bool:
        """Whoever may change quotas."""
        return access.reach_for(request).operates

    def export_action(self, request: HttpRequest) -> HttpResponse:
        """As usual; a filter that nobody knows exports nothing, like the list."""
        try:
            answer: HttpResponse = super().export_action(request)
        except IncorrectLookupParameters:
            return redirect("admin:accounting_quota_changelist")
        return answer

    def has_export_permission(self, request: HttpRequest) -> bool:
        """Whoever sees them."""
        return access.reach_for(request).everything

    def write(self, request: HttpRequest, row: Quota, data: dict[str, Any], *, new: bool) -> Model:
        namespace = data["namespace"] if new else row.namespace
        tenant = data["tenant"] if new else row.tenant
        return quotas.quota_set(
            namespace=namespace.name if namespace else "",
            tenant=tenant.name if tenant else "",
            name=data["name"],
            limits=Limits(**{limit: data[limit] for limit in Quota.LIMITS}),
            selector=Selector(data["vendor"], data["model_pattern"]),
            valid_from=data["valid_from"],
            valid_until=data["valid_until"],
            reason=data["reason"],
            actor=actor_of(request),
            expected_version=0 if new else data["seen_version"],
            quota_id=None if new else row.pk,
        )

    def remove(self, request: HttpRequest, row: Quota, reason: str) -> None:
        quotas.quota_delete(quota_id=row.pk, reason=reason, actor=actor_of(request))


@admin.register(NativeQuota, site=site)
class NativeQuotaAdmin(ReadAdmin):
    """Limits read from Kubernetes' own ResourceQuota objects."""

    list_display = ("namespace", "object_name", "resource_key", "vendor", "resource", "limit")
    search_fields = ("namespace", "object_name")
