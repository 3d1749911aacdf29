"""MIG instances by NVML: which a card offers, and making and destroying one.

An instance is one GPU instance with one compute instance that fills it. Must not know: pods, or
who asked. The library is passed in, since one module alone imports it.
Source of calls and constants: NVML API reference, chapter Multi Instance GPU Management.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from deviceplugin import inventory
from hami_platform.domain import devices

SLICES = (1, 2, 3, 4, 6, 7, 8)
"""Sizes of the plain profiles, `<n>g.<memory>`; variants with media engines are not offered (HAMi v2.10.0)."""


def profiles(
    nvml: Any, handle: Any, allowed: Collection[int] | None = None
) -> tuple[inventory.CardProfile, ...] | None:
    """What the card offers of the allowed numbers of slices; None when it is not in MIG mode now."""
    if not enabled(nvml, handle):
        return None
    offered = [found for slices in SLICES if (found := _profile(nvml, handle, slices)) is not None]
    most = max((found.multiprocessorCount for found in offered), default=1)
    chosen = [found for found in offered if allowed is None or found.sliceCount in allowed]
    return tuple(_card_profile(nvml, handle, found, most) for found in chosen)


def enabled(nvml: Any, handle: Any) -> bool:
    """Whether the card is in MIG mode now."""
    try:
        current, _pending = nvml.nvmlDeviceGetMigMode(handle)
    except nvml.NVMLError as error:
        if error.value != nvml.NVML_ERROR_NOT_SUPPORTED:
            raise
        return False
    return bool(current)


def enable(nvml: Any, handle: Any) -> None:
    """Put the card in MIG mode. Raises InventoryError where only a reset would do it or it is in use, NVMLError."""
    if enabled(nvml, handle):
        return
    if nvml.nvmlDeviceGetComputeRunningProcesses(handle):
        raise inventory.InventoryError("somebody computes on the card")
    nvml.nvmlDeviceSetMigMode(handle, nvml.NVML_DEVICE_MIG_ENABLE)
    if not enabled(nvml, handle):
        raise inventory.InventoryError("MIG mode is pending: the card must be reset first")


def partitions(nvml: Any, handle: Any) -> tuple[inventory.Partition, ...]:
    """The instances that are there, by GPU instance id."""
    names = {found.id: _name(found) for slices in SLICES if (found := _profile(nvml, handle, slices)) is not None}
    looked = (_partition(nvml, handle, device, names) for device in _mig_devices(nvml, handle))
    found = [one for one in looked if one is not None]
    return tuple(sorted(found, key=lambda one: one.instance.gpu_instance_id))


def _partition(nvml: Any, handle: Any, device: Any, names: Mapping[int, str]) -> inventory.Partition | None:
    """None for a variant with media engines, which is not ours to hand out, and for what is gone meanwhile."""
    try:
        ids = (nvml.nvmlDeviceGetGpuInstanceId(device), nvml.nvmlDeviceGetComputeInstanceId(device))
        info = nvml.nvmlGpuInstanceGetInfo(nvml.nvmlDeviceGetGpuInstanceById(handle, ids[0]))
        uuid = _text(nvml, device)
    except nvml.NVMLError as error:
        if error.value not in (nvml.NVML_ERROR_NOT_FOUND, nvml.NVML_ERROR_INVALID_ARGUMENT):
            raise
        return None
    if (name := names.get(info.profileId)) is None:
        return None
    placement = devices.MigPlacement(info.placement.start, info.placement.size)
    return inventory.Partition(inventory.MigInstance(uuid, *ids), name, placement)


def realise(nvml: Any, handle: Any, use: devices.MigUse) -> inventory.MigInstance:
    """The instance at this placement, made if it is not there. Raises InventoryError or NVMLError."""
    found = _named(nvml, handle, use.profile)
    gpu_instance = _instance_at(nvml, handle, found, use.placement)
    if gpu_instance is None:
        place = nvml.c_nvmlGpuInstancePlacement_t(use.placement.start, use.placement.size)
        gpu_instance = nvml.nvmlDeviceCreateGpuInstanceWithPlacement(handle, found.id, ctypes.byref(place))
    compute = _compute_instance(nvml, gpu_instance, found.sliceCount)
    ids = (nvml.nvmlGpuInstanceGetInfo(gpu_instance).id, nvml.nvmlComputeInstanceGetInfo(compute).id)
    return inventory.MigInstance(_uuid(nvml, handle, *ids), *ids)


def dissolve(nvml: Any, handle: Any, use: devices.MigUse) -> None:
    """Destroy the instance at this placement, if there is one. Raises NVMLError while it is in use."""
    found = _named(nvml, handle, use.profile)
    gpu_instance = _instance_at(nvml, handle, found, use.placement)
    if gpu_instance is None:
        return
    for compute in _compute_instances(nvml, gpu_instance, found.sliceCount):
        nvml.nvmlComputeInstanceDestroy(compute)
    nvml.nvmlGpuInstanceDestroy(gpu_instance)


def _profile(nvml: Any, handle: Any, slices: int) -> Any:
    constant = getattr(nvml, f"NVML_GPU_INSTANCE_PROFILE_{slices}_SLICE")
    try:
        return nvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, constant)
    except nvml.NVMLError as error:
        if error.value in (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_INVALID_ARGUMENT):
            return None
        raise


def _card_profile(nvml: Any, handle: Any, found: Any, most: int) -> inventory.CardProfile:
    placements = sorted(devices.MigPlacement(p.start, p.size) for p in _placements(nvml, handle, found))
    profile = devices.MigProfile(
        name=_name(found),
        memory_mib=int(found.memorySizeMB),
        core_percent=-(-100 * found.multiprocessorCount // most),
        slice_count=found.sliceCount,
        placements=tuple(placements),
    )
    return inventory.CardProfile(profile, found.instanceCount)


def _placements(nvml: Any, handle: Any, found: Any) -> Any:
    count = ctypes.c_uint(0)
    nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, found.id, None, ctypes.byref(count))
    places = (nvml.c_nvmlGpuInstancePlacement_t * count.value)()
    nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, found.id, places, ctypes.byref(count))
    return places[: count.value]


def _named(nvml: Any, handle: Any, name: str) -> Any:
    for slices in SLICES:
        found = _profile(nvml, handle, slices)
        if found is not None and _name(found) == name:
            return found
    raise inventory.InventoryError(f"the card offers no MIG profile {name}")


def _name(found: Any) -> str:
    """`MIG 1g.5gb` -> `1g.5gb`."""
    name = found.name.decode() if isinstance(found.name, bytes) else found.name
    return str(name).removeprefix("MIG ")


def _instance_at(nvml: Any, handle: Any, found: Any, place: devices.MigPlacement) -> Any:
    count = ctypes.c_uint(found.instanceCount)
    instances = (nvml.c_nvmlGpuInstance_t * found.instanceCount)()
    nvml.nvmlDeviceGetGpuInstances(handle, found.id, instances, ctypes.byref(count))
    for instance in instances[: count.value]:
        at = nvml.nvmlGpuInstanceGetInfo(instance).placement
        if (at.start, at.size) == (place.start, place.size):
            return instance
    return None


def _compute_instance(nvml: Any, gpu_instance: Any, slices: int) -> Any:
    existing = _compute_instances(nvml, gpu_instance, slices)
    if existing:
        return existing[0]
    return nvml.nvmlGpuInstanceCreateComputeInstance(gpu_instance, _whole(nvml, gpu_instance, slices).id)


def _compute_instances(nvml: Any, gpu_instance: Any, slices: int) -> Any:
    whole = _whole(nvml, gpu_instance, slices)
    count = ctypes.c_uint(whole.instanceCount)
    instances = (nvml.c_nvmlComputeInstance_t * whole.instanceCount)()
    nvml.nvmlGpuInstanceGetComputeInstances(gpu_instance, whole.id, instances, ctypes.byref(count))
    return instances[: count.value]


def _whole(nvml: Any, gpu_instance: Any, slices: int) -> Any:
    """The compute profile that fills a GPU instance of this size."""
    constant = getattr(nvml, f"NVML_COMPUTE_INSTANCE_PROFILE_{slices}_SLICE")
    engine = nvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
    return nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(gpu_instance, constant, engine)


def _uuid(nvml: Any, handle: Any, gpu_instance: int, compute_instance: int) -> str:
    """The uuid of the MIG device that these two ids make."""
    for device in _mig_devices(nvml, handle):
        ids = (nvml.nvmlDeviceGetGpuInstanceId(device), nvml.nvmlDeviceGetComputeInstanceId(device))
        if ids == (gpu_instance, compute_instance):
            return _text(nvml, device)
    raise inventory.InventoryError(f"GPU instance {gpu_instance} was made, but shows no MIG device")


def _mig_devices(nvml: Any, handle: Any) -> Iterator[Any]:
    """Handles of the MIG devices. Indexes of destroyed ones are holes."""
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            yield nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except nvml.NVMLError as error:
            if error.value != nvml.NVML_ERROR_NOT_FOUND:
                raise


def _text(nvml: Any, device: Any) -> str:
    uuid = nvml.nvmlDeviceGetUUID(device)
    return uuid.decode() if isinstance(uuid, bytes) else str(uuid)
