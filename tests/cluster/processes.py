"""Child processes of the test run: started with a log, watched, stopped, and never left behind.

Must not know: what Kubernetes is.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_LIBC = ctypes.CDLL(None, use_errno=True)


class ProcessEnded(Exception):
    """A process that should be running has ended, or did not become ready in time."""


class Process:
    """One child in a session of its own, writing to `log`.

    Start it from the main thread: the kernel sends the parent-death signal when the *thread* that
    forked ends, not the process.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        on_parent_death: signal.Signals = signal.SIGKILL,
    ) -> None:
        self.name = name
        self.log = log
        self._command = list(command)
        self._environment = dict(os.environ if environment is None else environment)
        self._directory = directory
        self._on_parent_death = on_parent_death
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> Process:
        """Start the process; its output is appended to the log."""
        if self.alive():
            raise ProcessEnded(f"{self.name} is running already")
        parent, sign = os.getpid(), self._on_parent_death

        def die_with_parent() -> None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, sign)
            if os.getppid() != parent:  # it ended before the call above
                os._exit(1)

        with self.log.open("ab") as output:
            self._child = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                cwd=self._directory,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - calls nothing that takes a lock
            )
        return self

    @property
    def pid(self) -> int:
        """Its process id. Raises ProcessEnded before the first start."""
        if self._child is None:
            raise ProcessEnded(f"{self.name} was never started")
        return self._child.pid

    def alive(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._child is not None and self._child.poll() is None

    def cpu_s(self) -> float:
        """Processor time that it and its living children have used so far, seconds."""
        return sum(cpu_s(pid) for pid in family(self.pid))

    def stop(self, timeout_s: float = 15) -> None:
        """End it politely, then by force. Whatever it started ends with it."""
        self._signal(signal.SIGTERM)
        self._reap(timeout_s)
        self._signal_group(signal.SIGKILL)

    def kill(self) -> None:
        """End it and all its children at once, as a power cut would."""
        self._signal_group(signal.SIGKILL)
        self._reap(10)

    def pause(self) -> None:
        """SIGSTOP, children included: it holds what it holds, and says nothing."""
        self._signal_group(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._signal_group(signal.SIGCONT)

    def wait_until(self, ready: Callable[[], bool], timeout_s: float = 60) -> None:
        """Poll `ready`. Raises ProcessEnded with the log's end when the process ends or time runs out."""
        deadline = time.monotonic() + timeout_s
        while not self._answers(ready):
            if not self.alive():
                raise ProcessEnded(f"{self.name} ended while starting; its log:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise ProcessEnded(f"{self.name} is not ready after {timeout_s:.0f} s; its log:\n{self.tail()}")
            time.sleep(0.05)

    def tail(self, lines: int = 40) -> str:
        """The last lines of its log."""
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    @staticmethod
    def _answers(ready: Callable[[], bool]) -> bool:
        try:
            return ready()
        except OSError:  # not listening yet
            return False

    def _signal(self, number: signal.Signals) -> None:
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)

    def _signal_group(self, number: signal.Signals) -> None:
        # The session was made for this child, so its group holds nobody else's processes.
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, number)

    def _reap(self, timeout_s: float) -> None:
        if self._child is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(timeout_s)


def family(pid: int) -> list[int]:
    """The process and all that descend from it; without those that end meanwhile."""
    found = [pid]
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        found += [one for child in children for one in family(int(child))]
    return found


def cpu_s(pid: int) -> float:
    """Processor time of one process so far, seconds; 0 for one that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def free_ports(count: int) -> list[int]:
    """Distinct loopback ports that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
