"""A person's tokens: make one, see them, end them. The text of a new one is in one answer and nowhere else."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy
from django.views.decorators.cache import never_cache

from accounting.models import ApiToken, Role
from accounting.pages import csv_rows, csv_tables
from accounting.pages.shell import console, frame, view_now
from accounting.selectors import access, freshness
from accounting.services import tokens
from accounting.services.errors import InvalidInput

SCOPES = (
    ("read", lazy("read")),
    ("write", lazy("read and write")),
    (tokens.AGENT, lazy("reports of a node agent")),
)
ROLES = (
    (Role.Name.VIEWER.value, lazy("viewer")),
    (Role.Name.MEMBER.value, lazy("member")),
    (Role.Name.TENANT_ADMIN.value, lazy("tenant admin")),
    (Role.Name.OPERATOR.value, lazy("operator")),
    (Role.Name.AUDITOR.value, lazy("auditor")),
)


class TokenForm(forms.Form):
    """What a token is for. What is left empty narrows nothing."""

    name = forms.CharField(label=lazy("Name"), max_length=100, help_text=lazy("Who will use it, for what."))
    days = forms.IntegerField(label=lazy("Lives for, days"), min_value=1, max_value=tokens.DAYS_MOST, initial=90)
    scope = forms.ChoiceField(label=lazy("What for"), choices=SCOPES)
    roles = forms.MultipleChoiceField(
        label=lazy("Only these of your roles"), choices=ROLES, required=False,
        widget=forms.CheckboxSelectMultiple,
    )  # fmt: skip
    namespaces = forms.CharField(
        label=lazy("Only these namespaces"), required=False, help_text=lazy("Separated by blanks; empty: all you see.")
    )
    networks = forms.CharField(
        label=lazy("Only from these networks"), required=False,
        help_text=lazy("For example 10.0.0.0/8; empty: from anywhere."),
    )  # fmt: skip

    def bounds(self) -> tokens.Bounds:
        """What narrows the token."""
        data = self.cleaned_data
        return tokens.Bounds(
            (data["scope"],), tuple(data["roles"]), tuple(data["namespaces"].split()), tuple(data["networks"].split())
        )


@never_cache
@console
def own_tokens(request: HttpRequest) -> HttpResponse:
    """The list and the form; after it was made, the new token's text."""
    rows = ApiToken.objects.filter(user=request.user.pk).order_by("-created")
    if csv_tables.asked(request):
        return csv_tables.answer(request, "tokens", {"tokens": lambda: map(csv_rows.token, rows)})
    if request.method == "POST" and "revoke" in request.POST:
        return _revoked(request)
    form, text = TokenForm(request.POST if request.method == "POST" else None), ""
    if request.method == "POST" and form.is_valid():
        text = _made(request, form)
        form = TokenForm() if text else form
    context: dict[str, Any] = {
        "form": form,
        "text": text,
        "address": request.build_absolute_uri("/"),
        "rows": rows,
        "reach": access.reach_for(request),
        "freshness": freshness.freshness(view_now()),
        "title": _("Tokens"),
    }
    return render(request, "console/tokens.html", context | frame("tokens"))


def _made(request: HttpRequest, form: TokenForm) -> str:
    """The text; empty with an error in the form."""
    who = request.user.get_username()
    try:
        _row, text = tokens.own_token_create(
            user=who,
            name=form.cleaned_data["name"],
            bounds=form.bounds(),
            days=form.cleaned_data["days"],
            operates=access.reach_for(request).operates,
            actor=who,
        )
    except InvalidInput as refusal:
        field = {"scopes": "scope"}.get(refusal.field, refusal.field)
        form.add_error(field if field in form.fields else None, refusal.told(_))
        return ""
    return text


def _revoked(request: HttpRequest) -> HttpResponse:
    row = ApiToken.objects.filter(user=request.user.pk, token_key=request.POST["revoke"]).first()
    if row is None:
        raise Http404("no such token of yours")
    tokens.token_revoke(digest=row.digest, reason="revoked on its owner's page", actor=request.user.get_username())
    messages.success(request, _("The token has ended."))
    return redirect("console:tokens")
