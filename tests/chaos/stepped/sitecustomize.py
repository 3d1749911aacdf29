"""Gives a process, and what it forks, a wall clock that is off by as many seconds as a file says, moment by moment.

Put this folder on PYTHONPATH and name the file in CHAOS_CLOCK_FILE. Clocks that only run forward stay as they are.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import time_machine

_FILE = Path(os.environ["CHAOS_CLOCK_FILE"])
_LOOK_S = 0.1


def _follow() -> None:
    import time

    pause, off_s, travel = threading.Event(), 0.0, None
    while True:
        wanted_s = float(_FILE.read_text(encoding="utf-8") or 0)
        if wanted_s != off_s:
            if travel is not None:
                travel.stop()
            travel = time_machine.travel(time.time() + wanted_s, tick=True)
            travel.start()
            off_s = wanted_s
        pause.wait(_LOOK_S)


def _begin() -> None:
    threading.Thread(target=_follow, name="stepped clock", daemon=True).start()


_begin()
os.register_at_fork(after_in_child=_begin)
