"""Finds and opens the shared region of each container under `vgpu/containers`.

Those directories are writable by everyone, since containers run as any user: what lies in them may be a link, a pipe, a
device node or a million files. Nothing is opened before it is known to be a regular file, no link is followed, and no
more than a few entries are looked at. Must not know: what is in a region.
Source of names and rules: HAMi v2.10.0 monitor (`<pod uid>_<container>`, at most one library and one `.cache`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deviceplugin import region

LIBRARY: Final = "libvgpu.so"
SUFFIX: Final = ".cache"
MATCHING_MOST: Final = 2
ENTRIES_MOST: Final = 256
"""Of one directory; the library makes one, mounts leave two more."""
FOLDERS_MOST: Final = 10_000

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, order=True)
class Owner:
    """Whose directory it is, from its name; the pod may be long gone."""

    uid: str
    container: str

    @property
    def directory(self) -> str:
        """The directory's name."""
        return f"{self.uid}_{self.container}"


def owner_of(name: str) -> Owner | None:
    """`uid_container`, split at the first `_`; None for a name that says neither or only one."""
    uid, _, container = name.partition("_")
    return Owner(uid, container) if uid and container else None


def owners(directories: Path) -> list[Owner]:
    """Every container directory, in order. Raises OSError, except when there are none yet."""
    try:
        with os.scandir(directories) as entries:
            found = [
                owner
                for _, entry in zip(range(FOLDERS_MOST), entries, strict=False)
                if (owner := owner_of(entry.name)) and entry.is_dir(follow_symlinks=False)
            ]
    except FileNotFoundError:
        return []
    return sorted(found)


@contextmanager
def opened(directories: Path, owner: Owner, *, writable: bool) -> Iterator[int | None]:
    """The container's region as an open file; None while the library has made none. Raises RegionError, OSError."""
    folder = os.open(directories / owner.directory, _FOLDER)
    try:
        name = cache_name(_names(folder))
        if name is None:
            yield None
            return
        file = _open(folder, name, os.O_RDWR if writable else os.O_RDONLY)
        try:
            yield file
        finally:
            os.close(file)
    finally:
        os.close(folder)


def cache_name(names: list[str]) -> str | None:
    """The region's name among the entries of a directory. Raises RegionError when more match than one container has."""
    matching = [name for name in names if LIBRARY in name or name.endswith(SUFFIX)]
    if len(matching) > MATCHING_MOST:
        raise region.RegionError("several_files", f"{len(matching)} files where at most {MATCHING_MOST} are expected")
    return min((name for name in matching if name.endswith(SUFFIX) and LIBRARY not in name), default=None)


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        names = [entry.name for _, entry in zip(range(ENTRIES_MOST), entries, strict=False)]
    if len(names) == ENTRIES_MOST:
        raise region.RegionError("several_files", f"{ENTRIES_MOST} files or more")
    return names


def _open(folder: int, name: str, mode: int) -> int:
    """Look first, open then: opening a device node may already do something, opening a pipe may take for ever."""
    looked = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        found = os.fstat(looked)
        if not stat.S_ISREG(found.st_mode):
            raise region.RegionError("not_a_file", f"{stat.filemode(found.st_mode)} is no regular file")
        return os.open(f"/proc/self/fd/{looked}", mode | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(looked)
