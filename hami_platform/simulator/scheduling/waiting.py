"""The scheduling queue: who is next, who waits for an event, who waits out an error. Knows nothing of nodes.

As measured on kube-scheduler v1.36: a pod that an extender turned down is asked about again at any event, without
backoff; a pod whose attempt failed waits 1, 2, 4 … 10 s whatever happens.
"""

from __future__ import annotations

import heapq
import threading
import time
from dataclasses import dataclass
from typing import Any

Obj = dict[str, Any]


@dataclass(slots=True)
class Entry:
    """One pod that is to be scheduled."""

    pod: Obj
    since: float
    attempts: int = 0
    errors: int = 0
    popped_at: int = 0  # number of the last event when the attempt began

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return str(self.pod["metadata"]["uid"])

    @property
    def rank(self) -> tuple[int, float, str]:
        """Priority first, then age."""
        return -int(self.pod["spec"].get("priority") or 0), self.since, self.uid


class Queue:
    """Pods to be scheduled. `base_s` is the first wait after an error, `cap_s` the longest."""

    def __init__(self, base_s: float = 1.0, cap_s: float = 10.0) -> None:
        self._base_s, self._cap_s = base_s, cap_s
        self._changed = threading.Condition()
        self._entries: dict[str, Entry] = {}
        self._state: dict[str, str] = {}  # uid -> active, waiting, backoff, busy
        self._active: list[tuple[tuple[int, float, str], str]] = []
        self._backoff: list[tuple[float, str]] = []
        self._events = 0
        self._closed = False

    def put(self, pod: Obj) -> None:
        """A new or changed unscheduled pod; any change of it makes it active unless an error holds it."""
        uid = pod["metadata"]["uid"]
        with self._changed:
            entry = self._entries.get(uid)
            if entry is None:
                entry = self._entries[uid] = Entry(pod, time.monotonic())
                self._activate(entry)
            else:
                entry.pod = pod
                # A pod that is being bound stays busy, for good when an extender says yes and binds nothing.
                if self._state[uid] == "waiting":
                    self._activate(entry)
                elif self._state[uid] == "busy":
                    entry.popped_at = -1  # its own change came during the attempt

    def drop(self, uid: str) -> None:
        """The pod is gone, bound or gated."""
        with self._changed:
            self._entries.pop(uid, None)
            self._state.pop(uid, None)

    def knows(self, uid: str) -> bool:
        """True while the pod is to be scheduled."""
        with self._changed:
            return uid in self._entries

    def event(self) -> None:
        """Something in the cluster changed: every waiting pod is tried again."""
        with self._changed:
            self._events += 1
            for uid, state in list(self._state.items()):
                if state == "waiting":
                    self._activate(self._entries[uid])

    def pop(self) -> Entry | None:
        """The next pod to schedule; waits for one. None when the queue was closed."""
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                self._end_backoffs(now)
                entry = self._next()
                if entry is not None:
                    entry.attempts += 1
                    entry.popped_at = self._events
                    self._state[entry.uid] = "busy"
                    return entry
                self._changed.wait(max(0.0, self._backoff[0][0] - now) if self._backoff else None)
            return None

    def turned_down(self, entry: Entry) -> None:
        """No node fits: wait for an event, unless one came during the attempt."""
        with self._changed:
            if self._state.get(entry.uid) != "busy":
                return
            entry.errors = 0
            if entry.popped_at != self._events:
                self._activate(entry)
            else:
                self._state[entry.uid] = "waiting"

    def failed(self, entry: Entry) -> None:
        """The attempt broke: wait, twice as long each time."""
        with self._changed:
            if self._state.get(entry.uid) != "busy":
                return
            wait_s = min(self._cap_s, self._base_s * 2**entry.errors)
            entry.errors += 1
            self._state[entry.uid] = "backoff"
            heapq.heappush(self._backoff, (time.monotonic() + wait_s, entry.uid))
            self._changed.notify_all()

    def close(self) -> None:
        """Let pop() return None."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def counts(self) -> dict[str, int]:
        """How many pods are active, waiting, backoff, busy."""
        with self._changed:
            return {
                name: sum(state == name for state in self._state.values())
                for name in ("active", "waiting", "backoff", "busy")
            }

    def _activate(self, entry: Entry) -> None:
        self._state[entry.uid] = "active"
        heapq.heappush(self._active, (entry.rank, entry.uid))
        self._changed.notify_all()

    def _next(self) -> Entry | None:
        while self._active:
            _, uid = heapq.heappop(self._active)
            if self._state.get(uid) == "active":
                return self._entries[uid]
        return None

    def _end_backoffs(self, now: float) -> None:
        while self._backoff and self._backoff[0][0] <= now:
            _, uid = heapq.heappop(self._backoff)
            if self._state.get(uid) == "backoff":
                self._activate(self._entries[uid])
