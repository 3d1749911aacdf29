"""Prices by model, over REST."""

from __future__ import annotations

from typing import Any, Final

from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response

from accounting.api import answers, lists, rows, serializers
from accounting.api.scopes import OperatorsWrite
from accounting.models import Price
from accounting.services import attempts, prices

SET: Final = ("vendor", "model_pattern", "device_hour", "currency", "valid_from")


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
