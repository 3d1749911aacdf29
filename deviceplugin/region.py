"""Reads one shared region: what the processes of a container use of each device, and what the library was told.

The region is written by the container, all of it: counts, sizes and texts may be anything, and may change while they
are read. So it is read with `pread`, never mapped (a file that is cut short would end the agent), in bounded pieces,
and every number is a claim. Must not know: where the file is, whose it is, or which claims to believe.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from deviceplugin import region_layout
from deviceplugin.region_layout import DEVICES_MOST, SLOTS_MOST, UUID_BYTES, Layout

REREADS_MOST: Final = 50
"""Of one region, over all its slots: a writer that died in the middle leaves its slot marked as being written."""
REREAD_PAUSE_S: Final = 0.0002
_SM: Final = 16
"""In a slot's utilisation of a device: decoder, encoder, multiprocessors, eight bytes each."""


class RegionError(Exception):
    """Not a region that can be read. `problem` is one word for metrics, the message has the figures."""

    def __init__(self, problem: str, message: str) -> None:
        super().__init__(message)
        self.problem = problem


@dataclass(slots=True)
class DeviceUse:
    """One device as the region has it: what was allowed, and the sum over its living processes. Bytes and percent."""

    index: int
    uuid: str
    limit_bytes: int
    core_limit_percent: int
    total_bytes: int = 0
    context_bytes: int = 0
    module_bytes: int = 0
    data_bytes: int = 0
    core_percent: int = 0


@dataclass(frozen=True, slots=True)
class Words:
    """The two numbers that the monitor writes. recent: above 0 after a launch, below 0 while blocked."""

    recent: int
    switch: int


@dataclass(frozen=True, slots=True)
class Region:
    """One reading.

    last_kernel_s: unix time of the last launch or start, 0 where unknown; torn: slots that stayed in the middle of a
    change.
    """

    layout: Layout
    devices: tuple[DeviceUse, ...]
    processes: int
    priority: int
    words: Words
    last_kernel_s: int
    torn: int = 0
    unreadable_uuids: int = 0


@dataclass(slots=True)
class _Patience:
    left: int = REREADS_MOST
    pause: Callable[[float], None] = field(default=time.sleep)

    def again(self) -> bool:
        self.left -= 1
        if self.left < 0:
            return False
        self.pause(REREAD_PAUSE_S)
        return True


def read(file: int, pause: Callable[[float], None] = time.sleep) -> Region:
    """Read an open file. Raises RegionError, and OSError for what the file system does."""
    layout = layout_of(file)
    head = _piece(file, layout.procs, 0)
    tail = _piece(file, layout.size - layout.proc_num, layout.proc_num)
    (processes,) = struct.unpack_from("<i", tail)
    slots = min(max(processes, 0), SLOTS_MOST)
    devices, unreadable = _devices(layout, head)
    torn, living = _add_up(file, layout, slots, devices, _Patience(pause=pause))
    return Region(
        layout=layout,
        devices=devices,
        processes=living,
        priority=_tail_word(layout, tail, layout.priority),
        words=_words(layout, tail),
        last_kernel_s=_last_kernel_s(layout, tail),
        torn=torn,
        unreadable_uuids=unreadable,
    )


def layout_of(file: int) -> Layout:
    """Which layout a file has, by its size. Raises RegionError for what is no region."""
    size = os.fstat(file).st_size
    if size < region_layout.SMALLEST_HEADER:
        raise RegionError("too_short", f"{size} bytes")
    magic, major, minor = struct.unpack("<iII", _piece(file, region_layout.SMALLEST_HEADER, 0))
    if magic != region_layout.MAGIC:
        raise RegionError("magic", f"begins with {magic}, not {region_layout.MAGIC}")
    layout = region_layout.of_size(size)
    if layout is None:
        raise RegionError("size", f"{size} bytes, version {major}.{minor}")
    if layout.versioned and major != region_layout.MAJOR:
        raise RegionError("version", f"{size} bytes, version {major}.{minor}")
    return layout


def read_words(file: int, layout: Layout) -> Words:
    """The two feedback words as they are now. Raises RegionError when the file has been cut."""
    return _words(layout, _piece(file, layout.size - layout.proc_num, layout.proc_num))


def write_words(file: int, layout: Layout, before: Words, after: Words) -> int:
    """Write those of the two words that differ; how many. Raises RegionError when the file has been cut, OSError.

    With `pwrite`, since a store into a mapped file that was cut ends the process. The bytes of one word may reach the
    container one by one; of the values that are written (-1, 0, 1, 2) every mixture with the former one means either
    of the two to the library. Only the launch that falls into it may see the older.
    """
    written = 0
    for offset, old, new in (
        (layout.recent_kernel, before.recent, after.recent),
        (layout.utilization_switch, before.switch, after.switch),
    ):
        if old == new:
            continue
        if os.fstat(file).st_size < layout.size:
            raise RegionError("truncated", f"shorter than {layout.size} bytes")
        os.pwrite(file, struct.pack("<i", new), offset)
        written += 1
    return written


