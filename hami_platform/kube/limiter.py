"""A token bucket over all threads of a process, so that a burst of ours cannot drown the API server.

Must not know: what is being limited.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Limiter:
    """At most `per_s` passes a second in the long run, `burst` at once; per_s 0: no limit.

    Passes are handed out in order of arrival: each caller books its moment under the lock and
    sleeps outside it.
    """

    def __init__(
        self,
        per_s: float,
        burst: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._interval = 1 / per_s if per_s > 0 else 0.0
        self._ahead = self._interval * max(burst - 1, 0)
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()
        self._next = clock()  # the moment at which the bucket would be full again

    def book(self, patience_s: float) -> float | None:
        """Seconds to wait for the next pass, or None (nothing booked) if more than patience_s."""
        with self._lock:
            now = self._clock()
            start = max(self._next, now)
            wait = max(start - self._ahead - now, 0.0)
            if wait > patience_s:
                return None
            self._next = start + self._interval
            return wait

    def take(self, patience_s: float) -> bool:
        """Wait for a pass. False at once if it would take longer than patience_s."""
        wait = self.book(patience_s)
        if wait:
            self._sleep(wait)
        return wait is not None
