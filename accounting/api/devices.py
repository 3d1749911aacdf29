"""Devices, and what people decide about them."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response

from accounting.api import answers, rows, serializers
from accounting.api.base import Endpoint
from accounting.api.lists import ListEndpoint
from accounting.models import Device
from accounting.services import attempts, devices
from hami_platform.domain.view import View


class DeviceChange(drf.Serializer[Any]):
    """What is left out stays as it is."""

    cordoned = drf.BooleanField(required=False, help_text="Place no new shares here.")
    reserved_mib = drf.IntegerField(
        required=False, min_value=0, max_value=2**63 - 1, help_text="Kept back from pods, MiB."
    )
    note = drf.CharField(required=False, allow_blank=True, max_length=400)
    reason = drf.CharField(max_length=2000, help_text="Why; kept in the history.")


class DeviceFilter(filters.FilterSet):
    """By where it is and what it is."""

    node = filters.CharFilter(field_name="node__name")
    temperature_from = filters.NumberFilter(
        field_name="reading__temperature_c", lookup_expr="gte", help_text="Degrees Celsius, as last read."
    )

    class Meta:
        model = Device
        fields = ("vendor", "model", "mode", "healthy", "registered", "conflict", "cordoned", "numa")


class DevicesEndpoint(ListEndpoint):
    """Devices, with what is held of each."""

    serializer_class = serializers.DeviceShape
    queryset = Device.objects.none()
    filterset_class = DeviceFilter
    search_fields = ("uuid", "model", "node__name")
    ordering_fields = ("index", "memory_mib", "model", "uuid", "vendor")
    file_name = "devices"
    asked = ()

    def get_queryset(self) -> Any:
        return rows.ours(Device).select_related("node", "reading") if self.reach else Device.objects.none()

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "held": _held(rows.view_now())}


class DeviceEndpoint(Endpoint):
    """One device."""

    asked = ()

    @extend_schema(operation_id="device", responses=serializers.DeviceShape)
    def get(self, request: Request, uuid: str) -> Response:
        """By uuid."""
        row = self._row(uuid)
        self.state = _state(row)
        return Response(_shown(row, _held(rows.view_now())))

    @extend_schema(operation_id="device_change", request=DeviceChange, responses=serializers.DeviceShape)
    def patch(self, request: Request, uuid: str) -> Response:
        """Cordon it, keep memory of it back, or note something. Pods that run there stay."""
        form = DeviceChange(data=request.data)
        form.is_valid(raise_exception=True)
        held = _held(rows.view_now())
        if not self.reach.operates:
            raise PermissionDenied("devices are for operators")

        def act() -> attempts.Answer:
            row = self._row(uuid)
            self.matched(_state(row))
            changed = devices.device_edit(
                node=row.node.name, vendor=row.vendor, uuid=uuid, actor=self.actor, **form.validated_data
            )
            self.state = _state(changed)
            return attempts.Answer(200, _shown(changed, held))

        return self.written(act, cause="device_edit")

    def _row(self, uuid: str) -> Device:
        row = rows.ours(Device).select_related("node", "reading").filter(uuid=uuid).first() if self.reach else None
        device: Device = rows.found(row, f"no device {uuid}")
        return device


def _state(row: Device) -> str:
    return answers.state_of({name: getattr(row, name) for name in Device.HUMAN})


def _shown(row: Device, held: dict[tuple[str, str, str], Any]) -> dict[str, Any]:
    return dict(serializers.DeviceShape(row, context={"held": held}).data)


def _held(view: View) -> dict[tuple[str, str, str], Any]:
    """(node, vendor, uuid) → what is held."""
    return {(name, *one.device.key): one.held for name, node in view.states.items() for one in node.devices}
