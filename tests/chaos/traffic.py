"""Pods that come and go while something is done to the platform, and when each step of theirs succeeded.

Must not know: what is done.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from types import TracebackType

from tests.chaos.cluster import Bound, Cluster

CREATORS = 4
PAUSE_S = 0.5
ALIVE = 10  # of each creator
MEM_MIB = 1000


class Traffic:
    """Creators make a pod, wait a little, and delete their oldest one; all in one namespace."""

    def __init__(self, cluster: Cluster, bound: Bound, namespace: str) -> None:
        self._cluster, self._bound, self._namespace = cluster, bound, namespace
        self._numbers = itertools.count()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, name=f"creator {n}") for n in range(CREATORS)]
        self.created: deque[float] = deque()
        self.refused: deque[str] = deque()

    def __enter__(self) -> Traffic:
        self._cluster.namespace(self._namespace)
        for one in self._threads:
            one.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for one in self._threads:
            one.join(150)

    @property
    def placed(self) -> list[float]:
        """When pods of this namespace were bound."""
        return sorted(at for (space, _), at in list(self._bound.at.items()) if space == self._namespace)

    def wait(self, what: str, moments: str, more: int, timeout_s: float = 60) -> None:
        """Until so many more successes of a kind (`created`, `placed`) than now."""
        goal = len(getattr(self, moments)) + more
        until = time.monotonic() + timeout_s
        while len(getattr(self, moments)) < goal:
            assert time.monotonic() < until, f"not within {timeout_s:g} s: {what}"
            time.sleep(0.05)

    def _run(self) -> None:
        alive: deque[str] = deque()
        while not self._over.wait(PAUSE_S):
            name = f"t{next(self._numbers):05}"
            why = self._cluster.create(self._namespace, name, MEM_MIB)
            if why:
                self.refused.append(why)
                continue
            self.created.append(time.monotonic())
            alive.append(name)
            if len(alive) > ALIVE:
                self._cluster.delete(self._namespace, alive.popleft())


def longest_gap_s(moments: list[float], since: float) -> float:
    """The longest time without a success from `since` until the last one after it; infinite when none came."""
    after = [since, *(at for at in sorted(moments) if at > since)]
    gaps = [later - earlier for earlier, later in itertools.pairwise(after)]
    return max(gaps, default=float("inf"))
