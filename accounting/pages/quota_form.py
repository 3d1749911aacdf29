"""The form in which limits are set, with their effect shown before they are saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy

from accounting import amounts, ledger
from accounting.models import Quota, Tenant
from accounting.pages.rule_form import RuleForm, namespace_named
from accounting.pages.shell import console, frame, view_now
from accounting.selectors import access, freshness, quota_conflict
from accounting.services import quota_preview, quotas
from accounting.services.errors import InvalidInput, Outdated
from hami_platform.domain.quota import Limits

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

AT = "%Y-%m-%dT%H:%M"


def _whole(label: StrOrPromise, help_text: StrOrPromise = "") -> forms.IntegerField:
    return forms.IntegerField(label=label, help_text=help_text, required=False, min_value=0)


def _mib(label: StrOrPromise, help_text: StrOrPromise = "") -> forms.IntegerField:
    return amounts.MibField(label=label, help_text=help_text, required=False, min_value=0)


def _moment(label: StrOrPromise, help_text: StrOrPromise = "UTC") -> forms.DateTimeField:
    widget = forms.DateTimeInput(attrs={"type": "datetime-local"}, format=AT)
    return forms.DateTimeField(label=label, required=False, input_formats=[AT], widget=widget, help_text=help_text)


class QuotaForm(RuleForm):
    """Limits of one scope. Empty is no limit, 0 is nothing."""

    memory_mib = _mib(lazy("Memory, MiB"), lazy("MiB, not bytes: 16 GiB is 16384."))
    core_percent = _whole(lazy("Cores, %"), lazy("100 is one whole device."))
    devices = _whole(lazy("Shares of devices"))
    pod_memory_mib = _mib(lazy("Memory of one pod, MiB"))
    pod_core_percent = _whole(lazy("Cores of one pod, %"))
    pod_devices = _whole(lazy("Shares of one pod"))
    device_memory_mib = _mib(lazy("Memory of one share, MiB"))
    valid_from = _moment(lazy("Valid from"))
    valid_until = _moment(lazy("Valid until"))
    returns_at = _moment(lazy("For a while, until"), lazy("UTC. Then today's limits come back by themselves."))

    field_order = quota_conflict.COMPARED

    @property
    def limits(self) -> Limits:
        """What was entered."""
        return Limits(**{name: self.cleaned_data[name] for name in Quota.LIMITS})

    def outdated(self, row: Quota) -> quota_conflict.Conflict | None:
        """Both versions, after a save that was refused since somebody else had saved; another save is then on top of
        the newer one."""
        labels = {name: str(field.label) for name, field in self.fields.items()}
        found = quota_conflict.conflict(row, self.cleaned_data["version"], self.cleaned_data, labels)
        self.on_top_of(found.version if found else None)
        return found


@console
def quota_edit(request: HttpRequest, quota_id: int) -> HttpResponse:
    """Change a quota."""
    rows = Quota.objects.select_related("namespace", "tenant").filter(cluster=ledger.cluster_id())
    row = rows.filter(pk=quota_id).first()
    if row is None:
        raise Http404(f"no quota {quota_id}")
    return _edited(request, row)


@console
def quota_new(request: HttpRequest) -> HttpResponse:
    """Set the first quota of a namespace or tenant, named in the query."""
    row = Quota(cluster_id=ledger.cluster_id(), version=0)
    if request.GET.get("namespace"):
        row.namespace = namespace_named(request.GET["namespace"])
    else:
        name = request.GET.get("tenant", "")
        row.tenant = Tenant.objects.filter(cluster=ledger.cluster_id(), name=name).first()
        if row.tenant is None:
            raise Http404("name a namespace or a tenant")
    return _edited(request, row)


def _edited(request: HttpRequest, row: Quota) -> HttpResponse:
    if not access.reach_for(request).sets_quota(row.namespace.name if row.namespace else None):
        raise PermissionDenied(
            _("Limits of a tenant are set by operators, those of a namespace by its tenant's admins.")
        )
    form = QuotaForm(request.POST if request.method == "POST" else None, initial=_shown(row) | _proposed(request))
    found = conflict = None
    if form.is_valid():
        try:
            quotas.limits_checked(form.limits, ceiling_mib=quotas.ceiling_mib())
            if "save" in request.POST:
                return _saved(request, form, row)
            found = quota_preview.effect(view_now(), quota_preview.quota_row(row, form.limits, form.selector))
        except Outdated as refusal:
            form.add_error(None, refusal.told(_))
            conflict = form.outdated(row)
        except InvalidInput as refusal:
            form.add_error(refusal.field if refusal.field in form.fields else None, refusal.told(_))
    context = {
        "form": form,
        "row": row,
        "effect": found,
        "conflict": conflict,
        "title": str(row),
        "reach": access.reach_for(request),
    }
    return render(
        request, "console/quota_form.html", context | {"freshness": freshness.freshness(view_now())} | frame("quotas")
    )


def _saved(request: HttpRequest, form: QuotaForm, row: Quota) -> HttpResponse:
    data: dict[str, Any] = form.cleaned_data
    scope = row.namespace or row.tenant
    name = scope.name if scope else ""
    quotas.quota_set(
        namespace=name if row.namespace else "",
        tenant=name if row.tenant else "",
        name=row.name,
        limits=form.limits,
        selector=form.selector,
        valid_from=data["valid_from"],
        valid_until=data["valid_until"],
        returns_at=data["returns_at"],
        reason=data["reason"],
        actor=request.user.get_username(),
        expected_version=data["version"],
        quota_id=row.pk,
    )
    messages.success(request, _("Saved. Every open page shows it within two seconds."))
    return redirect("console:namespace" if row.namespace else "console:tenant", name)


def _proposed(request: HttpRequest) -> dict[str, int]:
    """Limits that a link proposes (`?memory_mib=4096`); the person still sees the effect and saves it, or not."""
    given = {name: request.GET.get(name, "") for name in Quota.LIMITS}
    return {name: int(text) for name, text in given.items() if text.isascii() and text.isdigit() and len(text) < 18}


def _shown(row: Quota) -> dict[str, Any]:
    columns = (*Quota.LIMITS, "vendor", "model_pattern", "valid_from", "valid_until", "returns_at", "version")
    return {column: getattr(row, column) for column in columns}
