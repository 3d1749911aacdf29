"""The limiting library's part: writes the shared region of every container that runs on a made-up card. What they do
there is told to `driver`, which says how the cards are.

A real library (HAMi-core) does that inside the container; here one thread does it for all, with made-up figures, so
that the agents' monitors have something to read, show and report. Must not know: the agent, the platform.
Source of the region's layout: HAMi-core 1.2, x86-64.
"""

from __future__ import annotations

import contextlib
import math
import pathlib
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from typing import Any, Final

from hami_platform.demo import driver
from hami_platform.domain import errors
from hami_platform.domain.wire import pod_devices
from hami_platform.simulator import client

PERIOD_S: Final = 3.0
ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
MIB: Final = 1 << 20
REGION_BYTES: Final = 2_008_953
MAGIC, MAJOR, MINOR = 19920718, 1, 2
_COUNT, _UUIDS, _LIMITS, _CORES, _SLOT = 56, 64, 1600, 1728, 1856
_USED, _USE, _STATUS = 8, 1160, 1928
_TAIL: Final = 2_008_896
_WORDS: Final = 2_008_900  # the monitor's own, and after them what is never changed
_PRIORITY: Final = 2_008_908


class Library(threading.Thread):
    """Use with `with`. nodes: a folder with one for each node, below which its agent keeps `vgpu/containers`."""

    def __init__(self, url: str, nodes: pathlib.Path) -> None:
        super().__init__(name="library", daemon=True)
        self._api = client.Client(url, agent="library")
        self._nodes = nodes
        self._over = threading.Event()

    def __enter__(self) -> Library:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()
        self._api.close()

    def run(self) -> None:
        """Every few seconds all containers once."""
        while not self._over.wait(PERIOD_S):
            with contextlib.suppress(client.ApiFailure, OSError, ValueError):
                work: dict[str, driver.Work] = {}
                for pod in self._api.get(client.path_of("pods"))["items"]:
                    self._use(pod, time.time(), work)
                driver.write(self._nodes, work)

    def _use(self, pod: dict[str, Any], now_s: float, work: dict[str, driver.Work]) -> None:
        meta, node = pod["metadata"], pod["spec"].get("nodeName", "")
        for container, devices in _running(pod):
            for device in devices:
                name = f"{meta['uid']}_{container['name']} {device.uuid}"
                work[device.uuid] = _added(work.get(device.uuid, driver.Work()), device, _busy(name, now_s))
            folder = self._nodes / node / "vgpu" / "containers" / f"{meta['uid']}_{container['name']}"
            if folder.is_dir():  # made by Allocate
                _write(folder / "made-up.cache", container, devices, now_s)


def _added(before: driver.Work, device: pod_devices.Row, busy: float) -> driver.Work:
    """With one more container's work on the card."""
    share = min(100, device.core_percent or 100) / 100
    return driver.Work(before.busy + share * busy, before.memory_mib + _used_mib(device, busy))


def _used_mib(device: pod_devices.Row, busy: float) -> int:
    return int(device.memory_mib * (0.35 + 0.6 * busy))


def _running(pod: dict[str, Any]) -> Iterator[tuple[dict[str, Any], tuple[pod_devices.Row, ...]]]:
    """Containers that run, with their devices."""
    text = pod["metadata"].get("annotations", {}).get(ALLOCATED, "")
    containers = [*pod["spec"].get("initContainers", ()), *pod["spec"].get("containers", ())]
    status = pod.get("status", {})
    states = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    names = {one["name"] for one in states if "running" in one.get("state", {})}
    try:
        rows = pod_devices.align(pod_devices.decode(text), len(containers)) or ()
    except errors.WireError:
        return
    for container, devices in zip(containers, rows, strict=False):
        if devices and container["name"] in names:
            yield container, devices


def _write(path: pathlib.Path, container: dict[str, Any], devices: tuple[pod_devices.Row, ...], now_s: float) -> None:
    """Make the region, or write what its one process uses now. The magic comes last, as a reader expects."""
    new = not path.exists()
    with path.open("r+b" if not new else "w+b") as file:
        if new:
            file.truncate(REGION_BYTES)
            _head(file, container, devices)
        for index, device in enumerate(devices):
            busy = _busy(f"{path.parent.name} {device.uuid}", now_s)
            total = _used_mib(device, busy) * MIB
            context, module = min(total, 300 * MIB), min(total // 20, 50 * MIB)
            used = (context, module, max(0, total - context - module), 0, total)
            _put(file, _SLOT + _USED + index * 64, "<5Q", *used)
            _put(file, _SLOT + _USE + index * 48 + 16, "<Q", int((device.core_percent or 100) * busy))
        _put(file, _PRIORITY + 4, "<Q", int(now_s))
        _put(file, 0, "<iII", MAGIC, MAJOR, MINOR)


def _head(file: Any, container: dict[str, Any], devices: tuple[pod_devices.Row, ...]) -> None:
    _put(file, _COUNT, "<Q", len(devices))
    for index, device in enumerate(devices):
        _put(file, _UUIDS + index * 96, "96s", device.uuid.encode())
        _put(file, _LIMITS + index * 8, "<Q", device.memory_mib * MIB)
        _put(file, _CORES + index * 8, "<Q", device.core_percent or 100)
    _put(file, _SLOT, "<ii", 1, 0)
    _put(file, _SLOT + _STATUS, "<i", 1)
    _put(file, _TAIL, "<i", 1)
    _put(file, _WORDS, "<iii", 1, 0, _priority(container))


def _priority(container: dict[str, Any]) -> int:
    text = next((one.get("value", "") for one in container.get("env", ()) if one["name"] == "CUDA_TASK_PRIORITY"), "")
    return int(text) if text.isdigit() else 1


def _busy(seed: str, now_s: float) -> float:
    """Between 0 and 1, slowly up and down, each at its own time."""
    return 0.5 + 0.45 * math.sin(zlib.crc32(seed.encode()) % 1000 + now_s / 40)


def _put(file: Any, offset: int, layout: str, *values: Any) -> None:
    file.seek(offset)
    file.write(struct.pack(layout, *values))
