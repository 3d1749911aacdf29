"""Child processes that cannot outlive this one: started with a log, watched, stopped.

The kernel kills them when this process ends, however it ends. Must not know: what they do.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

_PR_SET_PDEATHSIG: Final = 1  # source: Linux, include/uapi/linux/prctl.h
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
STOP_S: Final = 4.0
# Deaths by these are somebody's doing, not a fault of the process.
KILLED: Final = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})


@dataclass(frozen=True, slots=True)
class Command:
    """What to run. `lasting`: its end by itself is a failure. `restarts`: somebody may kill it, and it comes again."""

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    folder: pathlib.Path
    lasting: bool = True
    restarts: bool = True


class Process:
    """One child in a session of its own, so that a terminal's Ctrl-C reaches only its parent.

    Make it in the main thread: the kernel sends the parent-death signal when the *thread* that forked ends.
    """

    def __init__(self, command: Command, log: pathlib.Path) -> None:
        self.command = command
        self._log = log
        parent = os.getpid()

        def die_with_parent() -> None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # it ended before the call above
                os._exit(1)

        with log.open("ab") as output:
            self._child = subprocess.Popen(
                command.arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=command.environment,
                cwd=command.folder,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one thread, and it takes no lock
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    @property
    def status(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""
        return self._child.poll()

    def tail(self, lines: int = 30) -> str:
        """The last lines of its log."""
        text = self._log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:]) or "(it logged nothing)"

    def ask_to_stop(self) -> None:
        """SIGTERM, if it still runs."""
        if self.status is None:
            self._child.terminate()

    def end(self, until: float) -> None:
        """Wait for it until a moment of the monotonic clock, then kill it and all that it started."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(max(0.0, until - time.monotonic()))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)  # the session was made for this child: nobody else is in its group
        self._child.wait()


def how_it_ended(status: int) -> str:
    """An exit status in words."""
    if status < 0:
        return f"was ended by signal {-status} ({signal.Signals(-status).name})"
    return f"ended with exit status {status}"


def stop_all(processes: Sequence[Process]) -> None:
    """Ask all at once, wait a little, then use force."""
    for process in processes:
        process.ask_to_stop()
    until = time.monotonic() + STOP_S
    for process in processes:
        process.end(until)
