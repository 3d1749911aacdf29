"""Budgets: what a namespace or a tenant plans to use. They inform and refuse nothing."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from accounting.admin.console import HistoryAdmin, ReasonForm, actor_of, site
from accounting.models import Budget
from accounting.services import budgets
from accounting.services.budgets import Plan
from accounting.services.errors import Outdated
from hami_platform.domain.quota import Selector

PLAN = ("device_hours", "amount", "currency", "period", "first_day", "last_day")


class BudgetForm(ReasonForm):
    """Carries the version that the person saw. After a refusal since somebody else had saved, another save is on top of
    the newer version, which the form's history link shows."""

    seen_version = forms.IntegerField(label=_("Version seen"), widget=forms.HiddenInput, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["seen_version"] = self._stored()

    def clean(self) -> dict[str, Any]:
        """As usual; the version that is now is what the next save is on top of."""
        data = super().clean()
        if isinstance(self.refusal, Outdated):
            self.data = {**dict(self.data.items()), "seen_version": str(self._stored())}
        return data

    def _stored(self) -> int:
        return Budget.objects.filter(pk=self.instance.pk).values_list("version", flat=True).first() or 0


@admin.register(Budget, site=site)
class BudgetAdmin(HistoryAdmin):
    """Device hours, money, or both, for a month, a quarter or some days."""

    form = BudgetForm
    list_display = ("__str__", "period", "device_hours", "amount", "currency", "first_day", "last_day", "version")
    list_filter = ("period",)
    list_select_related = ("namespace", "tenant")
    search_fields = ("name", "namespace__name", "tenant__name")
    fieldsets = (
        (None, {"fields": ("namespace", "tenant", "name", "reason", "seen_version")}),
        (
            _("What is planned: empty is nothing of that kind, 0 is nothing at all"),
            {"fields": ("device_hours", "amount", "currency")},
        ),
        (_("When"), {"fields": ("period", "first_day", "last_day")}),
        (_("Which devices count"), {"fields": ("vendor", "model_pattern")}),
    )

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        """A budget stays with its scope."""
        return () if obj is None else ("namespace", "tenant")

    def write(self, request: HttpRequest, row: Budget, data: dict[str, Any], *, new: bool) -> Model:
        namespace = data["namespace"] if new else row.namespace
        tenant = data["tenant"] if new else row.tenant
        return budgets.budget_set(
            namespace=namespace.name if namespace else "",
            tenant=tenant.name if tenant else "",
            name=data["name"],
            plan=Plan(**{name: data[name] for name in PLAN}),
            selector=Selector(data["vendor"], data["model_pattern"]),
            reason=data["reason"],
            actor=actor_of(request),
            expected_version=0 if new else data["seen_version"],
            budget_id=None if new else row.pk,
        )

    def remove(self, request: HttpRequest, row: Budget, reason: str) -> None:
        budgets.budget_delete(budget_id=row.pk, reason=reason, actor=actor_of(request))
