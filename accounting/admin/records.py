"""What happened and what was found: journal, decisions, denied asks, findings. Only findings can be settled."""

from __future__ import annotations

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounting import ledger
from accounting.admin.console import ReadAdmin, ReasonActionForm, ToldFilter, actor_of, reason_of, site, told
from accounting.models import AccessRecord, DeniedAsk, Finding, Journal, Trace
from accounting.selectors import access, finding_words
from accounting.services import findings
from accounting.services.errors import InvalidInput


@admin.register(Journal, site=site)
class JournalAdmin(ReadAdmin):
    """Every change of the ledger, newest first."""

    ordering = ("-revision", "-seq")
    told = ("kind",)
    list_display = ("revision", "at", "kind", "key", "cause", "actor", "values")
    list_filter = (("kind", ToldFilter), "cause")
    search_fields = ("key", "actor", "cause")


@admin.register(Trace, site=site)
class TraceAdmin(ReadAdmin):
    """Decisions about pods, with their reasons."""

    told = ("verdict", "summary")
    list_display = ("last_at", "namespace", "pod_name", "verdict", "reason", "summary", "times")
    list_filter = (("verdict", ToldFilter), "reason")
    search_fields = ("namespace", "pod_name", "pod_uid")


@admin.register(DeniedAsk, site=site)
class DeniedAskAdmin(ReadAdmin):
    """Pods that admission denied for quota; they do not exist."""

    told = ("message",)
    list_display = ("last_at", "namespace", "owner", "message", "times")
    search_fields = ("namespace", "owner")


@admin.register(Finding, site=site)
class FindingAdmin(ReadAdmin):
    """Drift between the ledger and the cluster."""

    action_form = ReasonActionForm
    actions = ("settle",)
    told = ("message", "repair")
    list_display = ("last_seen_at", "kind", "subject", "message", "mends", "repaired_at", "repair")
    list_filter = ("kind", ("repaired_at", admin.EmptyFieldListFilter))
    search_fields = ("subject", "message")

    @admin.display(description=_("what mends it"))
    def mends(self, row: Finding) -> str:
        """By kind."""
        return finding_words.told(row).mends

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Who may settle."""
        return access.reach_for(request).operates

    @admin.action(description=_("Settle: dealt with, with the reason given"), permissions=("operate",))
    def settle(self, request: HttpRequest, queryset: QuerySet[Finding]) -> None:
        """Close the chosen ones, all or none."""
        chosen = list(queryset.values_list("pk", flat=True))
        try:
            with ledger.transaction(cause="findings_settle", actor=actor_of(request)):
                for pk in chosen:
                    findings.finding_settle(finding_id=pk, reason=reason_of(request), actor=actor_of(request))
        except InvalidInput as refusal:
            self.message_user(request, told(refusal), messages.ERROR)
        else:
            self.message_user(request, gettext("%(n)s settled.") % {"n": len(chosen)}, messages.SUCCESS)


@admin.register(AccessRecord, site=site)
class AccessRecordAdmin(ReadAdmin):
    """Sign-ins, tokens in use, and refused changes: for operators and auditors."""

    list_display = ("at", "kind", "who", "how", "what", "address", "times")
    list_filter = ("kind",)
    search_fields = ("who", "what", "address")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return access.reach_for(request).audits

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return access.reach_for(request).audits
