"""The admin site, and the base of every admin on it. It must not know any model in particular.

Nothing here saves a row: `write` and `remove` of each admin call a service, which may refuse with InvalidInput.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial, wraps
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.response import TemplateResponse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from simple_history.admin import SimpleHistoryAdmin

from accounting import ledger
from accounting.selectors import access, words
from accounting.services.errors import InvalidInput

COUNTED = 10_000


class ConsoleSite(admin.AdminSite):
    """The admin for those who see the whole cluster: operators, who change it, and auditors and viewers, who do not."""

    site_header = _("GPU quota platform")
    site_title = _("GPU quota platform")
    index_title = _("Ledger and people")
    enable_nav_sidebar = True

    def has_permission(self, request: HttpRequest) -> bool:
        """Whether who asks sees everything."""
        return access.reach_for(request).everything

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """As usual; while the ledger is unavailable, a page that says so."""
        inner = super().admin_view(view, cacheable)

        @wraps(inner)
        def answered(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            try:
                answer: HttpResponse = inner(request, *args, **kwargs)
            except ledger.LedgerUnavailable as fault:
                return render(request, "console/unavailable.html", {"fault": fault}, status=503)
            return answer

        return answered


site = ConsoleSite(name="admin")


class BoundedPaginator(Paginator):
    """Counts no further than anybody pages, so that a big table's list costs the same as a small one's."""

    @cached_property
    def count(self) -> int:
        """Rows, at most COUNTED."""
        rows: Any = self.object_list
        return int(rows.order_by()[:COUNTED].count()) if isinstance(rows, QuerySet) else len(rows)


class ReasonForm(forms.ModelForm):
    """A form whose change is kept with a reason, and that shows what the service refused."""

    refusal: InvalidInput | None = None
    reason = forms.CharField(
        label=_("Reason"),
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 2, "cols": 60}),
        help_text=_("Why. Kept with the change in the history."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["reason"] = ""

    def clean(self) -> dict[str, Any]:
        """Tell the refusal at its field."""
        data = super().clean() or self.cleaned_data
        if self.refusal is not None:
            named = self.refusal.field in self.fields
            self.add_error(
                self.refusal.field if named else None, told(self.refusal, named=not named, model=self._meta.model)
            )
        return data


class ReasonActionForm(helpers.ActionForm):
    """The action bar asks for the reason of whatever is run or saved in the list."""

    reason = forms.CharField(required=False, max_length=2000, label=_("Reason"))


class OnlyReason(forms.Form):
    """What a deletion asks for."""

    reason = forms.CharField(label=_("Reason"), max_length=2000, widget=forms.Textarea(attrs={"rows": 2, "cols": 60}))


class ReadAdmin(admin.ModelAdmin):
    """An admin that only shows. Whoever sees the whole cluster may look."""

    show_full_result_count = False
    paginator = BoundedPaginator
    list_per_page = 50
    actions: Any = ()
    told: tuple[str, ...] = ()
    """Columns whose words or sentences are shown in the reader's language."""

    def get_list_display(self, request: HttpRequest) -> Any:
        """As usual, told."""
        return self._told(super().get_list_display(request))

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """As usual, told."""
        return self._told(super().get_fields(request, obj))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """As usual, told."""
        return self._told((*super().get_readonly_fields(request, obj), *self.told))

    def _told(self, names: Any) -> list[Any]:
        return list(dict.fromkeys(self._columns.get(name, name) for name in names))

    @cached_property
    def _columns(self) -> dict[Any, Callable[[Model], str]]:
        return {name: _told_column(self.model, name) for name in self.told}

    def has_module_permission(self, request: HttpRequest) -> bool:
        return access.reach_for(request).everything

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return access.reach_for(request).everything

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class ToldFilter(admin.AllValuesFieldListFilter):
    """A filter by words that rows say, in the reader's language."""

    def choices(self, changelist: Any) -> Any:
        """As usual, told."""
        for one in super().choices(changelist):
            yield {**one, "display": words.told(str(one["display"]))}


def _told_column(model: type[Model], name: str) -> Callable[[Model], str]:
    @admin.display(description=model._meta.get_field(name).verbose_name, ordering=name)  # type: ignore[union-attr]
    def shown(row: Model) -> str:
        return words.told(getattr(row, name))

    return shown


