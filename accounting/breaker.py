"""Says at once that the ledger is unavailable, after it failed, until a background probe succeeds.

It must not know what is asked of the ledger; it only keeps callers from queueing behind a dead database.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

PROBE_INTERVAL_S = 0.25


class LedgerUnavailable(Exception):
    """The database cannot be reached, or its Clock is held by a stopped process. Nobody's input is at fault; try
    again."""


class Breaker:
    """Closed: calls pass. Open: `check` raises within microseconds; a daemon thread probes and closes it again."""

    def __init__(self, probe: Callable[[], None]) -> None:
        self._probe = probe
        self._lock = threading.Lock()
        self._why = ""
        self._wake = threading.Event()

    @property
    def why(self) -> str:
        """The failure that opened the breaker; empty while closed."""
        return self._why

    def check(self) -> None:
        """Raise LedgerUnavailable while open."""
        if self._why:
            raise LedgerUnavailable(self._why)

    def trip(self, why: str) -> None:
        """Open, and start probing unless somebody does already."""
        with self._lock:
            if self._why:
                return
            self._why = why or "database unavailable"
        threading.Thread(target=self._until_it_answers, name="ledger-probe", daemon=True).start()

    def _until_it_answers(self) -> None:
        while True:
            self._wake.wait(PROBE_INTERVAL_S)
            try:
                self._probe()
            except Exception:  # noqa: BLE001, S112  (whatever fails, the ledger is not back yet)
                continue
            self._why = ""
            return
