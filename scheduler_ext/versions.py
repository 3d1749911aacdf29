"""The resourceVersion that each pod had when `/filter` placed it, so that its bind need not read it again.

It is a precondition of the Binding: a pod that has changed since makes the Binding fail, and then the pod is read. One
for a process, bounded; what is missing costs one request. Must not know: what is bound where.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

MOST = 10_000


class Versions:
    """uid → resourceVersion, taken out once."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, uid: str, version: int) -> None:
        """This pod had this resourceVersion when it was placed; 0: not known."""
        if not uid or not version:
            return
        with self._lock:
            self._kept[uid] = version
            self._kept.move_to_end(uid)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def take(self, uid: str) -> int:
        """What was noted last; 0 for nothing. Another bind of the same pod reads it."""
        with self._lock:
            return self._kept.pop(uid, 0)
