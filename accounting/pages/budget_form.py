"""The form in which a budget is set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy

from accounting import ledger
from accounting.models import Budget, Tenant
from accounting.pages.rule_form import RuleForm, namespace_named
from accounting.pages.shell import console, frame, view_now
from accounting.selectors import access, freshness
from accounting.selectors import budgets as selectors
from accounting.services import budgets
from accounting.services.budgets import Plan
from accounting.services.errors import InvalidInput, Outdated

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

PLAN = ("device_hours", "amount", "currency", "period", "first_day", "last_day")


def _day(label: StrOrPromise, help_text: StrOrPromise = "") -> forms.DateField:
    widget = forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d")
    return forms.DateField(label=label, required=False, widget=widget, help_text=help_text)


class BudgetForm(RuleForm):
    """What one namespace or tenant plans. Empty is nothing of that kind, 0 is nothing at all."""

    name = forms.SlugField(label=lazy("Name"), max_length=63, initial="default")
    device_hours = forms.IntegerField(
        label=lazy("Device hours"),
        required=False,
        min_value=0,
        max_value=budgets.HOURS_MOST,
        help_text=lazy("Four quarters of a device for an hour are one."),
    )
    amount = forms.DecimalField(
        label=lazy("Amount of money"),
        required=False,
        min_value=0,
        max_digits=14,
        decimal_places=2,
        help_text=lazy("By the prices of each day."),
    )
    currency = forms.CharField(label=lazy("Currency"), required=False, max_length=3, help_text=lazy("For example EUR."))
    period = forms.ChoiceField(label=lazy("Period"), choices=Budget.Period.choices)
    first_day = _day(lazy("First day"), lazy("Only for once; UTC."))
    last_day = _day(lazy("Last day"), lazy("Included."))

    field_order = ("name", *PLAN)

    @property
    def plan(self) -> Plan:
        """What was entered."""
        return Plan(**{name: self.cleaned_data[name] for name in PLAN})


@console
def budget_edit(request: HttpRequest, budget_id: int) -> HttpResponse:
    """Change a budget, or take it away."""
    row = selectors.visible(access.reach_for(request)).filter(pk=budget_id).first()
    if row is None:
        raise Http404(f"no budget {budget_id}")
    return _edited(request, row)


@console
def budget_new(request: HttpRequest) -> HttpResponse:
    """Set a budget of what `scope=tenant:NAME` or `scope=namespace:NAME` names."""
    kind, _colon, name = request.GET.get("scope", "").partition(":")
    row = Budget(cluster_id=ledger.cluster_id(), version=0)
    if kind == "namespace" and access.reach_for(request).sees(name):
        row.namespace = namespace_named(name)
    elif kind == "tenant":
        row.tenant = Tenant.objects.filter(cluster=ledger.cluster_id(), name=name).first()
    if row.namespace is None and row.tenant is None:
        raise Http404("name a namespace or a tenant")
    return _edited(request, row)


def _edited(request: HttpRequest, row: Budget) -> HttpResponse:
    if not selectors.may_set(row, access.reach_for(request)):
        raise PermissionDenied(
            _("Budgets of a tenant are set by operators, those of a namespace by its tenant's admins.")
        )
    form = BudgetForm(request.POST if request.method == "POST" else None, initial=_shown(row))
    if form.is_valid():
        try:
            return _removed(request, form, row) if "remove" in request.POST and row.pk else _saved(request, form, row)
        except Outdated as refusal:
            form.add_error(None, refusal.told(_))
            form.on_top_of(Budget.objects.filter(pk=row.pk).values_list("version", flat=True).first())
        except InvalidInput as refusal:
            form.add_error(refusal.field if refusal.field in form.fields else None, refusal.told(_))
    context = {"form": form, "row": row, "title": str(row), "reach": access.reach_for(request)}
    more = {"freshness": freshness.freshness(view_now())} | frame("usage")
    return render(request, "console/budget_form.html", context | more)


def _saved(request: HttpRequest, form: BudgetForm, row: Budget) -> HttpResponse:
    data: dict[str, Any] = form.cleaned_data
    saved = budgets.budget_set(
        namespace=row.namespace.name if row.namespace else "",
        tenant=row.tenant.name if row.tenant else "",
        name=data["name"],
        plan=form.plan,
        selector=form.selector,
        reason=data["reason"],
        actor=request.user.get_username(),
        expected_version=data["version"],
        budget_id=row.pk,
    )
    messages.success(request, _("Saved. Every open page shows it within two seconds."))
    return redirect("console:budget", saved.pk)


def _removed(request: HttpRequest, form: BudgetForm, row: Budget) -> HttpResponse:
    data = form.cleaned_data
    budgets.budget_delete(
        budget_id=row.pk,
        reason=data["reason"],
        actor=request.user.get_username(),
        expected_version=data["version"],
    )
    messages.success(request, _("The budget was taken away; its history stays."))
    return redirect("console:budgets")


def _shown(row: Budget) -> dict[str, Any]:
    columns = ("name", *PLAN, "vendor", "model_pattern", "version")
    return {column: getattr(row, column) for column in columns}
