"""The whole demonstration, as a person meets it: started, looked at through the sign-in link, stopped or killed."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from hami_platform.demo import fleet, looks, ports, workloads

# It starts some twenty processes; on a machine that is busy with other tests they take their time.
pytestmark = pytest.mark.timeout(400)
BASE = pathlib.Path(__file__).resolve().parents[2]
WITHIN_S = 180.0
REASONS = (
    "CardInsufficientCore",
    "CardInsufficientMemory",
    "CardMigTopologyInfeasible",
    "CardTypeMismatch",
    "CardUuidMismatch",
    "NodeInsufficientDevice",
    "ResourceQuotaNotFit",
)


@dataclass
class Demo:
    """A demonstration in a temporary folder of its own."""

    temporary: pathlib.Path
    child: subprocess.Popen[str]
    said: list[str] = field(default_factory=list)

    def until_it_says(self, pattern: str) -> str:
        """Read its output up to a match; its first group."""
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self.said.append(line)
            found = re.search(pattern, line)
            if found:
                return found.group(1)
        raise AssertionError(f"it ended without {pattern}: {''.join(self.said)}")

    def processes(self) -> list[int]:
        """All that belong to it, by what they were started with: it names the temporary folder."""
        mark = str(self.temporary).encode()
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _started_with(pid, mark)]


def _started_with(pid: int, mark: bytes) -> bool:
    try:
        return mark in pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def until(done: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + WITHIN_S
    while not done():
        assert time.monotonic() < end, f"{what} did not happen"
        time.sleep(0.2)


def started(temporary: pathlib.Path, *arguments: str) -> Demo:
    first = ports.choose(20000 + os.getpid() % 5000 * 8).web
    command = [sys.executable, "-u", "-m", "hami_platform.demo", "--port", str(first), *arguments]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    return Demo(
        temporary,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=BASE, env=environment
        ),
    )


@pytest.fixture
def temporary() -> Iterator[pathlib.Path]:
    """A folder with a short name, since sockets are made under it."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="d", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_it_shows_devices_pods_and_reasons_and_ends_without_a_trace(temporary: pathlib.Path) -> None:
    demo = started(temporary, "--exit-after", "6")
    try:
        link = demo.until_it_says(r"sign in\s+(\S+)")
        url, _, secret = link.partition("/login/")
        console = looks.Console(url)
        console.sign_in(secret)
        assert console.shown(fleet.uuids()) == 40
        assert int(demo.until_it_says(r"(\d+) pods have devices, \d+ wait")) >= len(workloads.RESIDENTS)
        until(lambda: console.shown(REASONS, "pods?state=pending") == 7, "a page with seven reasons")
        with pytest.raises((OSError, ValueError)):
            looks.Console(url).sign_in(secret)
        demo.child.wait(WITHIN_S)
        assert demo.child.returncode == 0
        assert demo.processes() == []
        assert os.listdir(temporary) == []
    finally:
        demo.child.kill()
        demo.child.communicate()


def test_killing_it_leaves_no_process(temporary: pathlib.Path) -> None:
    demo = started(temporary)
    try:
        demo.until_it_says(r"(sign in)")
        assert len(demo.processes()) > 8
        demo.child.send_signal(signal.SIGKILL)
        demo.child.communicate()
        until(lambda: demo.processes() == [], "the end of all children")
    finally:
        demo.child.kill()


def test_a_folder_in_use_is_refused(temporary: pathlib.Path) -> None:
    (temporary / "something").touch()
    demo = started(temporary, "--keep", str(temporary))
    said, _ = demo.child.communicate(timeout=60)
    assert (demo.child.returncode, "is not empty: name a new folder" in said) == (2, True)
