"""Holds over REST: parts of devices that a person reserves. Changes are for operators."""

from __future__ import annotations

from typing import Any

from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response

from accounting.api import answers, rows, serializers
from accounting.api.lists import ListEndpoint
from accounting.api.scopes import OperatorsWrite
from accounting.models import Device, Hold
from accounting.services import attempts, errors, holds

AMOUNT: dict[str, Any] = {"required": False, "min_value": 0, "max_value": 2**63 - 1}
SET = ("memory_mib", "core_percent", "slots", "expires_at")


class HoldShape(drf.ModelSerializer[Hold]):
    """A hold: use of its device, of no namespace."""

    node = drf.CharField(source="device.node.name")
    vendor = drf.CharField(source="device.vendor")
    uuid = drf.CharField(source="device.uuid")

    class Meta:
        model = Hold
        fields = ("id", "node", "vendor", "uuid", *SET, "in_force", "reason", "created_by")


class HoldChange(drf.Serializer[Any]):
    """What is left out stays; a new hold has nothing of it."""

    memory_mib = drf.IntegerField(help_text="MiB, not bytes: 16 GiB is 16384.", **AMOUNT)
    core_percent = drf.IntegerField(**AMOUNT)
    slots = drf.IntegerField(**AMOUNT)
    expires_at = drf.DateTimeField(required=False, allow_null=True, help_text="null: until somebody ends it.")
    reason = drf.CharField(max_length=2000)


class HoldNew(HoldChange):
    """A hold of a part of one device."""

    uuid = drf.CharField(max_length=128, help_text="Of the device.")
    node = drf.CharField(max_length=253, required=False, default="", help_text="Where several have this uuid.")


class HoldFilter(filters.FilterSet):
    """By device; in force or ended."""

    node = filters.CharFilter(field_name="device__node__name")
    uuid = filters.CharFilter(field_name="device__uuid")

    class Meta:
        model = Hold
        fields = ("in_force", "created_by")


class HoldsEndpoint(OperatorsWrite, ListEndpoint):
    """Holds, those that have ended too."""

    serializer_class = HoldShape
    queryset = Hold.objects.none()
    filterset_class = HoldFilter
    search_fields = ("reason", "device__uuid")
    ordering_fields = ("id", "memory_mib", "expires_at")
    file_name = "holds"
    asked = ()

    def get_queryset(self) -> Any:
        return _holds() if self.reach else Hold.objects.none()

    @extend_schema(operation_id="hold_add", request=HoldNew, responses={201: HoldShape})
    def post(self, request: Request) -> Response:
        """Reserve a part of a device. It may exceed what is free now: then nothing new is placed."""
        form = HoldNew(data=request.data)
        form.is_valid(raise_exception=True)
        data = form.validated_data

        def act() -> attempts.Answer:
            device = _device(data["uuid"], data["node"])
            row = holds.hold_add(
                node=device.node.name,
                vendor=device.vendor,
                uuid=device.uuid,
                amounts=_amounts(data),
                expires_at=data.get("expires_at"),
                reason=data["reason"],
                actor=self.actor,
            )
            self.state = _state(row)
            return attempts.Answer(201, dict(HoldShape(row).data))

        return self.changed(act, cause="hold_add")


class HoldEndpoint(OperatorsWrite):
    """One hold."""

    asked = ()

    @extend_schema(operation_id="hold", responses=HoldShape)
    def get(self, request: Request, hold_id: int) -> Response:
        """By id."""
        row = self._row(hold_id)
        self.state = _state(row)
        return Response(HoldShape(row).data)

    @extend_schema(operation_id="hold_change", request=HoldChange, responses=HoldShape)
    def patch(self, request: Request, hold_id: int) -> Response:
        """Another amount, or another end."""
        form = HoldChange(data=request.data)
        form.is_valid(raise_exception=True)

        def act() -> attempts.Answer:
            row = self._row(hold_id)
            self.matched(_state(row))
            values = {name: getattr(row, name) for name in SET} | form.validated_data
            changed = holds.hold_change(
                hold_id=row.pk,
                amounts=_amounts(values),
                expires_at=values["expires_at"],
                reason=values["reason"],
                actor=self.actor,
            )
            self.state = _state(changed)
            return attempts.Answer(200, dict(HoldShape(changed).data))

        return self.changed(act, cause="hold_change")

    @extend_schema(operation_id="hold_end", request=serializers.Reason, responses={204: None})
    def delete(self, request: Request, hold_id: int) -> Response:
        """Give back what it takes; the row stays as a record."""
        reason = serializers.reason_of(request)

        def act() -> attempts.Answer:
            row = self._row(hold_id)
            self.matched(_state(row))
            holds.hold_end(hold_id=row.pk, reason=reason, actor=self.actor)
            return attempts.Answer(204, None)

        return self.changed(act, cause="hold_end")

    def _row(self, hold_id: int) -> Hold:
        row = _holds().filter(pk=hold_id).first() if self.reach else None
        hold: Hold = rows.found(row, f"no hold {hold_id}")
        return hold


def _holds() -> Any:
    return rows.ours(Hold).select_related("device__node")


def _amounts(values: dict[str, Any]) -> holds.Amounts:
    return holds.Amounts(**{name: values.get(name) or 0 for name in ("memory_mib", "core_percent", "slots")})


def _state(row: Hold) -> str:
    return answers.state_of({name: getattr(row, name) for name in (*SET, "in_force")})


def _device(uuid: str, node: str) -> Device:
    found = rows.ours(Device).select_related("node").filter(uuid=uuid)
    known = list(found.filter(node__name=node) if node else found)
    if len(known) != 1:
        why = "several nodes have it: name one" if known else f"there is no device {uuid}{' on ' if node else ''}{node}"
        raise errors.InvalidInput("node" if known else "uuid", why)
    device: Device = known[0]
    return device
