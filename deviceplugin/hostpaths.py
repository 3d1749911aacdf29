"""The directories on the host that a container's mounts point to.

Every failure is an error: a container whose region cannot be written would run without limits.
Must not know: Kubernetes, or what the mounts are for.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from deviceplugin import grants, removal

OPTIONAL = ("license", "vgpuvalidator")
_EVERYONE = 0o777
"""Containers run as any user and must write their region (HAMi v2.10.0 does the same)."""


class HostPathError(Exception):
    """The node's operator must look: a directory cannot be made, or the library is not installed."""


def present(root: Path) -> tuple[str, ...]:
    """Which of the optional files the host has."""
    return tuple(name for name in OPTIONAL if (root / name).is_file())


def prepare(grant: grants.Grant, *, shared: bool = True) -> None:
    """Make the writable directories of a grant, a container's own one empty. Raises HostPathError.

    shared False: leave alone the one that all containers of the host share, for which only a real library has use.
    """
    try:
        for mount in grant.mounts:
            common = mount.host_path == grants.SHARED_LOCKS
            if not mount.read_only and (shared or not common):
                _open_directory(Path(mount.host_path), fresh=not common)
    except OSError as error:
        raise HostPathError(f"cannot prepare {error.filename}: {error.strerror}") from error


def check_library(grant: grants.Grant) -> None:
    """Refuse when a file that enforces the limits is missing on the host. Raises HostPathError."""
    for mount in grant.mounts:
        if mount.read_only and not Path(mount.host_path).is_file():
            raise HostPathError(f"{mount.host_path} is not on the host: the container would run without limits")


def ensure(path: str) -> None:
    """Make a writable directory that is missing; one that is there stays as it is. Raises HostPathError."""
    if Path(path).is_dir():
        return
    try:
        _open_directory(Path(path), fresh=False)
    except OSError as error:
        raise HostPathError(f"cannot prepare {path}: {error.strerror}") from error


def _open_directory(path: Path, *, fresh: bool) -> None:
    if fresh and not removal.remove(path):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))
    path.mkdir(parents=True, exist_ok=True)
    os.chmod(path, _EVERYONE)
