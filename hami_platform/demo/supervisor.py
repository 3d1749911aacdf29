"""Starts the demonstration's processes stage by stage and keeps watch over them until it is told to stop.

While starting, the end of any process is a failure. Afterwards a process that somebody killed is started again; one
that ended by itself is a failure. Must not know: what the processes are for.
"""

from __future__ import annotations

import pathlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from hami_platform.demo import processes

STAGE_WITHIN_S: Final = 120.0
_LOOK_EVERY_S: Final = 0.1


class Failed(Exception):
    """The demonstration cannot go on; the text says which process, and shows the end of its log."""


def say(text: str, end: str = "\n") -> None:
    """Tell the person at the terminal at once."""
    sys.stdout.write(text + end)
    sys.stdout.flush()


class Supervisor:
    """Owns the child processes. Use it from the main thread only."""

    def __init__(self, log_of: Callable[[str], pathlib.Path]) -> None:
        self._log_of = log_of
        self._running: dict[str, processes.Process] = {}
        self.began = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self.began

    @property
    def pids(self) -> dict[str, int]:
        """Process ids by name."""
        return {name: process.pid for name, process in self._running.items()}

    def start(self, *commands: processes.Command) -> None:
        """Start processes side by side."""
        for command in commands:
            self._running[command.name] = processes.Process(command, self._log_of(command.name))

    @contextmanager
    def stage(self, title: str) -> Iterator[None]:
        """Show how long a part of the start takes, and when it was done."""
        began = time.monotonic()
        say(f"  {title:<44}", end="")
        yield
        say(f"{time.monotonic() - began:5.1f} s   at {self.elapsed_s:5.1f} s")

    def wait(self, done: Callable[[], bool], what: str, within_s: float = STAGE_WITHIN_S) -> None:
        """Until `done`; an OSError of it means "not yet". Raises Failed when a process ends, or time runs out."""
        until = time.monotonic() + within_s
        while not _is(done):
            self._refuse_deaths()
            if time.monotonic() > until:
                raise Failed(f"{what} did not happen within {within_s:.0f} s; logs are in {self._log_of('x').parent}")
            time.sleep(_LOOK_EVERY_S)

    def run_through(self, *commands: processes.Command, within_s: float = STAGE_WITHIN_S) -> None:
        """Start processes that end by themselves, and wait for their success."""
        self.start(*commands)
        self.finish(*(command.name for command in commands), within_s=within_s)

    def finish(self, *names: str, within_s: float = STAGE_WITHIN_S) -> None:
        """Wait until these have ended well."""
        self.wait(lambda: all(self._running[name].status == 0 for name in names), " and ".join(names), within_s)

    def _refuse_deaths(self) -> None:
        for name, process in self._running.items():
            status = process.status
            if status is not None and (status or process.command.lasting):
                raise Failed(_obituary(name, process, status))

    def look_after(self) -> None:
        """Start again what somebody killed. Raises Failed for what ended by itself."""
        for name, process in list(self._running.items()):
            status = process.status
            if status is None or (status == 0 and not process.command.lasting):
                continue
            if -status not in processes.KILLED or not process.command.restarts:
                raise Failed(_obituary(name, process, status))
            process.end(time.monotonic())  # what it left behind
            say(f"  {name} {processes.how_it_ended(status)}; started again")
            self.start(process.command)

    def stop(self) -> None:
        """End everything."""
        processes.stop_all(list(self._running.values()))


def _is(done: Callable[[], bool]) -> bool:
    try:
        return done()
    except OSError:
        return False


def _obituary(name: str, process: processes.Process, status: int) -> str:
    return f"{name} {processes.how_it_ended(status)}. The end of its log:\n{process.tail()}"
