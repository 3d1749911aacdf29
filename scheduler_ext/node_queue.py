"""Binds to one node, one after another, in the order in which they came.

HAMi's plugin can serve one allocation a node at a time, and its lock answers everybody else with a refusal; here the
next one waits its turn in process instead of going back through kube-scheduler. Re-entrant by pod uid: a repeated
`/bind` of the pod whose turn it is joins the running one and gets its answer. Nothing here holds a database
connection. Must not know: what a bind does, locks of other processes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDone
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


class Busy(Exception):
    """No slot is free, or the node's turn did not come in time. Nobody's fault; kube-scheduler asks again."""


@dataclass(slots=True)
class _Line:
    """Who waits for a node: the first in line has its turn."""

    waiting: deque[object] = field(default_factory=deque)


class NodeQueue(Generic[T]):
    """`run(node, uid, work)`; `slots` bounds the threads that are in it at any moment."""

    def __init__(self, slots: int) -> None:
        self._slots = threading.BoundedSemaphore(slots)
        self._turn = threading.Condition()
        self._lines: dict[str, _Line] = {}
        self._running: dict[tuple[str, str], Future[T]] = {}

    def run(self, node: str, uid: str, work: Callable[[], T], *, patience_s: float) -> T:
        """The result of `work`, run when it is this node's turn; raises Busy, or what `work` raises.

        A second call for the same node and uid waits for the first one's result instead.
        """
        if not self._slots.acquire(blocking=False):
            raise Busy("all bind slots are taken")
        try:
            mine: Future[T] = Future()
            running = self._first(node, uid, mine)
            if running is not mine:
                return self._join(running, node, patience_s)
            return self._lead(node, uid, mine, work, patience_s)
        finally:
            self._slots.release()

    @property
    def waiting(self) -> int:
        """How many binds wait or run now, for metrics."""
        with self._turn:
            return sum(len(line.waiting) for line in self._lines.values())

    def _first(self, node: str, uid: str, mine: Future[T]) -> Future[T]:
        with self._turn:
            return self._running.setdefault((node, uid), mine)

    def _join(self, running: Future[T], node: str, patience_s: float) -> T:
        try:
            return running.result(timeout=patience_s)
        except NotDone as error:
            if running.done():
                raise  # the work itself timed out
            raise Busy(f"timed out after {patience_s:g}s waiting for node {node}") from error

    def _lead(self, node: str, uid: str, mine: Future[T], work: Callable[[], T], patience_s: float) -> T:
        ticket = object()
        try:
            self._wait(node, ticket, patience_s)
            result = work()
        except BaseException as error:
            self._leave(node, uid, ticket)
            mine.set_exception(error)
            raise
        self._leave(node, uid, ticket)
        mine.set_result(result)
        return result

    def _wait(self, node: str, ticket: object, patience_s: float) -> None:
        with self._turn:
            line = self._lines.setdefault(node, _Line())
            line.waiting.append(ticket)
            if not self._turn.wait_for(lambda: line.waiting[0] is ticket, timeout=patience_s):
                raise Busy(f"timed out after {patience_s:g}s waiting for node {node} to be unlocked")

    def _leave(self, node: str, uid: str, ticket: object) -> None:
        with self._turn:
            self._running.pop((node, uid), None)
            line = self._lines[node]
            line.waiting.remove(ticket)
            if not line.waiting:
                del self._lines[node]
            self._turn.notify_all()
