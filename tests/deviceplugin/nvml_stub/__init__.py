"""A stub `libnvidia-ml.so.1` of our own, so that the real bindings and the real agent run without a GPU.

`build()` compiles it and returns the folder that holds it: as LD_LIBRARY_PATH of a process, or for this process through
`loaded()`. What there is comes from the file named by NVML_STUB_SCENARIO, which is read again whenever it changes:

    driver 550.54.15                    before the first card; `error <function> <code>` there meets every call
    gpu GPU-…                           begins a card; index is the order. What follows is its own:
    model NVIDIA A100-SXM4-40GB
    memory_mib 40960
    bus 00000000:3B:00.0
    minor 0
    numa 1                              NVML's memory affinity; left out: not supported
    temperature 40 90 95                now, slowdown, shutdown; left out, as the next two: not supported
    power_mw 61000 400000               now, limit
    slowed 0x24                         bits of the reasons why clocks are held down
    ecc 1 0 0                           enabled, corrected, uncorrected (volatile); left out: not supported
    recovery 0                          the driver's recovery action
    utilization 30 10                   cores, memory
    link GPU-… 4 20                     peer, NVLinks, level of the common ancestor (10 … 50)
    mig 1                               mode, until the mode is set
    mig_profile 1 1g.5gb 4864 14 7 1 0,1,2,3,4,5,6     slices, name, MiB, SMs, most, size, starts
    process 4711 2048 30 10 1 0         pid, MiB, cores, memory; then GPU and compute instance
    event 1 8 79 1 0                    number, type (8: XID), data; then GPU and compute instance
    error nvmlDeviceGetMemoryInfo 3     this card's calls of the function end so; `*` means every one

An event set is given the events with numbers above those that were there when it was made. MIG instances and modes
that were set are kept in `<scenario>.mig`: as on a card, they outlive the process that made them. The file says nothing
of the kernel's sysfs: NUMA comes by memory affinity.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pynvml
import pytest

from tests.deviceplugin import compiled

SCENARIO = "NVML_STUB_SCENARIO"
XID = 8
LOST = 15

_SOURCES = ("scenario.c", "device.c", "mig.c")
_FLAGS = (
    "-shared",
    "-fPIC",
    "-O1",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fvisibility=hidden",
    "-Wl,-soname,libnvidia-ml.so.1",
)

A100_40GB = (
    "mig_profile 1 1g.5gb 4864 14 7 1 0,1,2,3,4,5,6",
    "mig_profile 2 2g.10gb 9856 28 3 2 0,2,4",
    "mig_profile 3 3g.20gb 19968 42 2 4 0,4",
    "mig_profile 7 7g.40gb 40192 98 1 8 0",
)


@dataclass(frozen=True)
class Gpu:
    """One card of a scenario; `more` are further lines of its own. bus: made from the position when empty."""

    uuid: str
    model: str = "NVIDIA A100-SXM4-40GB"
    memory_mib: int = 40960
    bus: str = ""
    minor: int | None = None
    more: Sequence[str] = ()

    def lines(self, position: int) -> list[str]:
        """As the file has it."""
        return [
            f"gpu {self.uuid}",
            f"model {self.model}",
            f"memory_mib {self.memory_mib}",
            f"bus {self.bus or f'00000000:{0x10 + position:02X}:00.0'}",
            f"minor {position if self.minor is None else self.minor}",
            *self.more,
        ]


def build() -> Path:
    """The folder with the library."""
    sources = tuple(Path(__file__).parent / name for name in _SOURCES)
    return compiled.made("libnvidia-ml.so.1", sources, _FLAGS).parent


def write(path: Path, *gpus: Gpu, head: Sequence[str] = ()) -> Path:
    """Write a scenario, whole at once, and return its path."""
    lines = ["driver 550.54.15", *head]
    for position, gpu in enumerate(gpus):
        lines += gpu.lines(position)
    draft = path.with_name(f"{path.name}.new")
    draft.write_text("\n".join(lines) + "\n")
    draft.replace(path)
    return path


def environ(scenario: Path) -> dict[str, str]:
    """Variables with which a process finds the library and this scenario."""
    return {"LD_LIBRARY_PATH": str(build()), SCENARIO: str(scenario)}


@contextlib.contextmanager
def loaded(scenario: Path) -> Iterator[None]:
    """Within: pynvml of this process uses the stub with this scenario."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SCENARIO, str(scenario))
        library = pynvml.CDLL(str(build() / "libnvidia-ml.so.1"))
        patch.setattr(pynvml, "nvmlLib", library)
        patch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        try:
            yield
        finally:
            library.stubForgetEventSets()  # of inventories that are not closed: the library has room for 64
