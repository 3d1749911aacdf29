"""Child processes that cannot outlive this one. Knows nothing of what they do."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

_PR_SET_PDEATHSIG = 1  # source: Linux, include/uapi/linux/prctl.h
_STOP_S = 5.0
_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that started it ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Child:
    """One process; start it in the main thread, since the kernel watches the thread that forked."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        parent = os.getpid()

        def prepare() -> None:
            die_with_parent()
            if os.getppid() != parent:  # it ended before the call above
                os._exit(1)

        self._process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **environment},
            preexec_fn=prepare,  # noqa: PLW1509 - it takes no lock
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def stop(self) -> None:
        """SIGTERM, then SIGKILL."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
