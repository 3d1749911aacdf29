"""No child outlives its parent, and a stop leaves nothing behind."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable

import pytest

from hami_platform.demo import processes, supervisor

FOREVER = "import threading; threading.Event().wait()"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); {FOREVER}"


def command(code: str, name: str = "child", **flags: bool) -> processes.Command:
    return processes.Command(name, [sys.executable, "-c", code], dict(os.environ), pathlib.Path.cwd(), **flags)


def until(done: Callable[[], bool], within_s: float = 20.0) -> None:
    end = time.monotonic() + within_s
    while not done():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.02)


def gone(pid: int) -> bool:
    """Whether no such process runs; one that nobody has waited for yet has ended, too."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_killed_parent_takes_its_children_with_it(tmp_path: pathlib.Path) -> None:
    parent = textwrap.dedent(f"""
        import os, pathlib, sys, threading
        from hami_platform.demo import processes
        child = processes.Process(
            processes.Command("c", [sys.executable, "-c", {FOREVER!r}], dict(os.environ), pathlib.Path(".")),
            pathlib.Path({str(tmp_path / "log")!r}),
        )
        print(child.pid, flush=True)
        threading.Event().wait()
    """)
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        child = int(started.stdout.readline())
        assert not gone(child)
        started.kill()
    until(lambda: gone(child))


def test_stopping_uses_force_on_whom_asking_does_not_move(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "STOP_S", 0.2)
    log = tmp_path / "log"
    child = processes.Process(command(STUBBORN), log)
    until(lambda: "up" in child.tail())
    processes.stop_all([child])
    assert child.status == -signal.SIGKILL


def test_what_a_child_started_ends_with_it(tmp_path: pathlib.Path) -> None:
    code = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {FOREVER!r}]).pid, flush=True)"
    child = processes.Process(command(code), tmp_path / "log")
    until(lambda: child.status == 0)
    grandchild = int(child.tail())
    processes.stop_all([child])
    until(lambda: gone(grandchild))


def test_a_ctrl_c_of_the_terminal_reaches_the_parent_only(tmp_path: pathlib.Path) -> None:
    child = processes.Process(command(FOREVER), tmp_path / "log")
    try:
        assert os.getpgid(child.pid) != os.getpgid(0)
    finally:
        processes.stop_all([child])


def crew(tmp_path: pathlib.Path) -> supervisor.Supervisor:
    return supervisor.Supervisor(lambda name: tmp_path / f"{name}.log")


def test_a_death_while_starting_names_the_process_and_shows_its_log(tmp_path: pathlib.Path) -> None:
    team = crew(tmp_path)
    team.start(command("raise SystemExit('no such table')", "watcher"))
    with pytest.raises(supervisor.Failed, match=r"watcher ended with exit status 1(.|\n)*no such table"):
        team.wait(lambda: False, "anything")


def test_a_lasting_process_that_ends_well_has_failed_too(tmp_path: pathlib.Path) -> None:
    team = crew(tmp_path)
    team.start(command("", "web"))
    with pytest.raises(supervisor.Failed, match="web ended with exit status 0"):
        team.wait(lambda: False, "anything")


def test_a_command_may_end_well(tmp_path: pathlib.Path) -> None:
    team = crew(tmp_path)
    team.run_through(command("", "migrate", lasting=False))
    team.look_after()


def test_what_does_not_happen_in_time_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(supervisor.Failed, match="the page did not happen within 0 s"):
        crew(tmp_path).wait(lambda: False, "the page", within_s=0)


def test_whom_somebody_killed_is_started_again(tmp_path: pathlib.Path) -> None:
    team = crew(tmp_path)
    team.start(command(FOREVER, "watcher"))
    first = team.pids["watcher"]
    os.kill(first, signal.SIGKILL)
    until(lambda: gone(first))
    team.look_after()
    try:
        assert team.pids["watcher"] != first
        assert not gone(team.pids["watcher"])
    finally:
        team.stop()


def test_a_process_whose_state_is_lost_is_not_started_again(tmp_path: pathlib.Path) -> None:
    team = crew(tmp_path)
    team.start(command(FOREVER, "cluster", restarts=False))
    os.kill(team.pids["cluster"], signal.SIGKILL)
    until(lambda: gone(team.pids["cluster"]))
    with pytest.raises(supervisor.Failed, match="cluster was ended by signal 9"):
        team.look_after()


def test_a_process_that_ends_by_itself_later_is_a_failure(tmp_path: pathlib.Path) -> None:
    team = crew(tmp_path)
    team.start(command("raise SystemExit(3)", "worker"))
    until(lambda: gone(team.pids["worker"]))
    with pytest.raises(supervisor.Failed, match="worker ended with exit status 3"):
        team.look_after()
