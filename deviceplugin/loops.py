"""Background loops of the agent: one thread each, woken early when there is news.

A step answers the failures it expects and returns how long to wait; anything else that it raises
is a fault of the program and ends the whole agent, since a loop that is silently gone would
leave the node half alive. Must not know: what the steps do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

Step = Callable[[], float]
"""Does one round; returns the seconds until the next."""


class Stop:
    """Asked once, seen by everyone. `faults` counts loops that ended by a fault."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.faults = 0

    def ask(self) -> None:
        """End everything."""
        self.event.set()


class Loop(threading.Thread):
    """Runs a step until asked to stop."""

    def __init__(self, name: str, step: Step, stop: Stop) -> None:
        super().__init__(name=name, daemon=True)
        self._step = step
        self._stop_ = stop
        self._news = threading.Event()

    def poke(self) -> None:
        """Run the next round now."""
        self._news.set()

    def run(self) -> None:
        """See Step."""
        sound = False
        try:
            while not self._stop_.event.is_set():
                self._news.wait(self._step())
                self._news.clear()
            sound = True
        finally:
            if not sound:
                self._stop_.faults += 1
            self._stop_.ask()

    def end(self, timeout_s: float) -> None:
        """Wait for the thread, after `Stop.ask`."""
        self.poke()
        self.join(timeout_s)
