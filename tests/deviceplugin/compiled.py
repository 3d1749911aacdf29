"""C sources of the tests, compiled once in a process."""

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
def made(output: str, sources: tuple[Path, ...], flags: tuple[str, ...]) -> Path:
    """The file, alone in a folder of its own that goes with the process. Without a compiler the test is skipped; not in
    CI."""
    compiler = shutil.which("cc")
    if compiler is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"cc is needed to build {output}")
        pytest.skip(f"no C compiler to build {output}")
    folder = Path(tempfile.mkdtemp(prefix="compiled-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    subprocess.run([compiler, *flags, "-o", str(folder / output), *map(str, sources)], check=True)
    return folder / output
