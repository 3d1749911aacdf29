"""What was held and, by what was measured, not used, with its price, over REST."""

from __future__ import annotations

from typing import Any, Final

from django.core.exceptions import PermissionDenied
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import exceptions
from rest_framework import serializers as drf

from accounting import ledger
from accounting.api import lists, rows
from accounting.api.usage import ChargeShape
from accounting.selectors import usage_report, waste, windows
from accounting.selectors.usage_report import Line, Scope
from accounting.selectors.waste import PodWaste
from accounting.selectors.windows import Window
from hami_platform.domain.view import View

BY: Final = ("pod", *usage_report.BY)
ASKED: Final = (
    OpenApiParameter("window", str, enum=windows.NAMES, description="Days of UTC. Default: 7d."),
    OpenApiParameter("from", str, description="The first day, as 2026-01-31, in place of `window`."),
    OpenApiParameter("to", str, description="The last day, included."),
    OpenApiParameter("by", str, enum=BY, description="What a row is for. Default: namespace."),
    OpenApiParameter("namespace", str),
    OpenApiParameter("tenant", str, description="With all below it."),
    OpenApiParameter("model", str),
)
TOO_MANY: Final = "too many pods were measured to look at each: name a namespace, or fewer days"


class WasteShape(drf.Serializer[Any]):
    """What one holder held and did not use. Fields that the row does not tell apart are empty."""

    since = drf.DateTimeField()
    until = drf.DateTimeField()
    tenant = drf.CharField()
    namespace = drf.CharField()
    pod = drf.CharField()
    pod_uid = drf.CharField()
    owner = drf.CharField(help_text="Kind/name of the controller.")
    vendor = drf.CharField()
    model = drf.CharField()
    device_us = drf.IntegerField(help_text="Held: microseconds of whole devices.")
    measured_us = drf.IntegerField(help_text="Of that, while use was measured; of the rest nothing is said.")
    unused_us = drf.IntegerField(help_text="Of the measured time, beyond the larger of the measured parts.")
    cores_idle_us = drf.IntegerField(help_text="Of the measured time, while the share's own cores did nothing.")
    charges = ChargeShape(many=True)
    unused_charges = ChargeShape(many=True, help_text="Of what was not used.")


@extend_schema_view(get=extend_schema(operation_id="waste", parameters=list(ASKED)))
class WasteEndpoint(lists.LinesEndpoint):
    """What was held of devices and, by what was measured, not used, the most first. What used no more than it held of
    memory or of cores, whichever is the larger part, wastes the difference."""

    serializer_class = WasteShape
    file_name = "waste"
    asked = ("window", "from", "to", "by", "namespace", "tenant", "model")

    def lines(self, first: int, most: int | None) -> tuple[list[Any], int]:
        """By pod from what was measured itself, else from the hourly sums."""
        asked = self.request.query_params
        scope = Scope(**{name: str(asked.get(name, "")) for name in ("namespace", "tenant", "model")})
        view, by = rows.view_now(), lists.choice(self.request, "by", BY) or "namespace"
        if why := usage_report.beyond(view, self.reach, scope):
            raise PermissionDenied(why)
        try:
            window = windows.window_of(asked.dict(), ledger.database_time())
        except windows.BadWindow as bad:
            raise exceptions.ValidationError({bad.field: str(bad.sentence)}) from bad
        found = [_row(view, window, by, line) for line in self._found(view, window, by, scope)]
        return found[first : None if most is None else first + most], len(found)

    def _found(self, view: View, window: Window, by: str, scope: Scope) -> list[Line] | list[PodWaste]:
        if by != "pod":
            report = usage_report.usage_report(view, self.reach, window, by=by, scope=scope)
            return sorted(report.lines, key=lambda line: (-line.unused_us, line.parts))
        pods = waste.pods(view, self.reach, window, scope)
        if pods is None:
            raise exceptions.ValidationError({"by": TOO_MANY})
        return pods


def _row(view: View, window: Window, by: str, line: Line | PodWaste) -> dict[str, Any]:
    return {
        "since": window.since,
        "until": window.until,
        **_named(view, by, line),
        "device_us": line.card_us,
        "measured_us": line.measured_us,
        "unused_us": line.unused_us,
        "cores_idle_us": line.unbusy_us,
        "charges": charges(line.cents),
        "unused_charges": charges(line.unused_cents),
    }


def charges(cents: dict[str, int]) -> list[dict[str, Any]]:
    """By currency."""
    return [{"currency": currency, "cents": amount} for currency, amount in sorted(cents.items())]


def _named(view: View, by: str, line: Line | PodWaste) -> dict[str, str]:
    if isinstance(line, PodWaste):
        return {
            "tenant": usage_report.tenant_of(view, line.namespace),
            "namespace": line.namespace,
            "pod": line.name,
            "pod_uid": line.uid,
            "owner": line.owner,
            "vendor": "",
            "model": "",
        }
    return {"pod": "", "pod_uid": "", **usage_report.holder(view, by, line.parts)}
