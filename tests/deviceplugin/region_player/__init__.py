"""A C program that has the shared region as its library has it: see player.c."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest


@functools.cache
def build() -> Path:
    """The program, compiled once in a process. Without a compiler the test is skipped; not in CI."""
    compiler = shutil.which("cc")
    if compiler is None:
        if os.environ.get("CI") == "true":
            pytest.fail("cc is needed to build the region's player")
        pytest.skip("no C compiler to build the region's player")
    folder = Path(tempfile.mkdtemp(prefix="region-player-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    source = Path(__file__).parent / "player.c"
    flags = ("-O2", "-Wall", "-Wextra", "-Werror", "-std=c11", "-D_GNU_SOURCE", "-o", str(folder / "player"))
    subprocess.run([compiler, *flags, str(source)], check=True)
    return folder / "player"
