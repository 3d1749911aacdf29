"""Whether this process is the watcher in office, as it knows itself. Nothing is decided by it: writes carry the epoch.

An office ends here no later than in the database: its end is counted from before the lease was asked for, so a process
that was stopped or cut off does not take itself for the one in office when it comes back.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable


def identity() -> str:
    """A name that no other process has, now or later. Host and number alone do not do: two pods in one node's network
    have the node's name, and each believes to be process 1."""
    return f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}"


class Office:
    """One for a process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._mutex = threading.Lock()
        self._epoch: int | None = None
        self._until_s = 0.0

    def now_s(self) -> float:
        """To be read before the lease is asked for."""
        return self._clock()

    def held(self, epoch: int | None, *, asked_s: float, ttl_s: float) -> None:
        """What the database answered: the epoch, or None where somebody else is in office."""
        with self._mutex:
            self._epoch, self._until_s = epoch, asked_s + ttl_s

    @property
    def epoch(self) -> int | None:
        """The epoch while the lease certainly lasts, else None."""
        with self._mutex:
            return self._epoch if self._clock() < self._until_s else None


OFFICE = Office()
