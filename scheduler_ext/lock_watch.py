"""Binds that wait for a node's lock share one look at the ledger.

Binds come in bursts onto the node that is packed, and each has to wait for the one before it. If each looked for
itself, fifty looks a second and waiting bind would cost more than the binds. Must not know: what a lock is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from hami_platform.domain.view import View

LOOK_S = 0.02
"""Between two looks, while anybody waits."""

SHARE = 0.1
"""Of the time at most looks take: where one takes long, because the machine is busy, looks would make it busier."""

LONGEST_S = 0.2
"""Between two looks at most."""


def pause_after(look_s: float) -> float:
    """How long to wait after a look that took so long, seconds."""
    return min(LONGEST_S, max(LOOK_S, look_s / SHARE))


class LockWatch:
    """`wait` may be called by many threads; one of them looks for all.

    look: gives the View as of now, and holds no database connection afterwards.
    """

    def __init__(self, look: Callable[[], View]) -> None:
        self._look = look
        self._state = threading.Condition()
        self._looking = False
        self._looks = 0
        self._pause_s = LOOK_S
        self._view = View()
        self._pause = threading.Event()  # never set: a wait on it is a pause

    def wait(self, free: Callable[[View], bool], *, timeout_s: float) -> bool:
        """Whether a View came of which `free` is true, within the time. Raises what `look` raises."""
        end = time.monotonic() + timeout_s
        while (left_s := end - time.monotonic()) > 0:
            view = self._next(left_s)
            if view is not None and free(view):
                return True
        return False

    def _next(self, left_s: float) -> View | None:
        """The View of the next look, made by this thread or by another one; None where that failed or took too long."""
        with self._state:
            if self._looking:
                before = self._looks
                self._state.wait_for(lambda: self._looks != before or not self._looking, timeout=left_s)
                return self._view if self._looks != before else None
            self._looking = True
        view: View | None = None
        try:
            self._pause.wait(min(self._pause_s, left_s))
            began = time.monotonic()
            view = self._look()
            self._pause_s = pause_after(time.monotonic() - began)
        finally:
            self._done(view)
        return view

    def _done(self, view: View | None) -> None:
        with self._state:
            self._looking = False
            if view is not None:
                self._view = view
                self._looks += 1
            self._state.notify_all()