class LedgerAdmin(ReadAdmin):
    """An admin whose every change is a service call with a reason."""

    form = ReasonForm
    action_form = ReasonActionForm
    adds = True
    deletes = True
    changes = True

    def write(self, request: HttpRequest, row: Any, data: dict[str, Any], *, new: bool) -> Model:
        """Call the service that makes or changes the row; `data` are the form's entries with `reason`."""
        raise NotImplementedError

    def remove(self, request: HttpRequest, row: Any, reason: str) -> None:
        """Call the service that takes the row away."""
        raise NotImplementedError

    # -- Who may

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.adds and access.reach_for(request).operates

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.changes and access.reach_for(request).operates

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.deletes and access.reach_for(request).operates

    # -- Forms

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """The form class, made for this request, with what the service refused a moment ago."""
        form: Any = super().get_form(request, obj, change=change, **kwargs)
        form.refusal = getattr(request, "refusal", None)
        return form

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """As usual; a refusal is shown in the form."""
        return _shown_again(request, partial(super().changeform_view, request, *args, **kwargs))

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """As usual; a refusal of what was edited or run in the list is a message."""
        try:
            return super().changelist_view(request, extra_context)
        except InvalidInput as refusal:
            self.message_user(request, told(refusal), messages.ERROR)
            return redirect(request.get_full_path())

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Through the service; the object then shows what was written."""
        data = dict(form.cleaned_data)
        data.setdefault("reason", reason_of(request))
        row = self.write(request, obj, data, new=not change)
        obj.pk = row.pk
        obj._state.adding = False
        obj.refresh_from_db()

    # -- Deleting

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """A page that asks for the reason, then deletes through the service."""
        row = self.get_object(request, unquote(object_id))
        if row is None:
            raise Http404(f"no {self.opts.verbose_name} {object_id}")
        if not self.has_delete_permission(request, row):
            raise PermissionDenied
        form = OnlyReason(request.POST or None)
        if form.is_valid():
            shown = str(row)
            try:
                self.delete_model(request, row)
            except InvalidInput as refusal:
                form.add_error(None, told(refusal))
            else:
                self.message_user(request, gettext("%(name)s was deleted.") % {"name": shown}, messages.SUCCESS)
                return redirect(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist")
        return self._reason_asked(request, row, form)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Through the service."""
        self.remove(request, obj, reason_of(request))

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        """All or none, through the service."""
        with ledger.transaction(cause="delete_selected", actor=actor_of(request)):
            for row in queryset:
                self.delete_model(request, row)

    def get_actions(self, request: HttpRequest) -> Any:
        """Deleting needs a reason, so Django's own action goes and ours comes."""
        actions: dict[str, Any] = super().get_actions(request)
        actions.pop("delete_selected", None)
        if self.has_delete_permission(request):
            actions["remove_selected"] = (
                remove_selected,
                "remove_selected",
                _("Delete selected, with the reason given"),
            )
        return actions

    def _reason_asked(self, request: HttpRequest, row: Any, form: forms.Form) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": gettext("Delete %(kind)s %(name)s") % {"kind": self.opts.verbose_name, "name": row},
            "opts": self.opts,
            "object": row,
            "form": form,
        }
        return TemplateResponse(request, "admin/reason_confirmation.html", context)


class HistoryAdmin(LedgerAdmin, SimpleHistoryAdmin):
    """A LedgerAdmin whose rows have a history. Going back to an earlier state is a change like any other."""

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """As usual; an id that is none is not found."""
        if not object_id.isascii() or not object_id.isdigit():
            raise Http404(f"no {self.opts.verbose_name} {object_id}")
        answer: HttpResponse = super().history_view(request, object_id, extra_context)
        return answer

    def history_form_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """As usual; the revert goes through `write`, and a refusal is shown in the form."""
        return _shown_again(request, partial(super().history_form_view, request, *args, **kwargs))


def remove_selected(modeladmin: LedgerAdmin, request: HttpRequest, queryset: QuerySet[Any]) -> None:
    """Delete the chosen rows through their service."""
    count = queryset.count()
    modeladmin.delete_queryset(request, queryset)
    modeladmin.message_user(
        request, ngettext("%(n)s deleted.", "%(n)s deleted.", count) % {"n": count}, messages.SUCCESS
    )


def told(refusal: InvalidInput, *, named: bool = True, model: type[Model] | None = None) -> str:
    """What a service refused, in the reader's language; `named` with the entry's name before it, which is the column's
    where it is one of the model's."""
    text = refusal.told(gettext)
    columns = {one.name: one.verbose_name for one in model._meta.fields} if model is not None else {}
    return f"{columns.get(refusal.field, refusal.field)}: {text}" if named and refusal.field else text


def held_text(memory_mib: int, core_percent: int, slots: int) -> str:
    """Amounts that are held of a device, in one line."""
    amounts = {"mib": memory_mib, "cores": core_percent, "shares": slots}
    return gettext("%(mib)s MiB · %(cores)s %% · %(shares)s shares") % amounts


def actor_of(request: HttpRequest) -> str:
    """The name under which the change is journaled."""
    return request.user.get_username()


def reason_of(request: HttpRequest) -> str:
    """The reason given in the list's action bar or on the deletion page."""
    return request.POST.get("reason", "")


def _shown_again(request: HttpRequest, view: Callable[[], HttpResponse]) -> HttpResponse:
    """The answer of the view; after a refusal, the form again with what was refused."""
    try:
        return view()
    except InvalidInput as refusal:
        request.refusal = refusal  # type: ignore[attr-defined]
        return view()
