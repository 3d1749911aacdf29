"""One thread that does things now or later, in order. Knows nothing of what it does."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

Work = Callable[[], None]
_log = logging.getLogger(__name__)


class Worker:
    """Runs what it is given in a thread of its own; a failure of one piece is logged and ends that piece only."""

    def __init__(self, name: str) -> None:
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Work]] = []
        self._order = itertools.count()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the piece that runs now; what is due later is dropped."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(30)

    def submit(self, work: Work, delay_s: float = 0.0) -> None:
        """Do something as soon as possible, or after a delay."""
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + delay_s, next(self._order), work))
            self._changed.notify_all()

    def _run(self) -> None:
        while (work := self._next()) is not None:
            try:
                work()
            except Exception:  # noqa: BLE001 - one pod's fault must not stop a node
                _log.exception("simulated kubelet: work failed")

    def _next(self) -> Work | None:
        with self._changed:
            while not self._stopped:
                wait_s = self._due[0][0] - time.monotonic() if self._due else None
                if wait_s is not None and wait_s <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(wait_s)
            return None
