"""What was held and, by what was measured, not used, with its price, over REST."""

from __future__ import annotations

from typing import Any, Final

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import exceptions
from rest_framework import serializers as drf

from accounting.api.usage import ChargeShape, HeldTimeEndpoint, Question, charges, parameters
from accounting.selectors import usage_report, waste
from accounting.selectors.usage_report import Line
from accounting.selectors.waste import PodWaste

BY: Final = ("pod", *usage_report.BY)
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


@extend_schema_view(get=extend_schema(operation_id="waste", parameters=parameters(BY)))
class WasteEndpoint(HeldTimeEndpoint):
    """What was held of devices and, by what was measured, not used, the most first. What used no more than it held of
    memory or of cores, whichever is the larger part, wastes the difference."""

    serializer_class = WasteShape
    file_name = "waste"

    def lines(self, first: int, most: int | None) -> tuple[list[Any], int]:
        """By pod from what was measured itself, else from the hourly sums."""
        asked = self.question(BY)
        found = [_row(asked, line) for line in self._found(asked)]
        return found[first : None if most is None else first + most], len(found)

    def _found(self, asked: Question) -> list[Line] | list[PodWaste]:
        if asked.by != "pod":
            report = usage_report.usage_report(asked.view, self.reach, asked.window, by=asked.by, scope=asked.scope)
            return sorted(report.lines, key=lambda line: (-line.unused_us, line.parts))
        pods = waste.pods(asked.view, self.reach, asked.window, asked.scope)
        if pods is None:
            raise exceptions.ValidationError({"by": TOO_MANY})
        return pods


def _row(asked: Question, line: Line | PodWaste) -> dict[str, Any]:
    return {
        "since": asked.window.since,
        "until": asked.window.until,
        **_named(asked, line),
        "device_us": line.card_us,
        "measured_us": line.measured_us,
        "unused_us": line.unused_us,
        "cores_idle_us": line.unbusy_us,
        "charges": charges(line.cents),
        "unused_charges": charges(line.unused_cents),
    }


def _named(asked: Question, line: Line | PodWaste) -> dict[str, str]:
    if isinstance(line, PodWaste):
        return {
            "tenant": usage_report.tenant_of(asked.view, line.namespace),
            "namespace": line.namespace,
            "pod": line.name,
            "pod_uid": line.uid,
            "owner": line.owner,
            "vendor": "",
            "model": "",
        }
    return {"pod": "", "pod_uid": "", **usage_report.holder(asked.view, asked.by, line.parts)}
