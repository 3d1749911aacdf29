"""Which MIG instances a pod reserves: annotation `hami.io/vgpu-mig-allocations`, a JSON array.

The scheduler writes profile and placement; the device plugin adds the three runtime ids together. 0 is a valid instance
id, so unknown is absent, never 0. Must not know: the pod. Source: HAMi v2.10.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hami_platform.domain import devices, errors
from hami_platform.domain.wire import fields

_RUNTIME = ("migUUID", "gpuInstanceID", "computeInstanceID")
_NAME_MAX = {"gpuUUID": 128, "profile": 64, "migUUID": 128}
_PLACE_MAX = 1000
"""Far more than any pod has containers, or any card has slices."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """The instance that the device plugin created or found for a reservation."""

    mig_uuid: str
    gpu_instance: int
    compute_instance: int


@dataclass(frozen=True, slots=True)
class Allocation:
    """One instance. container_index counts init containers first; device_index is the place in the container's row."""

    container_index: int
    device_index: int
    gpu_uuid: str
    profile: str
    placement: devices.MigPlacement
    runtime: Runtime | None = None

    @property
    def use(self) -> devices.MigUse:
        """What is occupied on the card."""
        return devices.MigUse(self.profile, self.placement)


def encode(allocations: Iterable[Allocation]) -> str:
    """The JSON form in the order given."""
    return fields.dumps([_object(allocation) for allocation in allocations])


def decode(text: str) -> tuple[Allocation, ...]:
    """The allocations; "" and null read as none. Raises WireError naming the entry."""
    values = fields.items(fields.loads(text) if text else None, "allocation")
    found = tuple(_allocation(value, f"allocation {i}") for i, value in enumerate(values))
    places = [(allocation.container_index, allocation.device_index) for allocation in found]
    if len(set(places)) < len(places):
        raise errors.WireError("two allocations for one container and device")
    return found


def _object(allocation: Allocation) -> dict[str, Any]:
    place, runtime = allocation.placement, allocation.runtime
    value = {
        "containerIndex": allocation.container_index,
        "deviceIndex": allocation.device_index,
        "gpuUUID": allocation.gpu_uuid,
        "profile": allocation.profile,
        "placement": {"start": place.start, "size": place.size},
    }
    if runtime is None:
        return value
    return value | dict(zip(_RUNTIME, (runtime.mig_uuid, runtime.gpu_instance, runtime.compute_instance), strict=True))


def _allocation(value: Mapping[str, Any], field: str) -> Allocation:
    place = fields.members(value.get("placement"), f"{field}: placement")
    return Allocation(
        container_index=fields.number(value, "containerIndex", field, least=0, most=_PLACE_MAX),
        device_index=fields.number(value, "deviceIndex", field, least=0),
        gpu_uuid=_name(value, "gpuUUID", field),
        profile=_name(value, "profile", field),
        placement=devices.MigPlacement(
            fields.number(place, "start", f"{field}: placement", least=0, most=_PLACE_MAX),
            fields.number(place, "size", f"{field}: placement", least=1, most=_PLACE_MAX),
        ),
        runtime=_runtime(value, field),
    )


def _runtime(value: Mapping[str, Any], field: str) -> Runtime | None:
    known = [key for key in _RUNTIME if key.lower() in value]
    if not known:
        return None
    if len(known) < len(_RUNTIME):
        raise errors.WireError(f"only {', '.join(known)} of {', '.join(_RUNTIME)}", field=field)
    return Runtime(
        _name(value, "migUUID", field),
        fields.number(value, "gpuInstanceID", field, least=0),
        fields.number(value, "computeInstanceID", field, least=0),
    )


def _name(value: Mapping[str, Any], key: str, field: str) -> str:
    name = fields.storable(fields.text(value, key, field), _NAME_MAX[key], f"{field}: {key}")
    if not name:
        raise errors.WireError("is empty", field=f"{field}: {key}")
    return name
