"""Writes shared regions as the limiting library does, in each of its layouts, for the reader's tests.

`python -m tests.deviceplugin.regions FILE` is a process that plays the library's part: see `play`.
"""

from __future__ import annotations

import mmap
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deviceplugin import region_layout
from deviceplugin.region_layout import Layout
from tests.deviceplugin.builders import GPU_A

MIB = 1 << 20


@dataclass
class Process:
    """A slot. used: device index to (context, module, data, total) in bytes; sm: device index to percent."""

    used: Mapping[int, tuple[int, int, int, int]] = field(default_factory=lambda: {0: (1000, 500, 300, 8000)})
    sm: Mapping[int, int] = field(default_factory=lambda: {0: 42})
    pid: int = 1
    status: int = 1
    sequence: int = 0


def content(
    layout: Layout = region_layout.V1,
    processes: Sequence[Process] = (Process(),),
    *,
    uuids: Sequence[bytes | str] = (GPU_A,),
    limits: Sequence[int] = (10000,),
    device_num: int | None = None,
    proc_num: int | None = None,
    magic: int = region_layout.MAGIC,
    version: tuple[int, int] = (1, 2),
    switch: int = 1,
    recent: int = 2,
    priority: int = 1,
    last_kernel: int = 0,
    extra: int = 1,
) -> bytearray:
    """The file's bytes: one byte longer than the region, as the library makes it."""
    data = bytearray(layout.size + extra)
    struct.pack_into("<i", data, 0, magic)
    if layout.versioned:
        struct.pack_into("<II", data, 4, *version)
    struct.pack_into("<Q", data, layout.device_num, len(uuids) if device_num is None else device_num)
    for index, uuid in enumerate(uuids):
        text = uuid.encode() if isinstance(uuid, str) else uuid
        data[layout.uuids + index * 96 : layout.uuids + index * 96 + len(text)] = text
    for index, limit in enumerate(limits):
        struct.pack_into("<Q", data, layout.limit + index * 8, limit)
        struct.pack_into("<Q", data, layout.sm_limit + index * 8, 30)
    for number, process in enumerate(processes):
        _slot(data, layout, layout.procs + number * layout.stride, process)
    struct.pack_into("<i", data, layout.proc_num, len(processes) if proc_num is None else proc_num)
    words = ((layout.utilization_switch, switch), (layout.recent_kernel, recent), (layout.priority, priority))
    for offset, value in words:
        struct.pack_into("<i", data, offset, value)
    if layout.last_kernel_time is not None:
        struct.pack_into("<Q", data, layout.last_kernel_time, last_kernel)
    return data


def write(path: Path, data: bytes | bytearray) -> Path:
    """Store it, with the directories above."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def _slot(data: bytearray, layout: Layout, start: int, process: Process) -> None:
    struct.pack_into("<ii", data, start, process.pid, 1234)
    for index, (context, module, buffer, total) in process.used.items():
        struct.pack_into(
            "<5Q", data, start + layout.used + index * layout.used_stride, context, module, buffer, 0, total
        )
    for index, percent in process.sm.items():
        struct.pack_into("<Q", data, start + layout.util + index * layout.util_stride + 16, percent)
    struct.pack_into("<i", data, start + layout.status, process.status)
    if layout.seqlock is not None:
        struct.pack_into("<Q", data, start + layout.seqlock, process.sequence)


def word(path: Path, offset: int) -> int:
    """A 32-bit number of the file as it is now."""
    with path.open("rb") as file:
        file.seek(offset)
        return int(struct.unpack("<i", file.read(4))[0])


class Library:
    """The library's part over a mapped file: launches kernels, allocates, obeys the two words."""

    def __init__(self, path: Path, layout: Layout = region_layout.V1) -> None:
        self._file = path.open("r+b")
        self._map = mmap.mmap(self._file.fileno(), layout.size)
        self._words = memoryview(self._map).cast("i")
        self._longs = memoryview(self._map).cast("Q") if layout.size % 8 == 0 else None
        self._layout = layout

    def close(self) -> None:
        self._words.release()
        if self._longs is not None:
            self._longs.release()
        self._map.close()
        self._file.close()

    @property
    def recent(self) -> int:
        return self._words[self._layout.recent_kernel // 4]

    @property
    def switch(self) -> int:
        return self._words[self._layout.utilization_switch // 4]

    def launch(self, now_s: int) -> str:
        """One kernel under a core limit, as libraries since March 2026: `free`, `held` to its share, or `blocked`."""
        if self._longs is not None and self._layout.last_kernel_time is not None:
            self._longs[self._layout.last_kernel_time // 8] = now_s
        if not self.switch:
            return "free"
        if self.recent < 0:
            return "blocked"
        self._words[self._layout.recent_kernel // 4] = 2
        return "held"

    def allocate(self, context: int, data: int) -> None:
        """Change the first process's first device under its sequence word; the total is always the sum."""
        assert self._longs is not None
        assert self._layout.seqlock is not None
        start = self._layout.procs
        sequence = (start + self._layout.seqlock) // 8
        used = (start + self._layout.used) // 8
        self._longs[sequence] += 1
        self._longs[used] = context
        self._longs[used + 2] = data
        self._longs[used + 4] = context + data
        self._longs[sequence] += 1


def play(path: Path) -> None:
    """Commands on standard input, answers on standard output: `launch`, `words`, `churn SECONDS`."""
    library = Library(path)
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        if command == "launch":
            print(library.launch(int(argument)), flush=True)  # noqa: T201
        elif command == "words":
            print(library.switch, library.recent, flush=True)  # noqa: T201
        elif command == "churn":
            end, step = time.monotonic() + float(argument), 0
            while time.monotonic() < end:
                step += 1
                library.allocate(step * 3 % 1000, step * 7 % 1000)
            print(step, flush=True)  # noqa: T201
    library.close()


if __name__ == "__main__":
    play(Path(sys.argv[1]))
