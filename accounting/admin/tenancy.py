"""Tenants, namespaces, quotas, and the native quotas that are shown beside them."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.widgets import AdminSplitDateTime
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from import_export import tmp_storages
from import_export.admin import ImportExportMixin
from import_export.formats import base_formats

from accounting import amounts, live_view
from accounting.admin.console import HistoryAdmin, ReadAdmin, ReasonForm, actor_of, site
from accounting.admin.resources import QuotaResource
from accounting.models import Namespace, NativeQuota, Quota, Tenant
from accounting.selectors import access, native_beside, quota_conflict
from accounting.services import namespaces, quota_preview, quotas, tenants
from accounting.services.errors import InvalidInput, Outdated
from hami_platform.domain.quota import Limits, Selector
from hami_platform.domain.sentences import phrase


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


class VendorFilter(admin.AllValuesFieldListFilter):
    """By vendor; a quota that counts every vendor's devices has a word, too."""

    def choices(self, changelist: Any) -> Any:
        """As usual, with a word for the empty one."""
        return ({**one, "display": one["display"] or gettext("every vendor")} for one in super().choices(changelist))


class Previewed(InvalidInput):
    """The effect was asked for: it is shown, and nothing is written. Nobody's fault."""

    def __init__(self, effect: quota_preview.Effect) -> None:
        super().__init__("", phrase("nothing is saved yet: this is what it would do"))
        self.effect = effect


class QuotaForm(ReasonForm):
    """Carries the version that the person saw, so that nobody overwrites what they have not read."""

    seen_version = forms.IntegerField(label=_("Version seen"), widget=forms.HiddenInput, required=False)
    back_at = forms.SplitDateTimeField(
        label=_("For a while, until"),
        required=False,
        widget=AdminSplitDateTime,
        help_text=_("UTC. Then today's limits come back by themselves."),
    )
    conflict: quota_conflict.Conflict | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        stored = Quota.objects.filter(pk=self.instance.pk).values_list("version", flat=True).first()
        self.initial["seen_version"] = stored or 0
        self.initial["back_at"] = self.instance.returns_at

    def clean(self) -> dict[str, Any]:
        """After a refusal since somebody else had saved, another save is on top of the newer version."""
        data = super().clean()
        if isinstance(self.refusal, Outdated):
            labels = {name: str(field.label) for name, field in self.fields.items()}
            labels["returns_at"], entered = labels["back_at"], {**data, "returns_at": data.get("back_at")}
            self.conflict = quota_conflict.conflict(self.instance, data.get("seen_version") or 0, entered, labels)
            newer = str(self.conflict.version) if self.conflict else ""
            self.data = {**dict(self.data.items()), "seen_version": newer}
        return data


@admin.register(Quota, site=site)
class QuotaAdmin(ImportExportMixin, HistoryAdmin):
    """Limits of a namespace or a tenant, saved after a look at their effect; also as a table, with a preview."""

    resource_classes = (QuotaResource,)
    formats = (base_formats.CSV, base_formats.YAML, base_formats.JSON)
    skip_export_form = True
    tmp_storage_class = tmp_storages.CacheStorage  # another process may answer the confirmation

    form = QuotaForm
    change_form_template = "admin/quota_change_form.html"
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
    list_filter = ("in_force", ("vendor", VendorFilter))
    list_select_related = ("namespace", "tenant")
    search_fields = ("name", "namespace__name", "tenant__name")
    fieldsets = (
        (None, {"fields": ("namespace", "tenant", "name", "reason", "seen_version")}),
        (
            _("Limits of the sum: empty is no limit, 0 is nothing"),
            {"fields": ("devices", "memory_mib", "core_percent")},
        ),
        (
            _("Limits of one pod and of one share"),
            {"fields": ("pod_devices", "pod_memory_mib", "pod_core_percent", "device_memory_mib")},
        ),
        (_("Which devices count"), {"fields": ("vendor", "model_pattern")}),
        (_("When"), {"fields": ("valid_from", "valid_until", "back_at")}),
    )

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        """A quota stays with its scope."""
        return () if obj is None else ("namespace", "tenant")

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> forms.Field | None:
        """Memory is entered so that a wrong unit is answered with the right number."""
        if db_field.name.endswith("_mib"):
            kwargs |= {"form_class": amounts.MibField, "widget": forms.TextInput}
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        """As usual, with the effect that was asked for, or both versions where somebody else had saved."""
        refusal = getattr(request, "refusal", None)
        if isinstance(refusal, Previewed):
            context |= {"effect": refusal.effect, "errors": None}
        context["conflict"] = getattr(context["adminform"].form, "conflict", None)
        return super().render_change_form(request, context, *args, **kwargs)

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
        limits = Limits(**{limit: data[limit] for limit in Quota.LIMITS})
        selector = Selector(data["vendor"], data["model_pattern"])
        if "_preview" in request.POST:
            quotas.limits_checked(limits, ceiling_mib=quotas.ceiling_mib())
            changed = quota_preview.quota_row(row, limits, selector)
            raise Previewed(quota_preview.effect(live_view.live().refresh(), changed))
        return quotas.quota_set(
            namespace=namespace.name if namespace else "",
            tenant=tenant.name if tenant else "",
            name=data["name"],
            limits=limits,
            selector=selector,
            valid_from=data["valid_from"],
            valid_until=data["valid_until"],
            returns_at=data.get("back_at"),
            reason=data["reason"],
            actor=actor_of(request),
            expected_version=0 if new else data["seen_version"],
            quota_id=None if new else row.pk,
        )

    def remove(self, request: HttpRequest, row: Quota, reason: str) -> None:
        quotas.quota_delete(quota_id=row.pk, reason=reason, actor=actor_of(request))


@admin.register(NativeQuota, site=site)
class NativeQuotaAdmin(ReadAdmin):
    """Limits read from Kubernetes' own ResourceQuota objects, beside ours."""

    list_display = ("namespace", "object_name", "resource_key", "vendor", "resource", "limit", "beside_ours")
    search_fields = ("namespace", "object_name")

    @admin.display(description=_("beside ours"))
    def beside_ours(self, row: NativeQuota) -> str:
        """What this platform allows of the same, and which of the two refuses first."""
        view = live_view.live().now
        return native_beside.beside(view, row.namespace, row.vendor, row.resource, row.limit).words
