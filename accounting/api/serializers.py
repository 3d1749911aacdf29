"""The shapes of answers and of what a quota is set from. Amounts are integers with their unit in the name."""

from __future__ import annotations

from typing import Any

from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request

from accounting.models import DeniedAsk, Device, DeviceReading, Measurement, Namespace, Node, Quota, Tenant
from accounting.services import measurements
from hami_platform.domain import reasons

LIMIT: dict[str, Any] = {"required": False, "allow_null": True, "min_value": 0, "max_value": 2**63 - 1}


class HeldShape(serializers.Serializer[Any]):
    """Amounts held now."""

    devices = serializers.IntegerField(help_text="Shares of devices.")
    memory_mib = serializers.IntegerField()
    core_percent = serializers.IntegerField(help_text="Percent points of a device.")


class FigureShape(serializers.Serializer[Any]):
    """Held of a total."""

    held = serializers.IntegerField()
    total = serializers.IntegerField()


class ClusterShape(serializers.Serializer[Any]):
    """The cluster in four figures."""

    name = serializers.CharField()
    revision = serializers.IntegerField()
    ready = serializers.BooleanField(help_text="Compared with the API server since the ledger's start.")
    problem = serializers.CharField(help_text="Why the figures may be old; empty: all is well.")
    devices = FigureShape()
    memory_mib = FigureShape()
    core_percent = FigureShape()
    pending = serializers.IntegerField()


class NodeShape(serializers.ModelSerializer[Node]):
    """A node."""

    class Meta:
        model = Node
        fields = ("name", "retired", "unschedulable", "agent", "limits", "problem", "accounting_unknown")

    def to_representation(self, instance: Node) -> dict[str, Any]:
        """Why a node is not believed names a pod: in full for who sees every namespace, else the reason's word."""
        shown: dict[str, Any] = super().to_representation(instance)
        if shown["accounting_unknown"] and not self.context["reach"].everything:
            shown["accounting_unknown"] = reasons.Reason.NODE_ACCOUNTING_UNKNOWN.value
        return shown


class DeviceHeld(HeldShape):
    """From the View; null while the device offers nothing."""

    def to_representation(self, instance: Device) -> Any:
        held = self.context["held"].get((instance.node.name, instance.vendor, instance.uuid))
        if held is None:
            return None
        return {"devices": held.slots, "memory_mib": held.memory_mib, "core_percent": held.core_percent}


class NamespaceHeld(HeldShape):
    """Sum over models."""

    def to_representation(self, instance: Namespace) -> Any:
        amounts = self.context["view"].usage.get(instance.name, {}).values()
        return {name: sum(getattr(one, name) for one in amounts) for name in ("devices", "memory_mib", "core_percent")}


class ReadingShape(serializers.ModelSerializer[DeviceReading]):
    """How a device is, as its agent last read it. Null: the driver, or the agent, does not tell."""

    slowed = serializers.CharField(
        allow_null=True, help_text="Why its clocks are held down, by commas; empty: they are not."
    )

    class Meta:
        model = DeviceReading
        fields = (
            "at", "memory_used_mib", "core_used_percent", "temperature_c", "temperature_limit_c", "power_w",
            "power_limit_w", "slowed", "xid", "xid_at", "ailment",
        )  # fmt: skip


class DeviceShape(serializers.ModelSerializer[Device]):
    """A device: as registered, as people decided, and what is held of it."""

    node = serializers.CharField(source="node.name")
    mig_profiles = serializers.JSONField()
    held = DeviceHeld(source="*", allow_null=True)
    reading = ReadingShape(allow_null=True, help_text="Null: nothing was read yet.")

    class Meta:
        model = Device
        fields = (
            "node", "vendor", "uuid", "index", "model", "memory_mib", "core_percent", "slots", "numa", "mode",
            "healthy", "mig_profiles", "registered", "conflict", "cordoned", "cordoned_on_node", "reserved_mib", "note",
            "held", "reading",
        )  # fmt: skip