def write_limit(file: int, layout: Layout, index: int, limit_bytes: int) -> None:
    """Set a device's memory limit; the library reads it at every allocation. Raises RegionError when the file has been
    cut, OSError."""
    if os.fstat(file).st_size < layout.size:
        raise RegionError("truncated", f"shorter than {layout.size} bytes")
    os.pwrite(file, struct.pack("<Q", limit_bytes), layout.limit + index * 8)


def _piece(file: int, length: int, offset: int) -> bytes:
    found = os.pread(file, length, offset)
    if len(found) < length:
        raise RegionError("truncated", f"{offset + len(found)} bytes where {offset + length} were expected")
    return found


def _words(layout: Layout, tail: bytes) -> Words:
    return Words(_tail_word(layout, tail, layout.recent_kernel), _tail_word(layout, tail, layout.utilization_switch))


def _tail_word(layout: Layout, tail: bytes, offset: int) -> int:
    return int(struct.unpack_from("<i", tail, offset - layout.proc_num)[0])


def _last_kernel_s(layout: Layout, tail: bytes) -> int:
    if layout.last_kernel_time is None:
        return 0
    return int(struct.unpack_from("<Q", tail, layout.last_kernel_time - layout.proc_num)[0])


def _devices(layout: Layout, head: bytes) -> tuple[tuple[DeviceUse, ...], int]:
    """(devices with a name, how many names cannot be read)."""
    (count,) = struct.unpack_from("<Q", head, layout.device_num)
    found, unreadable = [], 0
    for index in range(min(count, DEVICES_MOST)):
        start = layout.uuids + index * UUID_BYTES
        name = head[start : start + UUID_BYTES].partition(b"\0")[0]
        if not name:
            continue
        try:
            uuid = name.decode("ascii")
        except UnicodeDecodeError:
            unreadable += 1
            continue
        (limit,) = struct.unpack_from("<Q", head, layout.limit + index * 8)
        (cores,) = struct.unpack_from("<Q", head, layout.sm_limit + index * 8)
        found.append(DeviceUse(index, uuid, limit, cores))
    return tuple(found), unreadable


def _add_up(
    file: int, layout: Layout, slots: int, devices: tuple[DeviceUse, ...], patience: _Patience
) -> tuple[int, int]:
    """Add every living process to the devices; (slots that stayed torn, living processes)."""
    torn = living = 0
    table = _piece(file, slots * layout.stride, layout.procs) if slots else b""
    for number, sequence in _living(layout, table, slots):
        slot, whole = _slot(file, layout, number, sequence, patience)
        if not _alive(layout, slot, 0):
            continue  # it ended meanwhile
        living += 1
        torn += not whole
        for device in devices:
            _add(layout, slot, device)
    return torn, living


def _living(layout: Layout, table: bytes, slots: int) -> Iterator[tuple[int, int]]:
    """Slots in use, with the sequence word that they had when the table was read."""
    for number in range(slots):
        start = number * layout.stride
        if _alive(layout, table, start):
            yield number, _sequence(layout, table, start)


def _alive(layout: Layout, data: bytes, start: int) -> bool:
    """A slot that its process gave up has pid 0 or status 0; its numbers stay behind."""
    (pid,) = struct.unpack_from("<i", data, start + layout.pid)
    (status,) = struct.unpack_from("<i", data, start + layout.status)
    return bool(pid and status)


def _sequence(layout: Layout, data: bytes, start: int) -> int:
    if layout.seqlock is None:
        return 0
    return int(struct.unpack_from("<Q", data, start + layout.seqlock)[0])


def _slot(file: int, layout: Layout, number: int, sequence: int, patience: _Patience) -> tuple[bytes, bool]:
    """(the slot, whether it is of one moment): the sequence word is even and the same before and after.

    The word is read apart, before and after: inside the slot it may lie on either side of the figures.
    """
    start = layout.procs + number * layout.stride
    while True:
        slot = _piece(file, layout.stride, start)
        if layout.seqlock is None:
            return slot, True
        (after,) = struct.unpack("<Q", _piece(file, 8, start + layout.seqlock))
        if after == sequence and not after % 2:
            return slot, True
        if not patience.again():
            return slot, False
        (sequence,) = struct.unpack("<Q", _piece(file, 8, start + layout.seqlock))


def _add(layout: Layout, slot: bytes, device: DeviceUse) -> None:
    context, module, data, _, total = struct.unpack_from("<5Q", slot, layout.used + device.index * layout.used_stride)
    (cores,) = struct.unpack_from("<Q", slot, layout.util + device.index * layout.util_stride + _SM)
    device.context_bytes += context
    device.module_bytes += module
    device.data_bytes += data
    device.total_bytes += total
    device.core_percent += cores
