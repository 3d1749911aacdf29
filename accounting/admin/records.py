"""What happened and what was found: journal, decisions, denied asks, findings. Read only."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from accounting.admin.console import ReadAdmin, site
from accounting.models import AccessRecord, DeniedAsk, Finding, Journal, Trace
from accounting.selectors import access


@admin.register(Journal, site=site)
class JournalAdmin(ReadAdmin):
    """Every change of the ledger, newest first."""

    ordering = ("-revision", "-seq")
    list_display = ("revision", "at", "kind", "key", "cause", "actor", "values")
    list_filter = ("kind", "cause")
    search_fields = ("key", "actor", "cause")


@admin.register(Trace, site=site)
class TraceAdmin(ReadAdmin):
    """Decisions about pods, with their reasons."""

    list_display = ("last_at", "namespace", "pod_name", "verdict", "reason", "summary", "times")
    list_filter = ("verdict", "reason")
    search_fields = ("namespace", "pod_name", "pod_uid")


@admin.register(DeniedAsk, site=site)
class DeniedAskAdmin(ReadAdmin):
    """Pods that admission denied for quota; they do not exist."""

    list_display = ("last_at", "namespace", "owner", "message", "times")
    search_fields = ("namespace", "owner")


@admin.register(Finding, site=site)
class FindingAdmin(ReadAdmin):
    """Drift between the ledger and the cluster."""

    list_display = ("last_seen_at", "kind", "subject", "message", "repaired_at", "repair")
    list_filter = ("kind", ("repaired_at", admin.EmptyFieldListFilter))
    search_fields = ("subject", "message")


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
