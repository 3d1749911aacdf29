"""The test run's own children: they end with it, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster import processes
from tests.cluster.kube import eventually

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]

PARENT = """
import pathlib, sys, time
from tests.cluster import processes
sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
child = processes.Process("child", sleeper, log=pathlib.Path(sys.argv[1]))
child.start()
print(child.pid, flush=True)
time.sleep(600)
"""


def _is_alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def test_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True, cwd=os.getcwd()
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert _is_alive(child)
        parent.send_signal(signal.SIGKILL)
        parent.wait(10)
        eventually("the child is gone", lambda: not _is_alive(child), within_s=10)


def test_stopped_process_can_be_started_again(tmp_path: Path) -> None:
    child = processes.Process("sleeper", SLEEPER, log=tmp_path / "log").start()
    child.wait_until(lambda: "up" in child.tail())
    child.kill()
    assert not child.alive()
    child.start()
    assert child.alive()
    child.stop()
    assert not child.alive()


def test_process_that_ends_while_starting_shows_its_log(tmp_path: Path) -> None:
    child = processes.Process(
        "broken", [sys.executable, "-c", "raise SystemExit('no such flag')"], log=tmp_path / "log"
    )
    child.start()
    with pytest.raises(processes.ProcessEnded, match="no such flag"):
        child.wait_until(lambda: False)


def test_free_ports_are_distinct() -> None:
    assert len(set(processes.free_ports(20))) == 20
