"""A process that does to a region what a hostile container can: `python -m tests.deviceplugin.hostile FILE`.

It goes on until it is ended.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from deviceplugin.region_layout import TRANSITIONAL, V0, V1
from tests.deviceplugin.builders import GPU_A, GPU_B
from tests.deviceplugin.regions import Process, content, write

MIB = 1 << 20


def cut(path: Path, dice: random.Random) -> None:
    os.truncate(path, dice.randrange(2_100_000))


def scribble(path: Path, dice: random.Random) -> None:
    with path.open("r+b") as file:
        file.seek(dice.choice((0, 56, 1600, 1856, V1.proc_num)) + dice.randrange(64))
        file.write(dice.randbytes(dice.randrange(1, 256)))


def replace(path: Path, dice: random.Random) -> None:
    layout = dice.choice((V0, V1, TRANSITIONAL))
    processes = [Process(sequence=dice.randrange(3))] * dice.randrange(8)
    draft = write(path.with_name("draft"), content(layout, processes, uuids=[GPU_A, GPU_B], limits=[MIB, MIB]))
    draft.replace(path)


def pipe(path: Path, _dice: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def link(path: Path, _dice: random.Random) -> None:
    path.unlink()
    path.symlink_to(path.parent.parent / "elsewhere")


def folder(path: Path, _dice: random.Random) -> None:
    path.unlink()
    path.mkdir()


def gone(path: Path, _dice: random.Random) -> None:
    shutil.rmtree(path.parent)


TRICKS: tuple[Callable[[Path, random.Random], None], ...] = (cut, scribble, replace, pipe, link, folder, gone)


def main(path: Path) -> None:
    dice = random.Random(7)
    while True:
        with suppress(OSError):
            dice.choice(TRICKS)(path, dice)
        with suppress(OSError):
            if path.is_dir():
                path.rmdir()
            if not path.is_file():
                replace(path, dice)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
