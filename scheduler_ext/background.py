"""What must not cost a decision any time: a bounded queue and one thread that writes batches of it.

A full queue drops what comes and counts it; a failing writer is logged and its batch is lost. So only what can be
lost may go here. Must not know: what is written, and where.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from hami_platform import logs

T = TypeVar("T")

_log = logs.get(__name__)

Taker = Callable[[str, Any], None]
_taker: Taker | None = None


@contextmanager
def diverted(taker: Taker) -> Iterator[None]:
    """While the block runs, whatever is put into any queue goes to `taker(name of the queue, item)` at once.

    For whoever wants to see all of it and have nothing written: the conformance runner.
    """
    global _taker
    before, _taker = _taker, taker
    try:
        yield
    finally:
        _taker = before


def diverting() -> bool:
    """Whether somebody takes everything that is put into a queue."""
    return _taker is not None


class Batcher(Generic[T]):
    """`put` never waits. The thread starts with the first item, so that a process forked before has its own."""

    def __init__(
        self, name: str, write: Callable[[list[T]], None], *, depth: int, batch: int = 200, linger_s: float = 0.1
    ) -> None:
        self._name, self._write = name, write
        self._depth, self._batch, self._linger_s = depth, batch, linger_s
        self._items: deque[T] = deque()
        self._state = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._writing = False
        self.dropped = 0

    def put(self, item: T) -> bool:
        """Take it for writing; False (and counted) when the queue is full or closed."""
        if _taker is not None:
            _taker(self._name, item)
            return True
        with self._state:
            if self._closed or len(self._items) >= self._depth:
                self.dropped += 1
                return False
            self._items.append(item)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._state.notify_all()
            return True

    @property
    def depth(self) -> int:
        """How many items wait."""
        with self._state:
            return len(self._items)

    def flush(self, timeout_s: float) -> bool:
        """Wait until all that was put has been written or lost; False after the time-out."""
        with self._state:
            return self._state.wait_for(lambda: not self._items and not self._writing, timeout=timeout_s)

    def close(self, timeout_s: float) -> None:
        """Take nothing more, write what is there, end the thread."""
        with self._state:
            self._closed = True
            self._state.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._items or self._closed)
                if not self._items:
                    return
                self._gather()
                batch = [self._items.popleft() for _ in range(min(self._batch, len(self._items)))]
                self._writing = True
            try:
                self._write(batch)
            except Exception:  # noqa: BLE001  the thread must outlive whatever the writer meets
                _log.exception("batch_lost", queue=self._name, items=len(batch))
            finally:
                with self._state:
                    self._writing = False
                    self._state.notify_all()

    def _gather(self) -> None:
        """Wait a little for company: one write of ten is cheaper than ten of one."""
        end = time.monotonic() + self._linger_s
        while len(self._items) < self._batch and not self._closed:
            left = end - time.monotonic()
            if left <= 0 or not self._state.wait(left):
                return
