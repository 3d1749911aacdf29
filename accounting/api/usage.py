"""Use over time with what it costs, and prices, over REST."""

from __future__ import annotations

from typing import Any, Final

from django.core.exceptions import PermissionDenied
from django.utils.translation import gettext
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import exceptions
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response

from accounting import ledger
from accounting.api import answers, lists, rows, serializers
from accounting.api.scopes import OperatorsWrite
from accounting.models import Price
from accounting.selectors import usage_report, windows
from accounting.selectors.usage_report import Line, Report, Scope
from accounting.services import attempts, prices
from hami_platform.domain.view import View

SET: Final = ("vendor", "model_pattern", "device_hour", "currency", "valid_from")
_ASKED: Final = (
    OpenApiParameter("window", str, enum=windows.NAMES, description="Days of UTC. Default: 7d."),
    OpenApiParameter("from", str, description="The first day, as 2026-01-31, in place of `window`."),
    OpenApiParameter("to", str, description="The last day, included."),
    OpenApiParameter("by", str, enum=usage_report.BY, description="What a row is for. Default: namespace."),
    OpenApiParameter("namespace", str),
    OpenApiParameter("tenant", str, description="With all below it."),
    OpenApiParameter("model", str),
)


class ChargeShape(drf.Serializer[Any]):
    """What it costs in one currency."""

    currency = drf.CharField()
    cents = drf.IntegerField()


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


@extend_schema_view(get=extend_schema(operation_id="usage", parameters=list(_ASKED)))
class UsageEndpoint(lists.LinesEndpoint):
    """Device time and charges by holder, most first; then what nobody held, for those who see everything. Charges and
    the idle row come to capacity × price."""

    serializer_class = UsageShape
    file_name = "usage"
    asked = ("window", "from", "to", "by", "namespace", "tenant", "model")

    def lines(self, first: int, most: int | None) -> tuple[list[Any], int]:
        """From the hourly sums."""
        view, report = rows.view_now(), self._report()
        found = [_row(view, report, line) for line in report.lines]
        if report.idle is not None:
            found.append(_row(view, report, report.idle, idle=True))
        return found[first : None if most is None else first + most], len(found)

    def _report(self) -> Report:
        asked = self.request.query_params
        scope = Scope(**{name: str(asked.get(name, "")) for name in ("namespace", "tenant", "model")})
        view, by = rows.view_now(), lists.choice(self.request, "by", usage_report.BY) or "namespace"
        if why := usage_report.beyond(view, self.reach, scope):
            raise PermissionDenied(why)
        try:
            window = windows.window_of(asked.dict(), ledger.database_time())
        except windows.BadWindow as bad:
            raise exceptions.ValidationError({bad.field: bad.sentence.text(gettext)}) from bad
        return usage_report.usage_report(view, self.reach, window, by=by, scope=scope)


def _row(view: View, report: Report, line: Line, *, idle: bool = False) -> dict[str, Any]:
    parts = line.parts if not idle else ("",) * 2
    charges, unused = (
        [{"currency": currency, "cents": amount} for currency, amount in sorted(cents.items())]
        for cents in (line.cents, line.unused_cents)
    )
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
        "charges": charges,
        "unused_charges": unused,
        "simulated": report.simulated,
    }


class PriceShape(drf.ModelSerializer[Price]):
    """A price of the vendor's models that match the pattern, from a day on."""

    class Meta:
        model = Price
        fields = ("id", *SET)


class PriceChange(drf.Serializer[Any]):
    """What is left out stays."""

    device_hour = drf.DecimalField(
        max_digits=12, decimal_places=4, min_value=0, required=False, help_text="Of a whole device for an hour."
    )
    currency = drf.RegexField("^[A-Za-z]{3}$", required=False)
    valid_from = drf.DateField(required=False)
    reason = drf.CharField(max_length=2000)


class PriceNew(PriceChange):
    """A price; one with the same vendor, pattern and day must not be there yet."""

    vendor = drf.CharField(max_length=32)
    model_pattern = drf.CharField(max_length=128, help_text="Shell-style, in any case.")
    device_hour = drf.DecimalField(max_digits=12, decimal_places=4, min_value=0)
    valid_from = drf.DateField()


class PricesEndpoint(OperatorsWrite, lists.ListEndpoint):
    """Prices by model, with the days from which they hold."""

    serializer_class = PriceShape
    queryset = Price.objects.none()
    search_fields = ("model_pattern",)
    ordering_fields = ("vendor", "model_pattern", "valid_from", "device_hour")
    file_name = "prices"
    asked = ()

    def get_queryset(self) -> Any:
        return rows.ours(Price) if self.reach else Price.objects.none()

    @extend_schema(operation_id="price_add", request=PriceNew, responses={201: PriceShape})
    def post(self, request: Request) -> Response:
        """A new price."""
        form = PriceNew(data=request.data)
        form.is_valid(raise_exception=True)

        def act() -> attempts.Answer:
            row = prices.price_set(**form.validated_data, actor=self.actor, new=True)
            self.state = _state(row)
            return attempts.Answer(201, dict(PriceShape(row).data))

        return self.changed(act, cause="price_set")


class PriceEndpoint(OperatorsWrite):
    """One price."""

    asked = ()

    @extend_schema(operation_id="price", responses=PriceShape)
    def get(self, request: Request, price_id: int) -> Response:
        """By id."""
        row = self._row(price_id)
        self.state = _state(row)
        return Response(PriceShape(row).data)

    @extend_schema(operation_id="price_change", request=PriceChange, responses=PriceShape)
    def patch(self, request: Request, price_id: int) -> Response:
        """Another amount, currency or day."""
        form = PriceChange(data=request.data)
        form.is_valid(raise_exception=True)

        def act() -> attempts.Answer:
            row = self._row(price_id)
            self.matched(_state(row))
            values = {name: getattr(row, name) for name in SET} | form.validated_data
            changed = prices.price_set(**values, actor=self.actor, price_id=row.pk)
            self.state = _state(changed)
            return attempts.Answer(200, dict(PriceShape(changed).data))

        return self.changed(act, cause="price_set")

    @extend_schema(operation_id="price_delete", request=serializers.Reason, responses={204: None})
    def delete(self, request: Request, price_id: int) -> Response:
        """Its history stays."""
        reason = serializers.reason_of(request)

        def act() -> attempts.Answer:
            row = self._row(price_id)
            self.matched(_state(row))
            prices.price_delete(price_id=row.pk, reason=reason, actor=self.actor)
            return attempts.Answer(204, None)

        return self.changed(act, cause="price_delete")

    def _row(self, price_id: int) -> Price:
        row = rows.ours(Price).filter(pk=price_id).first() if self.reach else None
        price: Price = rows.found(row, f"no price {price_id}")
        return price


def _state(row: Price) -> str:
    return answers.state_of({name: str(getattr(row, name)) for name in SET})
