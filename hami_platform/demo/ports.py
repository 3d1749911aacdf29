"""Which loopback ports the demonstration listens on: the usual ones, or the next that are free."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Final

FIRST: Final = 8800
_TRIED: Final = 200


@dataclass(frozen=True, slots=True)
class Ports:
    """One port for each listener."""

    web: int
    api: int
    webhook: int
    extender: int


def choose(first: int = FIRST) -> Ports:
    """The four lowest free ports from `first` on. Raises OSError when there are not so many."""
    found: list[int] = []
    for port in range(first, min(first + _TRIED, 65536)):
        if _free(port):
            found.append(port)
        if len(found) == 4:
            return Ports(*found)
    raise OSError(f"no four free ports from {first} on")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers bind: a port whose last connections are still closing is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
