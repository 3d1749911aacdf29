"""Removes a directory in which a container could write as it liked.

It may hold directories in each other without end, millions of files, pipes in place of directories. So nothing
recurses, nothing but a directory is opened, no link is followed, and one call does only so much. Must not know: whose
it is.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

ENTRIES_MOST: Final = 200_000
"""Entries handled in one call, some seconds' work; the rest is for the next one."""

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _Enough(Exception):
    """This call has done its share."""


class _Remover:
    """Empties one directory: files go, and what lies in directories below moves up until nothing lies below."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._left = ENTRIES_MOST
        self._moved = 0

    def empty(self) -> None:
        """Raises OSError where something cannot be removed, and _Enough."""
        while names := self._clear(self._top):
            for name in names:
                self._dissolve(name)

    def _dissolve(self, name: str) -> None:
        """Remove a directory of the top; the directories in it become directories of the top."""
        with suppress(OSError):
            os.rmdir(name, dir_fd=self._top)
            return
        below = os.open(name, _FOLDER, dir_fd=self._top)
        try:
            for inner in self._clear(below):
                os.rename(inner, self._unused(), src_dir_fd=below, dst_dir_fd=self._top)
        finally:
            os.close(below)
        os.rmdir(name, dir_fd=self._top)

    def _clear(self, folder: int) -> list[str]:
        """Unlink what is no directory; the names of those that are."""
        folders = []
        with os.scandir(folder) as entries:
            for entry in entries:
                self._count()
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                else:
                    os.unlink(entry.name, dir_fd=folder)
        return folders

    def _unused(self) -> str:
        """A name that the top does not have."""
        while True:
            self._moved += 1
            name = f"moved-{self._moved}"
            try:
                os.stat(name, dir_fd=self._top, follow_symlinks=False)
            except FileNotFoundError:
                return name
            self._count()

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _Enough


def remove(path: Path) -> bool:
    """Whether the directory is gone now. False: something of it is left, for the next call or for good."""
    try:
        top = os.open(path, _FOLDER)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        _Remover(top).empty()
        os.rmdir(path)
    except (OSError, _Enough):
        return False
    finally:
        os.close(top)
    return True