class PodShape(serializers.Serializer[Any]):
    """A live pod that asks for devices."""

    uid = serializers.CharField(source="row.uid", help_text="Empty: admitted, not seen yet.")
    claim = serializers.CharField(source="row.claim_id")
    namespace = serializers.CharField(source="row.namespace")
    name = serializers.CharField(source="row.name")
    state = serializers.CharField(source="row.state")
    node = serializers.CharField(source="row.node")
    asks = serializers.CharField(help_text="In words.")
    charged = HeldShape(source="holds", help_text="What it takes of its namespace's limits.")
    reason = serializers.CharField(help_text="Why it waits: the word.")
    why = serializers.CharField(help_text="Why it waits: the sentence.")
    never_fits = serializers.BooleanField(source="never")
    unmanaged = serializers.BooleanField(source="row.unmanaged", help_text="It came past the webhook.")


class DeniedShape(serializers.ModelSerializer[DeniedAsk]):
    """Pods of one owner that admission denied for quota."""

    class Meta:
        model = DeniedAsk
        fields = ("namespace", "owner", "message", "first_at", "last_at", "times")


class DeniedFilter(filters.FilterSet):
    """By whose it was."""

    class Meta:
        model = DeniedAsk
        fields = ("namespace", "owner")


class NamespaceShape(serializers.ModelSerializer[Namespace]):
    """A namespace, its mode, and what it holds."""

    tenant = serializers.CharField(source="tenant.name", default=None, allow_null=True)
    held = NamespaceHeld(source="*")

    class Meta:
        model = Namespace
        fields = ("name", "tenant", "mode", "held")


class TenantShape(serializers.ModelSerializer[Tenant]):
    """A tenant."""

    parent = serializers.CharField(  # type: ignore[assignment]  # the base class has a property of this name
        source="parent.name", default=None, allow_null=True
    )

    class Meta:
        model = Tenant
        fields = ("name", "parent", "note")


class BarShape(serializers.Serializer[Any]):
    """What is used of one limit on a sum."""

    resource = serializers.ChoiceField(choices=("devices", "memory_mib", "core_percent"))
    limit = serializers.IntegerField()
    used = serializers.IntegerField(help_text="Of pods with devices.")
    claimed = serializers.IntegerField(help_text="Of pods that are admitted and have no device yet.")
    releasing = serializers.IntegerField(help_text="Of pods that are being deleted.")
    free = serializers.IntegerField()
    over = serializers.IntegerField()


class QuotaShape(serializers.ModelSerializer[Quota]):
    """A quota. Null is no limit, 0 is nothing."""

    namespace = serializers.CharField(source="namespace.name", default=None, allow_null=True)
    tenant = serializers.CharField(source="tenant.name", default=None, allow_null=True)
    use = serializers.SerializerMethodField()

    class Meta:
        model = Quota
        fields = (
            "id", "namespace", "tenant", "name", "vendor", "model_pattern", *Quota.LIMITS,
            "valid_from", "valid_until", "in_force", "version", "reason", "use",
        )  # fmt: skip

    @extend_schema_field(BarShape(many=True))
    def get_use(self, row: Quota) -> list[dict[str, Any]]:
        """Of each limit on a sum, while the quota is in force; nothing for the past."""
        bars = self.context.get("bars", {}).get(row.pk, ())
        return [dict(BarShape(bar).data) for bar in bars]


class QuotaChange(serializers.Serializer[Any]):
    """What a quota is set to. In PATCH what is left out stays; in PUT it is unlimited."""

    vendor = serializers.CharField(required=False, allow_blank=True, max_length=32)
    model_pattern = serializers.CharField(required=False, allow_blank=True, max_length=128)
    devices = serializers.IntegerField(**LIMIT)
    memory_mib = serializers.IntegerField(help_text="MiB, not bytes: 16 GiB is 16384.", **LIMIT)
    core_percent = serializers.IntegerField(**LIMIT)
    pod_devices = serializers.IntegerField(**LIMIT)
    pod_memory_mib = serializers.IntegerField(**LIMIT)
    pod_core_percent = serializers.IntegerField(**LIMIT)
    device_memory_mib = serializers.IntegerField(**LIMIT)
    valid_from = serializers.DateTimeField(required=False, allow_null=True)
    valid_until = serializers.DateTimeField(required=False, allow_null=True)
    reason = serializers.CharField(max_length=2000, help_text="Why; kept in the history.")
    version = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=0,
        help_text="The version you saw: refused with 409 if it is another.",
    )


