"""Folders of demonstrations that were killed and could not remove them: the next one does."""

from __future__ import annotations

import contextlib
import fcntl
import pathlib
import shutil
from typing import IO, Final

PREFIX: Final = "hami-demo-"
_LOCK: Final = "lock"


def mark(folder: pathlib.Path) -> IO[str]:
    """Say that the folder is in use, as long as this process lives and the file is open."""
    lock = (folder / _LOCK).open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def sweep(where: pathlib.Path) -> None:
    """Remove the folders that nobody uses any more. Others' folders, which cannot be opened, stay."""
    for lock in where.glob(f"{PREFIX}*/{_LOCK}"):
        with contextlib.suppress(OSError), lock.open("r+") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)
