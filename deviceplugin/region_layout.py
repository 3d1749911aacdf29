"""Where things are in the shared region of the limiting library (HAMi-core, libvgpu.so): offsets, nothing else.

Two incompatible layouts carry the version 1.1, so the file's size says which one it is, never its version words.
All integers are little-endian. Must not know: files.
Source: HAMi-core's multiprocess memory headers at the releases named below, offsets checked with a compiled probe on
x86-64 glibc (a semaphore has 32 bytes).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAGIC: Final = 19920718
MAJOR: Final = 1
DEVICES_MOST: Final = 16
SLOTS_MOST: Final = 1024
UUID_BYTES: Final = 96


@dataclass(frozen=True, slots=True)
class Layout:
    """Byte offsets. Those from `pid` on count from the start of a process's slot; None: this layout lacks the field."""

    name: str
    size: int
    device_num: int
    uuids: int
    limit: int
    sm_limit: int
    procs: int
    stride: int
    proc_num: int
    utilization_switch: int
    recent_kernel: int
    priority: int
    last_kernel_time: int | None
    used: int
    used_stride: int
    util: int
    util_stride: int
    status: int
    seqlock: int | None
    pid: int = 0
    versioned: bool = True


V0: Final = Layout(
    name="v0",
    size=1_197_896,
    device_num=48,
    uuids=56,
    limit=1592,
    sm_limit=1720,
    procs=1848,
    stride=1168,
    proc_num=1_197_880,
    utilization_switch=1_197_884,
    recent_kernel=1_197_888,
    priority=1_197_892,
    last_kernel_time=None,
    used=8,
    used_stride=40,
    util=776,
    util_stride=24,
    status=1160,
    seqlock=None,
    versioned=False,
)
"""Before August 2024."""

V1: Final = Layout(
    name="v1",
    size=2_008_952,
    device_num=56,
    uuids=64,
    limit=1600,
    sm_limit=1728,
    procs=1856,
    stride=1960,
    proc_num=2_008_896,
    utilization_switch=2_008_900,
    recent_kernel=2_008_904,
    priority=2_008_908,
    last_kernel_time=2_008_912,
    used=8,
    used_stride=64,
    util=1160,
    util_stride=48,
    status=1928,
    seqlock=1936,
)
"""1.1 (until March 2026; its sequence word is always 0) and 1.2 (since April 2026: HAMi v2.8.2 and later)."""

TRANSITIONAL: Final = Layout(
    name="transitional",
    size=2_008_984,
    device_num=88,
    uuids=96,
    limit=1632,
    sm_limit=1760,
    procs=1888,
    stride=1960,
    proc_num=2_008_928,
    utilization_switch=2_008_932,
    recent_kernel=2_008_936,
    priority=2_008_940,
    last_kernel_time=2_008_944,
    used=16,
    used_stride=64,
    util=1168,
    util_stride=48,
    status=1936,
    seqlock=8,
)
"""March to April 2026, stamped 1.1 like its predecessor; shipped in HAMi v2.8.1, whose own monitor misreads it."""

SMALLEST_HEADER: Final = 12
"""Magic and version words."""


def of_size(size: int) -> Layout | None:
    """The layout of a file this long; None: too short for any. The library makes files one byte longer than the region.

    Sizes between two layouts read as the older one, as in HAMi v2.10.0.
    """
    if size in (TRANSITIONAL.size, TRANSITIONAL.size + 1):
        return TRANSITIONAL
    if size >= V1.size:
        return V1
    return V0 if size >= V0.size else None
