"""Use over time with what it costs, over REST."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.utils.translation import gettext
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import exceptions
from rest_framework import serializers as drf

from accounting import ledger
from accounting.api import lists, rows
from accounting.selectors import usage_report, windows
from accounting.selectors.usage_report import Line, Report, Scope
from accounting.selectors.windows import Window
from hami_platform.domain.view import View


def parameters(by: tuple[str, ...]) -> list[OpenApiParameter]:
    """Of a HeldTimeEndpoint whose rows are for one of these."""
    return [
        OpenApiParameter("window", str, enum=windows.NAMES, description="Days of UTC. Default: 7d."),
        OpenApiParameter("from", str, description="The first day, as 2026-01-31, in place of `window`."),
        OpenApiParameter("to", str, description="The last day, included."),
        OpenApiParameter("by", str, enum=by, description="What a row is for. Default: namespace."),
        OpenApiParameter("namespace", str),
        OpenApiParameter("tenant", str, description="With all below it."),
        OpenApiParameter("model", str),
    ]


@dataclass(frozen=True, slots=True)
class Question:
    """Which days, what a row is for, and whose."""

    view: View
    window: Window
    by: str
    scope: Scope


class HeldTimeEndpoint(lists.LinesEndpoint):
    """What was held of devices on some days."""

    asked = ("window", "from", "to", "by", "namespace", "tenant", "model")

    def question(self, by: tuple[str, ...]) -> Question:
        """What the query asks. Raises PermissionDenied beyond the asker's reach, ValidationError by field."""
        asked = self.request.query_params
        scope = Scope(**{name: str(asked.get(name, "")) for name in ("namespace", "tenant", "model")})
        view, chosen = rows.view_now(), lists.choice(self.request, "by", by) or "namespace"
        if why := usage_report.beyond(view, self.reach, scope):
            raise PermissionDenied(why)
        try:
            window = windows.window_of(asked.dict(), ledger.database_time())
        except windows.BadWindow as bad:
            raise exceptions.ValidationError({bad.field: bad.sentence.text(gettext)}) from bad
        return Question(view, window, chosen, scope)


class ChargeShape(drf.Serializer[Any]):
    """What it costs in one currency."""

    currency = drf.CharField()
    cents = drf.IntegerField()


def charges(cents: dict[str, int]) -> list[dict[str, Any]]:
    """As ChargeShape, by currency."""
    return [{"currency": currency, "cents": amount} for currency, amount in sorted(cents.items())]


class UsageShape(drf.Serializer[Any]):
    """What one holder used; with `idle`, what nobody held. Fields that the row does not tell apart are empty."""

    since = drf.DateTimeField()
    until = drf.DateTimeField()
    idle = drf.BooleanField()
    tenant = drf.CharField()
    namespace = drf.CharField()
    owner = drf.CharField(help_text="Kind/name of the controller.")
    vendor = drf.CharField()
    model = drf.CharField()
    device_us = drf.IntegerField(help_text="Microseconds of whole devices; 3600000000 are one device hour.")
    memory_mib_s = drf.IntegerField(help_text="Held MiB times seconds; of the idle row: free.")
    core_percent_s = drf.IntegerField()
    measured_us = drf.IntegerField(help_text="Of device_us, while use was measured.")
    unused_us = drf.IntegerField(help_text="Of the measured time, held beyond what was used.")
    cores_idle_us = drf.IntegerField(help_text="Of the measured time, while the share's own cores did nothing.")
    charges = ChargeShape(many=True)
    unused_charges = ChargeShape(many=True, help_text="Of what was not used.")
    simulated = drf.BooleanField(help_text="Some of the report's hours are made up for a demonstration.")


@extend_schema_view(get=extend_schema(operation_id="usage", parameters=parameters(usage_report.BY)))
class UsageEndpoint(HeldTimeEndpoint):
    """Device time and charges by holder, most first; then what nobody held, for those who see everything. Charges and
    the idle row come to capacity × price."""

    serializer_class = UsageShape
    file_name = "usage"

    def lines(self, first: int, most: int | None) -> tuple[list[Any], int]:
        """From the hourly sums."""
        asked = self.question(usage_report.BY)
        report = usage_report.usage_report(asked.view, self.reach, asked.window, by=asked.by, scope=asked.scope)
        found = [_row(asked.view, report, line) for line in report.lines]
        if report.idle is not None:
            found.append(_row(asked.view, report, report.idle, idle=True))
        return found[first : None if most is None else first + most], len(found)


def _row(view: View, report: Report, line: Line, *, idle: bool = False) -> dict[str, Any]:
    parts = line.parts if not idle else ("",) * 2
    return {
        "since": report.window.since,
        "until": report.window.until,
        "idle": idle,
        **usage_report.holder(view, "model" if idle else report.by, parts),
        "device_us": line.card_us,
        "memory_mib_s": line.memory_mib_s,
        "core_percent_s": line.core_percent_s,
        "measured_us": line.measured_us,
        "unused_us": line.unused_us,
        "cores_idle_us": line.unbusy_us,
        "charges": charges(line.cents),
        "unused_charges": charges(line.unused_cents),
        "simulated": report.simulated,
    }
