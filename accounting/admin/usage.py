"""Prices, and who held what from when until when."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from accounting.admin.console import HistoryAdmin, ReadAdmin, actor_of, site
from accounting.models import Price, UsageHour, UsageInterval
from accounting.services import prices


@admin.register(Price, site=site)
class PriceAdmin(HistoryAdmin):
    """What a device of a model costs per hour, from a day on."""

    list_display = ("vendor", "model_pattern", "device_hour", "currency", "valid_from")
    list_filter = ("vendor",)
    search_fields = ("model_pattern",)
    fields = ("vendor", "model_pattern", "device_hour", "currency", "valid_from", "reason")

    def write(self, request: HttpRequest, row: Price, data: dict[str, Any], *, new: bool) -> Model:
        return prices.price_set(
            vendor=data["vendor"],
            model_pattern=data["model_pattern"],
            device_hour=data["device_hour"],
            currency=data["currency"],
            valid_from=data["valid_from"],
            reason=data["reason"],
            actor=actor_of(request),
            price_id=None if new else row.pk,
            new=new,
        )

    def remove(self, request: HttpRequest, row: Price, reason: str) -> None:
        prices.price_delete(price_id=row.pk, reason=reason, actor=actor_of(request))


@admin.register(UsageInterval, site=site)
class UsageIntervalAdmin(ReadAdmin):
    """Who held what, from when until when."""

    list_display = ("namespace", "pod_name", "node", "uuid", "memory_mib", "core_percent", "started_at", "ended_at")
    list_filter = ("vendor", "simulated")
    search_fields = ("namespace", "pod_name", "uuid")


@admin.register(UsageHour, site=site)
class UsageHourAdmin(ReadAdmin):
    """Use of one model by one namespace in one hour."""

    list_display = ("hour", "namespace", "vendor", "model", "slot_s", "memory_mib_s", "core_percent_s", "simulated")
    list_filter = ("vendor", "simulated")
    search_fields = ("namespace", "model")
