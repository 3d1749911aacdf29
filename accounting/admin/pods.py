"""Pods and their shares: shown, and released by hand with a reason. All else about them follows from the cluster."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounting import ledger, live_view
from accounting.admin.console import ReadAdmin, ReasonActionForm, actor_of, held_text, reason_of, site, told
from accounting.models import NodeLock, Pod, PodState, Refusal, Share
from accounting.selectors import access, words
from accounting.services import releases
from accounting.services.errors import InvalidInput


class ShareInline(admin.TabularInline):
    """What each container was given."""

    model = Share
    extra = 0
    can_delete = False
    fields = ("container", "kind", "vendor", "uuid", "model", "memory_mib", "core_percent", "mig_profile")
    readonly_fields = fields

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return access.reach_for(request).everything

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Pod, site=site)
class PodAdmin(ReadAdmin):
    """Pods that ask for devices, and claims of pods not seen yet."""

    action_form = ReasonActionForm
    list_display = ("__str__", "state", "node", "priority", "state_at")
    list_filter = ("state", "gated", "suspended", "unmanaged")
    search_fields = ("name", "namespace", "uid", "owner")
    fields = (
        "namespace", "name", "uid", "claim_id", "owner", "state", "state_at", "node", "held_now", "refusal_now",
        "lease_until", "priority", "gated", "suspended", "unmanaged", "aligned", "bind_attempt",
        "request", "facts", "wire", "resource_version", "created_at", "ended_at",
    )  # fmt: skip
    readonly_fields = fields
    inlines = (ShareInline,)
    actions = ("release", "release_by_force")

    @admin.display(description=_("held now"))
    def held_now(self, row: Pod) -> SafeString | str:
        """What it holds per device, from the View."""
        found = live_view.live().refresh().pods.get(row.pk)
        lines = [
            (uuid, held_text(held.memory_mib, held.core_percent, held.slots))
            for (_vendor, uuid), held in (found.held.items() if found else ())
        ]
        return format_html_join("\n", "<div>{}: {}</div>", lines) or gettext("nothing")

    @admin.display(description=_("last refusal"))
    def refusal_now(self, row: Pod) -> str:
        """Why `/filter` refused it last."""
        if row.state == PodState.ENDED or not row.uid:
            return ""
        refusals = Refusal.objects.filter(cluster=row.cluster_id, pod_uid=row.uid)
        return words.told(refusals.values_list("summary", flat=True).first() or "")

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Who may release."""
        return access.reach_for(request).operates

    @admin.action(description=_("Release what unbound pods hold, with the reason given"), permissions=("operate",))
    def release(self, request: HttpRequest, queryset: QuerySet[Pod]) -> None:
        """Give back claims and reservations."""
        self._release(request, queryset, force=False)

    @admin.action(
        description=_("Release also from running pods (by force), with the reason given"), permissions=("operate",)
    )
    def release_by_force(self, request: HttpRequest, queryset: QuerySet[Pod]) -> None:
        """Stop counting what the pods hold, though they may still use it. Raises a finding each."""
        self._release(request, queryset, force=True)

    def _release(self, request: HttpRequest, queryset: QuerySet[Pod], *, force: bool) -> None:
        pods = list(queryset.values_list("pk", flat=True))
        try:
            with ledger.transaction(cause="pods_release", actor=actor_of(request)):
                for pk in pods:
                    releases.pod_release(pod_id=pk, reason=reason_of(request), actor=actor_of(request), force=force)
        except InvalidInput as refusal:
            self.message_user(request, told(refusal), messages.ERROR)
        else:
            self.message_user(request, gettext("%(n)s released.") % {"n": len(pods)}, messages.SUCCESS)


@admin.register(NodeLock, site=site)
class NodeLockAdmin(ReadAdmin):
    """Who may allocate on a node now."""

    list_display = ("node", "pod_uid", "mode", "first_seen_at", "stale")
    search_fields = ("node", "pod_uid")