class QuotaNew(QuotaChange):
    """A new quota: of one namespace or one tenant."""

    namespace = serializers.CharField(required=False, allow_blank=True, max_length=63, default="")
    tenant = serializers.CharField(required=False, allow_blank=True, max_length=63, default="")
    name = serializers.SlugField(max_length=63, default="default")


class Reason(serializers.Serializer[Any]):
    """Why something is taken away."""

    reason = serializers.CharField(max_length=2000)


def reason_of(request: Request) -> str:
    """Of a deletion: in the body, or in the address for clients that send none. Raises ValidationError."""
    form = Reason(data=request.data or request.query_params)
    form.is_valid(raise_exception=True)
    return str(form.validated_data["reason"])


class AllocationReport(serializers.Serializer[Any]):
    """A node agent has served a container's Allocate."""

    uid = serializers.CharField(max_length=64)
    container = serializers.CharField(max_length=253)
    node = serializers.CharField(max_length=253)
    devices = serializers.ListField(
        child=serializers.CharField(max_length=128),
        required=False,
        max_length=256,
        help_text="Uuids of the cards that the container was given.",
    )


class UnmanagedReport(serializers.Serializer[Any]):
    """The kubelet has given these devices to a pod that nobody placed."""

    node = serializers.CharField(max_length=253)
    namespace = serializers.CharField(max_length=63)
    name = serializers.CharField(max_length=253, help_text="Of the pod.")
    devices = serializers.ListField(child=serializers.CharField(max_length=128), min_length=1, max_length=256)


def _reading(help_text: str, most: int) -> serializers.IntegerField:
    """A figure that a driver need not tell."""
    return serializers.IntegerField(min_value=0, max_value=most, allow_null=True, default=None, help_text=help_text)


class SampleShape(serializers.Serializer[Any]):
    """Use of a device or of a container's share of it."""

    uuid = serializers.CharField(max_length=128, help_text="The device.")
    pod_uid = serializers.CharField(max_length=64, allow_blank=True, default="", help_text="Empty: the whole device.")
    container = serializers.CharField(max_length=253, allow_blank=True, default="")
    memory_used_mib = serializers.IntegerField(
        min_value=0, max_value=2**40, allow_null=True, default=None, help_text="Highest since the last report."
    )
    core_used_percent = serializers.IntegerField(
        min_value=0, max_value=10**6, allow_null=True, default=None, help_text="Mean since the last report."
    )
    temperature_c = _reading("Degrees Celsius, of a whole device, as all that follow.", 10**3)
    temperature_limit_c = _reading("At which the device slows itself down.", 10**3)
    power_w = _reading("Watts.", 10**5)
    power_limit_w = _reading("Watts that it is allowed.", 10**5)
    slowed = serializers.ListField(
        child=serializers.RegexField(r"^[a-z_]{1,24}$"),
        max_length=8,
        allow_null=True,
        default=None,
        help_text="Why its clocks are held down; empty: they are not.",
    )
    xid = _reading("Number of the last XID heard.", 10**6)
    xid_age_s = _reading("Seconds since then, at the end of the measurement.", 10**8)
    ailment = serializers.CharField(
        max_length=200, allow_blank=True, default="", help_text="Why the agent calls it unhealthy; empty: it is well."
    )


class MeasurementReport(serializers.Serializer[Any]):
    """What a node agent measured since its last report."""

    node = serializers.CharField(max_length=253)
    age_s = serializers.IntegerField(
        min_value=0, max_value=measurements.AGE_MOST_S, default=0, help_text="Seconds since the end of the measurement."
    )
    samples = serializers.ListField(child=SampleShape(), max_length=measurements.SAMPLES_MOST)


class MeasurementAnswer(serializers.Serializer[Any]):
    """What became of a report."""

    stored = serializers.IntegerField()
    ignored = serializers.IntegerField(help_text="Of devices or pods that the ledger does not have on that node.")


class MeasurementShape(serializers.ModelSerializer[Measurement]):
    """Use of a device or share in ten minutes."""

    class Meta:
        model = Measurement
        fields = (
            "slot", "at", "node", "uuid", "pod_uid", "container",
            "memory_used_mib", "memory_peak_mib", "core_used_percent",
        )  # fmt: skip
