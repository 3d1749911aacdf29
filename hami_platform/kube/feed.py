"""Several reflectors as one queue: what a process that follows nodes, pods and quotas reads from.

One thread a reflector, all ended and joined by `close()`. The queue is bounded, so a slow
reader slows the watches instead of filling memory. Must not know: what the objects mean.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hami_platform.kube import listwatch

Batch = listwatch.Listed[Any] | listwatch.Changed[Any] | listwatch.Failed


@dataclass(frozen=True, slots=True)
class Part:
    """One batch and the name of the reflector it came from."""

    source: str
    batch: Batch


class Feed:
    """A context manager; `take()` belongs to one reader.

    pace_s: while batches come one after another, `take()` returns once in so long: what came meanwhile comes together.
    """

    def __init__(
        self, sources: Mapping[str, listwatch.Reflector[Any]], *, depth: int = 1000, pace_s: float = 0.0
    ) -> None:
        self._pace_s, self._took_s = pace_s, -math.inf
        self._sources = dict(sources)
        self._queue: queue.Queue[Part | BaseException] = queue.Queue(depth)
        self._closed = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=item, name=f"feed-{item[0]}", daemon=True)
            for item in sources.items()
        ]

    def __enter__(self) -> Feed:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the reflectors and wait for their threads."""
        self._closed.set()
        for source in self._sources.values():
            source.stop()
        for thread in self._threads:
            while thread.is_alive():
                self._drain()  # a thread may be blocked on a full queue
                thread.join(0.05)

    def take(self, *, wait_s: float, limit: int = 500) -> list[Part]:
        """Up to `limit` batches: whatever is there, else what comes within `wait_s`, else [].

        Consecutive changes of one source are merged. Raises what ended a reflector's thread,
        which is a fault of ours: an API server that fails is a `Failed`.
        """
        parts: list[Part] = []
        try:
            parts.append(self._next(self._queue.get(timeout=wait_s)))
            if (left_s := self._took_s + self._pace_s - time.monotonic()) > 0:
                self._closed.wait(left_s)
            self._took_s = time.monotonic()
            while len(parts) < limit:
                parts.append(self._next(self._queue.get_nowait()))
        except queue.Empty:
            pass
        return merged(parts)

    def _next(self, got: Part | BaseException) -> Part:
        if isinstance(got, BaseException):
            raise got
        return got

    def _drain(self) -> None:
        try:
            while True:
                self._queue.get_nowait()
        except queue.Empty:
            pass

    def _run(self, name: str, source: listwatch.Reflector[Any]) -> None:
        try:
            for batch in source.batches():
                self._put(Part(name, batch))
        except Exception as error:  # noqa: BLE001  it is raised again in the reader's thread
            self._put(error)

    def _put(self, item: Part | BaseException) -> None:
        while not self._closed.is_set():
            try:
                self._queue.put(item, timeout=0.2)
            except queue.Full:
                continue
            return


def merged(parts: list[Part]) -> list[Part]:
    """The same parts, with neighbouring changes of one source as one `Changed`."""
    out: list[Part] = []
    for part in parts:
        last = out[-1] if out else None
        if (
            last is not None
            and last.source == part.source
            and isinstance(last.batch, listwatch.Changed)
            and isinstance(part.batch, listwatch.Changed)
        ):
            events = last.batch.events + part.batch.events
            out[-1] = Part(part.source, listwatch.Changed(events, part.batch.revision))
        else:
            out.append(part)
    return out
