"""The GPUs that NVIDIA's driver shows. The only module that imports pynvml.

A card that does not answer is still reported, as unhealthy, under the uuid and index it had. A card whose hardware is
in MIG mode is a MIG card with the profiles the driver offers.
Must not know: kubelet, Kubernetes, shares.
Source of calls and constants: NVML API reference, NVIDIA driver 535 and later.
"""

from __future__ import annotations

import ctypes
import dataclasses
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pynvml

from deviceplugin import driver_files, inventory, mig_profiles, nvml_links, nvml_mig, nvml_use, vitals, xids
from deviceplugin.monitor_use import CardUse
from hami_platform import logs
from hami_platform.domain import devices

MIB = 1 << 20
NO_WAIT_MS = 0
MOST_EVENTS = 64
"""Events taken in one scan; a card that reports without end must not keep the scan from ending."""

WHOLE_CARD = 0xFFFFFFFF
"""In place of a GPU instance's id, in events (NVML)."""

SILENT_SCANS = 12
"""Scans with a silent card after which the library is opened anew: a card that was reset answers only then."""

LIBRARY = "libnvidia-ml.so.1"

AILMENT_SILENT = "it does not answer"

log = logs.get(__name__)
T = TypeVar("T")


class NvmlInventory:
    """See Inventory."""

    def __init__(
        self,
        policy: xids.Policy | None = None,
        *,
        memory_mib: int = 0,
        limit_c: int = 0,
        profiles: mig_profiles.Allowed = mig_profiles.ALL,
        library: Any = pynvml,
        sysfs: Path = Path("/sys/bus/pci/devices"),
    ) -> None:
        """memory_mib: for cards whose memory the driver does not tell; 0 leaves such cards out. limit_c: see Vitals."""
        self._policy = policy or xids.Policy()
        self._memory_mib = memory_mib
        self._profiles = profiles
        self._nvml = library
        self._sysfs = sysfs
        self._vitals = vitals.Vitals(library, limit_c, others=self._policy.others)
        self._lock = threading.Lock()
        self._events: Any = None
        self._peers: dict[str, tuple[inventory.Peer, ...]] = {}
        self._known: dict[str, inventory.Card] = {}
        self._left_out: set[str] = set()
        self._heard: dict[str, tuple[int, float]] = {}
        self._silent_scans = 0

    def scan(self) -> tuple[inventory.Card, ...]:
        """See Inventory."""
        with self._lock:
            try:
                self._start()
                self._take_events()
                seen = {uuid for index in range(self._nvml.nvmlDeviceGetCount()) if (uuid := self._look(index))}
            except self._nvml.NVMLError as error:
                self._end()
                raise inventory.InventoryError(f"NVML: {error}") from error
            self._miss(self._known.keys() - seen)
            return tuple(sorted(self._known.values(), key=lambda card: card.index))

    def realise(self, card: str, use: devices.MigUse) -> inventory.MigInstance:
        """See Inventory."""
        return self._on(card, lambda handle: nvml_mig.realise(self._nvml, handle, use), use.profile)

    def dissolve(self, card: str, use: devices.MigUse) -> None:
        """See Inventory."""
        self._on(card, lambda handle: nvml_mig.dissolve(self._nvml, handle, use), use.profile)

    def use(self) -> tuple[CardUse, ...]:
        """See monitor_use.Measuring. A card that does not answer tells why, once a scan knows; else it is left out."""
        with self._lock:
            try:
                self._start()
            except self._nvml.NVMLError as error:
                raise inventory.InventoryError(f"NVML: {error}") from error
            found = (self._use(card) for card in sorted(self._known.values(), key=lambda card: card.index))
            return tuple(one for one in found if one is not None)

    def _use(self, card: inventory.Card) -> CardUse | None:
        xid = self._last_xid(card.uuid)
        try:
            return nvml_use.use_of(self._nvml, self._nvml.nvmlDeviceGetHandleByUUID(card.uuid), card, xid)
        except self._nvml.NVMLError:
            # The next scan says what is wrong with it, if none has yet.
            return nvml_use.silent(card, xid) if card.ailment else None

    def _last_xid(self, uuid: str) -> tuple[int, int] | None:
        """The last one that the card reported, harmful or not, and how many seconds ago."""
        heard = self._heard.get(uuid)
        return None if heard is None else (heard[0], round(time.monotonic() - heard[1]))

    def cut(self, card: str) -> None:
        """See Inventory."""
        self._on(card, lambda handle: nvml_mig.enable(self._nvml, handle), "MIG mode")

    def _on(self, card: str, work: Callable[[Any], T], what: str) -> T:
        with self._lock:
            try:
                self._start()
                return work(self._nvml.nvmlDeviceGetHandleByUUID(card))
            except self._nvml.NVMLError as error:
                raise inventory.InventoryError(f"NVML: card {card}, {what}: {error}") from error

    def _start(self) -> None:
        """Load the driver's library and listen for XIDs, once."""
        if self._events is not None:
            return
        self._nvml.nvmlInit()
        try:
            self._events = self._nvml.nvmlEventSetCreate()
            handles = {}
            for index in range(self._nvml.nvmlDeviceGetCount()):
                if (found := self._handle(index)) is not None:
                    handles[found[0]] = found[1]
                    self._listen(*found)
        except self._nvml.NVMLError:
            self._end()
            raise
        self._peers = self._links(handles)

    def _links(self, handles: Mapping[str, Any]) -> dict[str, tuple[inventory.Peer, ...]]:
        """Without links cards are placed as if all were connected alike; that is no reason to show none."""
        try:
            return nvml_links.peers(self._nvml, handles)
        except self._nvml.NVMLError as error:
            log.warning("links_unknown", error=str(error))
            return {}

    def _end(self) -> None:
        """Close the library; the next scan opens it again."""
        if self._events is None:
            return
        self._events = None
        try:
            self._nvml.nvmlShutdown()
        except self._nvml.NVMLError as error:
            log.warning("library_not_closed", error=str(error))

    def _handle(self, index: int) -> tuple[str, Any] | None:
        """Uuid and handle of a card that answers."""
        try:
            handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
            return _text(self._nvml.nvmlDeviceGetUUID(handle)), handle
        except self._nvml.NVMLError as error:
            self._refuse_blindness(error)
            return None

    def _refuse_blindness(self, error: Any) -> None:
        """Raise what concerns the library; what concerns one card must not hide the others."""
        if error.value in (self._nvml.NVML_ERROR_UNINITIALIZED, self._nvml.NVML_ERROR_DRIVER_NOT_LOADED):
            raise error

    def _listen(self, uuid: str, handle: Any) -> None:
        """Ask for the card's XIDs. One that has none is believed; one that refuses is not trusted (as in HAMi)."""
        try:
            self._nvml.nvmlDeviceRegisterEvents(handle, self._nvml.nvmlEventTypeXidCriticalError, self._events)
        except self._nvml.NVMLError as error:
            log.warning("xids_not_watched", card=uuid, error=str(error))
            has_some = error.value != self._nvml.NVML_ERROR_NOT_SUPPORTED
            self._vitals.deaf(uuid, is_deaf=has_some and self._policy.listens)
        else:
            self._vitals.deaf(uuid, is_deaf=False)

    def _take_events(self) -> None:
        """Note which cards reported a harmful XID since the last scan."""
        for _ in range(MOST_EVENTS):
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, NO_WAIT_MS)
                uuid = _text(self._nvml.nvmlDeviceGetUUID(event.device))
            except self._nvml.NVMLError as error:
                # A lost card is found by looking at it; it must not hide the others.
                if error.value not in (self._nvml.NVML_ERROR_TIMEOUT, self._nvml.NVML_ERROR_GPU_IS_LOST):
                    raise
                return
            self._heard[uuid] = (event.eventData, time.monotonic())
            if self._policy.harms(event.eventData):
                instance = None if event.gpuInstanceId == WHOLE_CARD else event.gpuInstanceId
                self._vitals.harmed(uuid, event.eventData, instance)
                log.error("card_reported_xid", card=uuid, xid=event.eventData, gpu_instance=instance)

    def _look(self, index: int) -> str | None:
        """Read one card; its uuid if it answered."""
        if (found := self._handle(index)) is None:
            return None
        uuid, handle = found
        try:
            if (card := self._read(uuid, index, handle)) is not None:
                self._known[uuid] = card
        except self._nvml.NVMLError as error:
            self._refuse_blindness(error)
            return None
        return uuid

    def _miss(self, silent: set[str]) -> None:
        """Cards that were there and do not answer stay, as unhealthy; the driver may count the others anew."""
        for uuid in silent:
            self._known[uuid] = dataclasses.replace(self._known[uuid], healthy=False, ailment=AILMENT_SILENT)
        for uuid, card in self._known.items() if silent else ():
            self._known[uuid] = dataclasses.replace(card, numbered=False)
        self._silent_scans = self._silent_scans + 1 if silent else 0
        if self._silent_scans >= SILENT_SCANS:
            self._silent_scans = 0
            self._end()

    def _read(self, uuid: str, index: int, handle: Any) -> inventory.Card | None:
        memory_mib = self._memory(handle)
        if not memory_mib:
            if uuid not in self._left_out:
                self._left_out.add(uuid)
                log.warning("card_left_out", card=uuid, reason="its memory is not known")
            return None
        if (before := self._known.get(uuid)) and before.ailment == AILMENT_SILENT:
            self._vitals.back(uuid)
        model = _text(self._nvml.nvmlDeviceGetName(handle))
        profiles = nvml_mig.profiles(self._nvml, handle, self._profiles.of(model))
        ailment = self._vitals.ailment(uuid, handle)
        return inventory.Card(
            uuid=uuid,
            index=self._place(uuid, index),
            model=model,
            memory_mib=memory_mib,
            numa=self._numa(handle),
            mode=inventory.HAMI_CORE if profiles is None else inventory.MIG,
            healthy=not ailment,
            ailment=ailment,
            profiles=profiles or (),
            partitions=() if profiles is None else self._partitions(uuid, ailment, handle),
            minor=self._minor(handle),
            peers=self._peers.get(uuid, ()),
            numbered=self._place(uuid, index) == index,
        )

    def _partitions(self, uuid: str, ailment: str, handle: Any) -> tuple[inventory.Partition, ...]:
        return tuple(
            dataclasses.replace(one, healthy=self._vitals.spares(uuid, ailment, one.instance.gpu_instance_id))
            for one in nvml_mig.partitions(self._nvml, handle)
        )

    def _place(self, uuid: str, index: int) -> int:
        """The index under which the card was first seen: the driver counts anew when one is gone."""
        if known := self._known.get(uuid):
            return known.index
        taken = {card.index for card in self._known.values()}
        return index if index not in taken else max(taken) + 1

    def _memory(self, handle: Any) -> int:
        try:
            return int(self._nvml.nvmlDeviceGetMemoryInfo(handle).total // MIB)
        except self._nvml.NVMLError as error:
            if error.value != self._nvml.NVML_ERROR_NOT_SUPPORTED:
                raise
            return self._memory_mib

    def _minor(self, handle: Any) -> int | None:
        """Of `/dev/nvidia<minor>`."""
        try:
            return int(self._nvml.nvmlDeviceGetMinorNumber(handle))
        except self._nvml.NVMLError as error:
            if error.value != self._nvml.NVML_ERROR_NOT_SUPPORTED:
                raise
            return None

    def _numa(self, handle: Any) -> int | None:
        """As the kernel says; where it has no such file, as the driver says."""
        path = self._sysfs / _kernel_name(_text(self._nvml.nvmlDeviceGetPciInfo(handle).busId)) / "numa_node"
        try:
            node = int(path.read_text())
        except OSError:
            return self._nearest_memory(handle)
        except ValueError:
            return None
        return node if node >= 0 else None

    def _nearest_memory(self, handle: Any) -> int | None:
        try:
            (mask,) = self._nvml.nvmlDeviceGetMemoryAffinity(handle, 1, self._nvml.NVML_AFFINITY_SCOPE_NODE)
        except self._nvml.NVMLError:
            return None
        return (mask & -mask).bit_length() - 1 if mask else None


def preload(root: Path) -> None:
    """Load the driver's library from below another root, if it is there: the loader then gives it to the bindings.

    For nodes whose driver is installed elsewhere than where the loader looks.
    """
    for folder in driver_files.LIBRARY_FOLDERS:
        path = root / folder / LIBRARY
        if path.exists():
            ctypes.CDLL(str(path))
            log.info("library_found", path=str(path))
            return


def _kernel_name(bus_id: str) -> str:
    """The kernel names PCI devices with a domain of four digits, NVML with eight."""
    name = bus_id.lower()
    return name.removeprefix("0000") if len(name) > len("0000:00:00.0") else name


def _text(value: str | bytes) -> str:
    """Releases of the package differ in what they return."""
    return value.decode() if isinstance(value, bytes) else value
