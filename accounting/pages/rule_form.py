"""What the forms of limits and of budgets share."""

from __future__ import annotations

from django import forms
from django.http import Http404
from django.utils.translation import gettext_lazy as lazy

from accounting import ledger
from accounting.models import Namespace
from accounting.services import namespaces
from accounting.services.errors import InvalidInput
from hami_platform.domain.quota import Selector


class RuleForm(forms.Form):
    """A rule of one namespace or tenant: what it counts, why it is set, and on top of which version."""

    vendor = forms.CharField(
        label=lazy("Vendor"), max_length=32, required=False, help_text=lazy("Count only this vendor's devices.")
    )
    model_pattern = forms.CharField(
        label=lazy("Model pattern"), max_length=128, required=False, help_text=lazy("For example *A100*.")
    )
    reason = forms.CharField(
        label=lazy("Reason"),
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=lazy("Kept in the history."),
    )
    version = forms.IntegerField(widget=forms.HiddenInput)

    @property
    def selector(self) -> Selector:
        """Which devices count."""
        return Selector(self.cleaned_data["vendor"], self.cleaned_data["model_pattern"])

    def on_top_of(self, version: int | None) -> None:
        """After a refusal since somebody else had saved: another save is on top of what is there now, if anything."""
        self.data = {**dict(self.data.items()), "version": str(version or 0)}


def namespace_named(name: str) -> Namespace:
    """The namespace, with a row or without one yet. Raises Http404 for what is no name of one."""
    row = Namespace.objects.filter(cluster=ledger.cluster_id(), name=name).first()
    if row is not None:
        return row
    try:
        return Namespace(cluster_id=ledger.cluster_id(), name=namespaces.name_checked(Namespace(), name))
    except InvalidInput as refusal:
        raise Http404(str(refusal)) from refusal
