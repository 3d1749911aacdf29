"""The part of NVML that the agent calls, over made-up cards. Structures and errors are pynvml's own.

It shows that our side of the calls is right by the API reference; hardware alone shows the rest.
"""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml

A100 = {
    1: ("1g.5gb", 4864, 14, 7, range(7), 1),
    3: ("3g.20gb", 19968, 42, 2, (0, 4), 4),
    7: ("7g.40gb", 40192, 98, 1, (0,), 8),
}
"""Slices to name, MiB, multiprocessors, most instances, starts, size in memory slices."""


@dataclass
class FakeCard:
    uuid: str
    name: str = "NVIDIA A100-SXM4-40GB"
    memory: int = 40 << 30
    mig: bool = False
    lost: bool = False
    bus_id: str = "00000000:3B:00.0"
    tells_memory: bool = True
    instances: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """GPU instance id to slices, start, size."""
    computes: dict[int, int] = field(default_factory=dict)
    """GPU instance id to compute instance id."""
    busy: bool = False


@dataclass
class Handle:
    """Of a card, a GPU instance, a compute instance or a MIG device."""

    card: FakeCard
    gpu_instance: int | None = None
    compute: int | None = None


class FakeNvml:
    """Use in place of the module `pynvml`."""

    def __init__(self, *cards: FakeCard) -> None:
        self.cards = list(cards)
        self.events: list[tuple[FakeCard, int]] = []
        self.running = True
        self.ids = itertools.count(5)

    def __getattr__(self, name: str) -> Any:
        """Constants, structures and errors are the real ones; a function that is not faked is a mistake."""
        if name.startswith("nvml") and not name.startswith("nvmlEventType"):
            raise AttributeError(f"{name} is not faked")
        return getattr(pynvml, name)

    def nvmlInit(self) -> None:
        if not self.running:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)

    def nvmlEventSetCreate(self) -> object:
        return object()

    def nvmlDeviceRegisterEvents(self, handle: Handle, types: int, events: object) -> None:
        assert types == pynvml.nvmlEventTypeXidCriticalError

    def nvmlEventSetWait_v2(self, events: object, timeout_ms: int) -> SimpleNamespace:
        if not self.events:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
        card, xid = self.events.pop(0)
        return SimpleNamespace(device=Handle(card), eventData=xid)

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Handle:
        if self.cards[index].lost:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return Handle(self.cards[index])

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Handle:
        return Handle(next(card for card in self.cards if card.uuid == uuid))

    def nvmlDeviceGetUUID(self, handle: Handle) -> str:
        return handle.card.uuid if handle.gpu_instance is None else f"MIG-{handle.gpu_instance}-{handle.compute}"

    def nvmlDeviceGetName(self, handle: Handle) -> bytes:
        return handle.card.name.encode()

    def nvmlDeviceGetMemoryInfo(self, handle: Handle) -> SimpleNamespace:
        if not handle.card.tells_memory:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return SimpleNamespace(total=handle.card.memory)

    def nvmlDeviceGetPciInfo(self, handle: Handle) -> SimpleNamespace:
        return SimpleNamespace(busId=handle.card.bus_id)

    def nvmlDeviceGetMigMode(self, handle: Handle) -> list[int]:
        return [int(handle.card.mig), int(handle.card.mig)]

    def nvmlDeviceGetGpuInstanceProfileInfo(self, handle: Handle, profile: int) -> SimpleNamespace:
        slices = {0: 1, 1: 2, 2: 3, 3: 4, 4: 7, 5: 8, 6: 6}[profile]
        if slices not in A100:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        name, memory, units, most, _, _ = A100[slices]
        return SimpleNamespace(
            id=100 + slices,
            sliceCount=slices,
            instanceCount=most,
            multiprocessorCount=units,
            memorySizeMB=memory,
            name=f"MIG {name}".encode(),
        )

    def nvmlDeviceGetGpuInstancePossiblePlacements(self, handle: Handle, profile: int, places: Any, count: Any) -> None:
        _, _, _, _, starts, size = A100[profile - 100]
        for n, start in enumerate(starts):
            if places is not None:
                places[n].start, places[n].size = start, size
        count._obj.value = len(starts)

    def nvmlDeviceGetGpuInstances(self, handle: Handle, profile: int, found: Any, count: Any) -> None:
        count._obj.value = 0
        for id_, (slices, _, _) in handle.card.instances.items():
            if slices == profile - 100:
                found[count._obj.value] = self._pointer(found, Handle(handle.card, id_))
                count._obj.value += 1

    def nvmlDeviceCreateGpuInstanceWithPlacement(self, handle: Handle, profile: int, place: Any) -> Any:
        id_ = next(self.ids)
        handle.card.instances[id_] = (profile - 100, place._obj.start, place._obj.size)
        return Handle(handle.card, id_)

    def nvmlGpuInstanceGetInfo(self, instance: Any) -> SimpleNamespace:
        handle = self._handle(instance)
        _, start, size = handle.card.instances[handle.gpu_instance or 0]
        return SimpleNamespace(id=handle.gpu_instance, placement=SimpleNamespace(start=start, size=size))

    def nvmlGpuInstanceGetComputeInstanceProfileInfo(self, instance: Any, profile: int, engine: int) -> SimpleNamespace:
        assert engine == pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
        return SimpleNamespace(id=profile, instanceCount=1)

    def nvmlGpuInstanceGetComputeInstances(self, instance: Any, profile: int, found: Any, count: Any) -> None:
        handle = self._handle(instance)
        compute = handle.card.computes.get(handle.gpu_instance or 0)
        count._obj.value = 0 if compute is None else 1
        if compute is not None:
            found[0] = self._pointer(found, Handle(handle.card, handle.gpu_instance, compute))

    def nvmlGpuInstanceCreateComputeInstance(self, instance: Any, profile: int) -> Handle:
        handle = self._handle(instance)
        handle.card.computes[handle.gpu_instance or 0] = 0
        return Handle(handle.card, handle.gpu_instance, 0)

    def nvmlComputeInstanceGetInfo(self, compute: Any) -> SimpleNamespace:
        return SimpleNamespace(id=self._handle(compute).compute)

    def nvmlComputeInstanceDestroy(self, compute: Any) -> None:
        handle = self._handle(compute)
        if handle.card.busy:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_IN_USE)
        del handle.card.computes[handle.gpu_instance or 0]

    def nvmlGpuInstanceDestroy(self, instance: Any) -> None:
        handle = self._handle(instance)
        del handle.card.instances[handle.gpu_instance or 0]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Handle) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Handle, index: int) -> Handle:
        made = sorted(handle.card.computes.items())
        if index == 0 or index > len(made):  # a hole, as after an instance was destroyed
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return Handle(handle.card, *made[index - 1])

    def nvmlDeviceGetGpuInstanceId(self, device: Handle) -> int | None:
        return device.gpu_instance

    def nvmlDeviceGetComputeInstanceId(self, device: Handle) -> int | None:
        return device.compute

    def _pointer(self, array: Any, handle: Handle) -> Any:
        """A pointer of the array's own type that leads back to the handle."""
        self._handles = getattr(self, "_handles", {})
        address = 0x1000 + len(self._handles)
        self._handles[address] = handle
        return ctypes.cast(address, array._type_)

    def _handle(self, value: Any) -> Handle:
        return value if isinstance(value, Handle) else self._handles[ctypes.cast(value, ctypes.c_void_p).value]
