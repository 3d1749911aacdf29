"""The GPUs that NVIDIA's driver shows. The only module that imports pynvml.

A card that falls off the bus is still reported, as unhealthy, under the uuid it had. A card whose
hardware is in MIG mode is a MIG card with the profiles the driver offers.
Must not know: kubelet, Kubernetes, shares.
Source of calls and constants: NVML API reference, NVIDIA driver 535 and later.
"""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import Any

import pynvml

from deviceplugin import inventory, nvml_mig, xids
from hami_platform import logs
from hami_platform.domain import devices

MIB = 1 << 20
NO_WAIT_MS = 0
UNREADABLE_EVENTS = 64
"""Events taken in one scan; a card that reports without end must not keep the scan from ending."""

log = logs.get(__name__)


class NvmlInventory:
    """See Inventory. A card with a harmful XID stays unhealthy until the agent restarts: only a reset mends it."""

    def __init__(
        self,
        policy: xids.Policy | None = None,
        *,
        memory_mib: int = 0,
        library: Any = pynvml,
        sysfs: Path = Path("/sys/bus/pci/devices"),
    ) -> None:
        """memory_mib: for cards whose memory the driver does not tell; 0 leaves such cards out."""
        self._policy = policy or xids.Policy()
        self._memory_mib = memory_mib
        self._nvml = library
        self._sysfs = sysfs
        self._lock = threading.Lock()
        self._events: Any = None
        self._known: dict[int, inventory.Card] = {}
        self._sick: set[str] = set()

    def scan(self) -> tuple[inventory.Card, ...]:
        """See Inventory."""
        with self._lock:
            try:
                self._start()
                self._take_events()
                for index in range(self._nvml.nvmlDeviceGetCount()):
                    self._look(index)
            except self._nvml.NVMLError as error:
                raise inventory.InventoryError(f"NVML: {error}") from error
            return tuple(self._known[index] for index in sorted(self._known))

    def realise(self, card: str, use: devices.MigUse) -> inventory.MigInstance:
        """See Inventory."""
        with self._lock:
            try:
                self._start()
                return nvml_mig.realise(self._nvml, self._nvml.nvmlDeviceGetHandleByUUID(card), use)
            except self._nvml.NVMLError as error:
                raise inventory.InventoryError(f"NVML: card {card}, {use.profile}: {error}") from error

    def dissolve(self, card: str, use: devices.MigUse) -> None:
        """See Inventory."""
        with self._lock:
            try:
                self._start()
                nvml_mig.dissolve(self._nvml, self._nvml.nvmlDeviceGetHandleByUUID(card), use)
            except self._nvml.NVMLError as error:
                raise inventory.InventoryError(f"NVML: card {card}, {use.profile}: {error}") from error

    def _start(self) -> None:
        """Load the driver's library and listen for XIDs, once."""
        if self._events is not None:
            return
        self._nvml.nvmlInit()
        self._events = self._nvml.nvmlEventSetCreate()
        for index in range(self._nvml.nvmlDeviceGetCount()):
            handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
            try:
                self._nvml.nvmlDeviceRegisterEvents(handle, self._nvml.nvmlEventTypeXidCriticalError, self._events)
            except self._nvml.NVMLError as error:
                log.warning("xids_not_watched", index=index, error=str(error))

    def _take_events(self) -> None:
        """Note which cards reported a harmful XID since the last scan."""
        for _ in range(UNREADABLE_EVENTS):
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, NO_WAIT_MS)
            except self._nvml.NVMLError as error:
                if error.value != self._nvml.NVML_ERROR_TIMEOUT:
                    raise
                return
            if self._policy.harms(event.eventData):
                uuid = _text(self._nvml.nvmlDeviceGetUUID(event.device))
                self._sick.add(uuid)
                log.error("card_unhealthy", card=uuid, xid=event.eventData)

    def _look(self, index: int) -> None:
        """Read one card; one that was known and is lost now stays, as unhealthy."""
        try:
            card = self._read(index, self._nvml.nvmlDeviceGetHandleByIndex(index))
        except self._nvml.NVMLError as error:
            known = self._known.get(index)
            if known is None or error.value != self._nvml.NVML_ERROR_GPU_IS_LOST:
                raise
            card = _unhealthy(known)
        if card is not None:
            self._known[index] = card

    def _read(self, index: int, handle: Any) -> inventory.Card | None:
        uuid = _text(self._nvml.nvmlDeviceGetUUID(handle))
        memory_mib = self._memory(handle)
        if not memory_mib:
            log.warning("card_left_out", card=uuid, reason="its memory is not known")
            return None
        profiles = nvml_mig.profiles(self._nvml, handle)
        return inventory.Card(
            uuid=uuid,
            index=index,
            model=_text(self._nvml.nvmlDeviceGetName(handle)),
            memory_mib=memory_mib,
            numa=self._numa(_text(self._nvml.nvmlDeviceGetPciInfo(handle).busId)),
            mode=inventory.MIG if profiles else inventory.HAMI_CORE,
            healthy=uuid not in self._sick,
            profiles=profiles,
        )

    def _memory(self, handle: Any) -> int:
        try:
            return int(self._nvml.nvmlDeviceGetMemoryInfo(handle).total // MIB)
        except self._nvml.NVMLError as error:
            if error.value != self._nvml.NVML_ERROR_NOT_SUPPORTED:
                raise
            return self._memory_mib

    def _numa(self, bus_id: str) -> int | None:
        """The kernel names PCI devices with a domain of four digits, NVML with eight."""
        name = bus_id.lower().removeprefix("0000") if len(bus_id) > len("0000:00:00.0") else bus_id.lower()
        try:
            node = int((self._sysfs / name / "numa_node").read_text())
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None


def _unhealthy(card: inventory.Card) -> inventory.Card:
    return dataclasses.replace(card, healthy=False)


def _text(value: str | bytes) -> str:
    """Releases of the package differ in what they return."""
    return value.decode() if isinstance(value, bytes) else value
