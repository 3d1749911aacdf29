"""Nodes and devices as observed, with what people decide about devices, and people's holds on them."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounting import ledger, live_view
from accounting.admin.console import HistoryAdmin, ReadAdmin, actor_of, held_text, reason_of, site
from accounting.models import Device, Hold, Node
from accounting.services import devices, holds


@admin.register(Node, site=site)
class NodeAdmin(ReadAdmin):
    """Nodes that have, or had, devices."""

    told = ("problem", "accounting_unknown")
    list_display = ("name", "agent", "retired", "unschedulable", "problem", "accounting_unknown")
    list_filter = ("retired", "unschedulable")
    search_fields = ("name", "uid")


@admin.register(Device, site=site)
class DeviceAdmin(HistoryAdmin):
    """Devices: what the node's plugin registers cannot be edited, what people decide can."""

    adds = False  # devices come from nodes, not from people
    deletes = False
    list_display = (
        "__str__", "model", "memory_mib", "held_now", "slots", "healthy", "registered",
        "cordoned", "reserved_mib", "note",
    )  # fmt: skip
    list_editable = ("cordoned", "reserved_mib", "note")
    list_filter = ("vendor", "model", "healthy", "cordoned", "registered")
    list_select_related = ("node",)
    search_fields = ("uuid", "node__name", "note")
    readonly_fields = ("node", "vendor", "uuid", *Device.OBSERVED, "held_now")
    fields = ("cordoned", "reserved_mib", "note", "reason", *readonly_fields)
    actions = ("cordon", "uncordon")

    @admin.display(description=_("held now"))
    def held_now(self, row: Device) -> str:
        """What pods and people hold of it, from the View."""
        state = live_view.live().now.states.get(row.node.name)
        for one in state.devices if state else ():
            if one.device.key == (row.vendor, row.uuid):
                return held_text(one.held.memory_mib, one.held.core_percent, one.held.slots)
        return "—"

    def write(self, request: HttpRequest, row: Device, data: dict[str, Any], *, new: bool) -> Model:
        columns = {name: data[name] for name in Device.HUMAN if name in data}
        return devices.device_edit(
            node=row.node.name,
            vendor=row.vendor,
            uuid=row.uuid,
            reason=data["reason"],
            actor=actor_of(request),
            **columns,
        )

    @admin.action(description=_("Cordon, with the reason given"), permissions=("change",))
    def cordon(self, request: HttpRequest, queryset: QuerySet[Device]) -> None:
        """Place nothing new on the chosen devices."""
        self._cordon(request, queryset, cordoned=True)

    @admin.action(description=_("Uncordon, with the reason given"), permissions=("change",))
    def uncordon(self, request: HttpRequest, queryset: QuerySet[Device]) -> None:
        """Allow new shares on the chosen devices again."""
        self._cordon(request, queryset, cordoned=False)

    def _cordon(self, request: HttpRequest, queryset: QuerySet[Device], *, cordoned: bool) -> None:
        rows = list(queryset.select_related("node"))
        with ledger.transaction(cause="devices_cordon", actor=actor_of(request)):
            for row in rows:
                self.write(request, row, {"cordoned": cordoned, "reason": reason_of(request)}, new=False)
        done = gettext("%(n)s cordoned.") if cordoned else gettext("%(n)s uncordoned.")
        self.message_user(request, done % {"n": len(rows)}, messages.SUCCESS)


@admin.register(Hold, site=site)
class HoldAdmin(HistoryAdmin):
    """People's own reservations. Deleting one ends it; its row stays as a record."""

    list_display = ("device", "memory_mib", "core_percent", "slots", "in_force", "expires_at", "created_by", "reason")
    list_filter = ("in_force",)
    list_select_related = ("device__node",)
    search_fields = ("device__uuid", "device__node__name", "reason", "created_by")
    raw_id_fields = ("device",)
    fields = ("device", "memory_mib", "core_percent", "slots", "expires_at", "reason")

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        """A hold stays on its device."""
        return () if obj is None else ("device",)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """One that has ended is only shown."""
        return super().has_change_permission(request, obj) and (obj is None or obj.in_force)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and (obj is None or obj.in_force)

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> forms.Field | None:
        """Amounts that are not held may stay empty."""
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if field is not None and db_field.name in ("memory_mib", "core_percent", "slots"):
            field.required = False
        return field

    def write(self, request: HttpRequest, row: Hold, data: dict[str, Any], *, new: bool) -> Model:
        amounts = holds.Amounts(data["memory_mib"] or 0, data["core_percent"] or 0, data["slots"] or 0)
        change: dict[str, Any] = {"amounts": amounts, "expires_at": data["expires_at"]}
        change |= {"reason": data["reason"], "actor": actor_of(request)}
        if not new:
            return holds.hold_change(hold_id=row.pk, **change)
        device = data["device"]
        return holds.hold_add(node=device.node.name, vendor=device.vendor, uuid=device.uuid, **change)

    def remove(self, request: HttpRequest, row: Hold, reason: str) -> None:
        holds.hold_end(hold_id=row.pk, reason=reason, actor=actor_of(request))
