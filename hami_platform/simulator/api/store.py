"""Objects with one global revision, compare-and-set writes and a bounded window of past events.

It plays etcd and the watch cache. It knows nothing of kinds, HTTP or admission; objects given to it are never
changed afterwards, so readers need no copy.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from hami_platform.simulator.api.types import Obj, Resource

Key = tuple[str, str]
"""Namespace ("" when cluster-scoped) and name."""


class Stale(Exception):
    """Compare-and-set lost: the object is not the one that was read."""


class Compacted(Exception):
    """The revision is older than the window of events that is kept; `oldest` is the first that still works."""

    def __init__(self, oldest: int) -> None:
        super().__init__(oldest)
        self.oldest = oldest


@dataclass(frozen=True, slots=True)
class Stored:
    """One version of an object; `raw` is its JSON, encoded once."""

    key: Key
    revision: int
    obj: Obj
    raw: bytes


@dataclass(frozen=True, slots=True)
class Event:
    """One change: `before` is None when the object is new, `after` carries the last state when it is gone."""

    revision: int
    before: Stored | None
    after: Stored
    gone: bool


@dataclass(slots=True)
class _Shelf:
    """All objects of one resource and their recent events."""

    changed: threading.Condition
    items: dict[Key, Stored] = field(default_factory=dict)
    log: list[Event] = field(default_factory=list)
    first: int = 0  # absolute position of log[0]
    compacted: int = 0  # events up to this revision are no longer kept


class Store:
    """The storage of one API server. `window` events per resource are kept for watchers that come back."""

    def __init__(self, window: int = 4096) -> None:
        self.lock = threading.RLock()
        self._window = window
        self._revision = 1
        self._shelves: dict[str, _Shelf] = {}

    @property
    def revision(self) -> int:
        """The newest revision."""
        with self.lock:
            return self._revision

    def get(self, resource: Resource, key: Key) -> Stored | None:
        """The current version, or None."""
        with self.lock:
            return self._shelf(resource).items.get(key)

    def objects(self, resource: Resource, namespace: str = "") -> tuple[int, list[Stored]]:
        """The revision and all objects in key order; an empty namespace means all of them."""
        with self.lock:
            items = self._shelf(resource).items
            found = [item for key, item in items.items() if not namespace or key[0] == namespace]
            revision = self._revision
        return revision, sorted(found, key=lambda item: item.key)

    def count(self, resource: Resource) -> int:
        """How many objects there are."""
        with self.lock:
            return len(self._shelf(resource).items)

    def put(self, resource: Resource, key: Key, obj: Obj, *, expected: Stored | None) -> Stored:
        """Write a new version over `expected` (None: there is no object). Raises Stale. Takes the object over."""
        with self.lock:
            shelf = self._shelf(resource)
            before = shelf.items.get(key)
            if before is not expected:
                raise Stale
            stored = self._stored(key, obj)
            shelf.items[key] = stored
            self._append(shelf, Event(stored.revision, before, stored, gone=False))
            return stored

    def remove(self, resource: Resource, key: Key, *, expected: Stored, last: Obj) -> Stored:
        """Take the object away; `last` is the state that watchers see. Raises Stale."""
        with self.lock:
            shelf = self._shelf(resource)
            if shelf.items.get(key) is not expected:
                raise Stale
            stored = self._stored(key, last)
            del shelf.items[key]
            self._append(shelf, Event(stored.revision, expected, stored, gone=True))
            return stored

    def compact(self) -> None:
        """Forget all past events: every watch must list again."""
        with self.lock:
            for shelf in self._shelves.values():
                self._trim(shelf, len(shelf.log))
                shelf.compacted = self._revision
                shelf.changed.notify_all()

    def subscribe(self, resource: Resource, after: int | None) -> tuple[int, int, list[Stored]]:
        """Where a watch begins: (position in the log, revision, initial objects).

        `after` None asks for the current objects first; a revision asks for the events after it. Raises Compacted.
        """
        with self.lock:
            shelf = self._shelf(resource)
            if after is None:
                return shelf.first + len(shelf.log), self._revision, list(shelf.items.values())
            if after < shelf.compacted:
                raise Compacted(shelf.compacted)
            skipped = sum(1 for _ in self._until(shelf, after))
            return shelf.first + skipped, after, []

    def wait(self, resource: Resource, position: int, timeout_s: float) -> tuple[int, int, list[Event]]:
        """Events from `position` on: (next position, revision, events); empty after the timeout. Raises Compacted."""
        with self.lock:
            shelf = self._shelf(resource)
            if position >= shelf.first + len(shelf.log):
                shelf.changed.wait(timeout_s)
            if position < shelf.first:
                raise Compacted(shelf.compacted)
            events = shelf.log[position - shelf.first :]
            return position + len(events), self._revision, events

    def wake(self) -> None:
        """Let every waiting watch look around (the server stops, or its connections are cut)."""
        with self.lock:
            for shelf in self._shelves.values():
                shelf.changed.notify_all()

    def _shelf(self, resource: Resource) -> _Shelf:
        shelf = self._shelves.get(resource.qualified)
        if shelf is None:
            shelf = self._shelves[resource.qualified] = _Shelf(threading.Condition(self.lock))
        return shelf

    def _stored(self, key: Key, obj: Obj) -> Stored:
        self._revision += 1
        obj["metadata"]["resourceVersion"] = str(self._revision)
        return Stored(key, self._revision, obj, msgspec.json.encode(obj))

    def _append(self, shelf: _Shelf, event: Event) -> None:
        shelf.log.append(event)
        if len(shelf.log) > 2 * self._window:
            self._trim(shelf, self._window)
        shelf.changed.notify_all()

    def _trim(self, shelf: _Shelf, count: int) -> None:
        if count:
            shelf.compacted = shelf.log[count - 1].revision
            shelf.first += count
            del shelf.log[:count]

    def _until(self, shelf: _Shelf, revision: int) -> Iterator[Event]:
        for event in shelf.log:
            if event.revision > revision:
                return
            yield event
