"""Finds the parts of NVIDIA's driver that a container needs, below the driver's root.

Must not know: CDI, containers. Source: NVIDIA Linux driver README, "Installed components".
"""

from __future__ import annotations

import re
from pathlib import Path

from deviceplugin import cdi

LIBRARY_FOLDERS = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
)
PROGRAMS = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
)
SOCKETS = ("run/nvidia-persistenced/socket", "run/nvidia-fabricmanager/socket")

_CUDA = re.compile(r"libcuda\.so\.(\d+\.\d+(?:\.\d+)?)")


class NoDriverError(Exception):
    """The driver's files are not where they were said to be."""


def find(root: Path) -> cdi.DriverFiles:
    """Libraries of the driver's version (the one of libcuda), its programs, firmware and sockets.

    root: where this process sees the driver's root. Raises NoDriverError.
    """
    for folder in LIBRARY_FOLDERS:
        if version := _version(root / folder):
            return cdi.DriverFiles(
                libraries=tuple(
                    f"/{folder}/{path.name}" for path in sorted((root / folder).glob(f"lib*.so.{version}"))
                ),
                programs=tuple(f"/usr/bin/{name}" for name in PROGRAMS if (root / "usr/bin" / name).is_file()),
                others=_others(root, version),
            )
    raise NoDriverError(f"no libcuda.so.<version> below {root}: {', '.join(LIBRARY_FOLDERS)}")


def _version(folder: Path) -> str:
    """Of the newest libcuda in a folder; empty without one."""
    found = [match[1] for path in folder.glob("libcuda.so.*") if (match := _CUDA.fullmatch(path.name))]
    return max(found, key=lambda version: [int(part) for part in version.split(".")], default="")


def _others(root: Path, version: str) -> tuple[str, ...]:
    firmware = [f"lib/firmware/nvidia/{version}"]
    return tuple(f"/{path}" for path in (*firmware, *SOCKETS) if (root / path).exists())
