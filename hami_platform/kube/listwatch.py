"""List, then watch, for ever: how a process keeps up with one kind of object.

A `Reflector` runs in its caller's thread and yields batches; it makes no thread. Every batch
after a `Listed` continues from it without a gap: a cut or idle watch resumes from the last
revision seen, a revision that is too old (410) starts over with a consistent LIST, and so does
the calendar, since a watch is not trusted to deliver everything. Events may repeat.
Must not know: what objects mean, the ledger.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from hami_platform.kube import api as ports
from hami_platform.kube import calls, errors, objects

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """Everything there is at `revision`; whatever is not in it is gone."""

    items: tuple[T, ...]
    revision: str


@dataclass(frozen=True, slots=True)
class Event(Generic[T]):
    """`deleted`: the object is the last state before it went."""

    object: T
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Changed(Generic[T]):
    """Events in order, then the revision up to which nothing is missing."""

    events: tuple[Event[T], ...]
    revision: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The API server could not be read; another try follows after `wait_s`. For logs and age."""

    error: errors.KubeError
    wait_s: float


Batch = Listed[T] | Changed[T] | Failed


@dataclass(frozen=True, slots=True)
class Timing:
    """Intervals in seconds.

    watch_s: asked of the server, so that load spreads again. idle_s: a live server sends a
    bookmark each minute (kubernetes apiserver storage/cacher, defaultBookmarkFrequency), so
    silence for longer is a dead connection. relist_s: the calendar's full LIST.
    """

    page: int = 500
    watch_s: int = 300
    idle_s: float = 90.0
    relist_s: float = 600.0
    first_wait_s: float = 0.2
    longest_wait_s: float = 15.0


def backoff(timing: Timing, failures: int, spread: float) -> float:
    """Seconds before the next try after so many failures in a row; spread in [0, 1) is jitter.

    Doubles up to the longest; half of it is jitter, so that replicas do not return together.
    """
    full = min(timing.longest_wait_s, timing.first_wait_s * 2.0 ** min(failures - 1, 20))
    return full / 2 + full / 2 * spread


class Reflector(Generic[T]):
    """Follows one collection. `batches()` runs in one thread; `stop()` may come from any.

    keep: what a `Listed` has of each object. Made page by page, so that of a large collection no more than a page is in
    memory as it came; events have the objects themselves.
    """

    def __init__(
        self,
        api: ports.Api,
        listing: calls.Listing[T],
        timing: Timing | None = None,
        *,
        keep: Callable[[T], Any] | None = None,
    ) -> None:
        self._api, self._listing, self._keep = api, listing, keep
        self._timing = timing or Timing()
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._stream: ports.Stream[objects.WatchEvent] | None = None
        self._failures = 0
        self._listed_at = 0.0

    def stop(self) -> None:
        """End `batches()` soon, also when it is blocked in a read or a wait. Idempotent."""
        self._stopped.set()
        with self._lock:
            if self._stream is not None:
                self._stream.close()

    def batches(self) -> Iterator[Batch[T]]:
        """Listed, then Changed ..., for ever; Failed where the server could not be read."""
        revision = ""
        while not self._stopped.is_set():
            try:
                if not revision or self._stale():
                    listed = self._list()
                    revision = listed.revision
                    yield listed
                with contextlib.closing(self._watch(revision)) as changes:
                    for changed in changes:
                        revision, self._failures = changed.revision, 0
                        if changed.events:
                            yield changed
                        if self._stale():
                            break
            except errors.KubeError as error:
                if isinstance(error, errors.Gone):
                    revision = ""
                yield from self._failed(error)

    def _stale(self) -> bool:
        return time.monotonic() - self._listed_at > self._timing.relist_s

    def _failed(self, error: errors.KubeError) -> Iterator[Failed]:
        self._failures += 1
        wait_s = backoff(self._timing, self._failures, random.random())  # noqa: S311  jitter
        if isinstance(error, errors.ApiError):
            wait_s = max(wait_s, min(error.retry_after_s, self._timing.longest_wait_s))
        if not self._stopped.is_set():
            yield Failed(error, wait_s)
            self._stopped.wait(wait_s)

    def _list(self) -> Listed[T]:
        """A consistent list, page by page; a page that is too old is asked again unpaged."""
        started = time.monotonic()
        try:
            listed = self._pages(self._timing.page)
        except errors.Gone:
            listed = self._pages(0)
        self._listed_at = started
        return listed

    def _pages(self, limit: int) -> Listed[T]:
        items: list[Any] = []
        token, more = "", True
        while more:
            page = self._api.send(self._listing.page(limit=limit, token=token))
            items.extend(page.items if self._keep is None else map(self._keep, page.items))
            token, revision = page.metadata.continue_, page.metadata.resource_version
            del page  # before the next one comes
            more = bool(token)
        return Listed(tuple(items), revision)

    def _watch(self, revision: str) -> Generator[Changed[T]]:
        """One watch until it ends. One that ends before its first line counts as a failure."""
        timing = self._timing
        call = self._listing.watch(revision=revision, timeout_s=timing.watch_s)
        began, lines = time.monotonic(), 0
        stream = self._api.watch(call, idle_s=timing.idle_s)
        if not self._adopt(stream):
            return
        try:
            for line in stream:
                lines += 1
                yield self._read(line)
        finally:
            self._adopt(None)
            stream.close()
        if not lines and time.monotonic() - began < timing.first_wait_s * 5:
            raise errors.Ambiguous("the watch was cut before its first event")

    def _adopt(self, stream: ports.Stream[objects.WatchEvent] | None) -> bool:
        """Make `stop()` reach this stream; False (and closed) when it came first."""
        with self._lock:
            self._stream = stream
            if stream is not None and self._stopped.is_set():
                stream.close()
                return False
            return True

    def _read(self, line: objects.WatchEvent) -> Changed[T]:
        if line.type == "ERROR":
            raise _refusal(line)
        try:
            revision = objects.decode(line.object, objects.Object).metadata.resource_version
            if line.type == "BOOKMARK":
                return Changed((), revision)
            item = objects.decode(line.object, self._listing.item)
        except objects.Undecodable as error:
            raise errors.Ambiguous(f"{self._listing.path}: {error}") from error
        return Changed((Event(item, line.type == "DELETED"),), revision)


def _refusal(line: objects.WatchEvent) -> errors.KubeError:
    """An ERROR line holds a Status; 410 means that the revision is too old."""
    try:
        status = objects.decode(line.object, objects.Status)
    except objects.Undecodable as error:
        return errors.Ambiguous(f"an unreadable error in a watch: {error}")
    return errors.refused(status.code or 500, status.reason, status.message)
