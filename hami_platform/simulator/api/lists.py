"""LIST and WATCH: consistent pages, selectors, event streams with bookmarks. Knows nothing of sockets.

Source: Kubernetes apiserver pkg/storage/cacher and pkg/endpoints/handlers/{get,watch}.go, v1.36.
"""

from __future__ import annotations

import base64
import binascii
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from hami_platform.simulator.api import errors, registry, render, selectors
from hami_platform.simulator.api.paths import Target
from hami_platform.simulator.api.store import Compacted, Event, Store, Stored
from hami_platform.simulator.api.types import Obj, Request, Response

_POLL_S = 1.0  # how long a quiet watch sleeps before it looks whether its client is still there
_PAGES_KEPT = 256


@dataclass(slots=True)
class Cutter:
    """Ends running watches: each remembers the generation it began in."""

    generation: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def cut(self) -> None:
        """Every watch that runs now ends."""
        with self.lock:
            self.generation += 1


@dataclass(frozen=True, slots=True)
class _Filter:
    """Which objects a list or watch sees."""

    namespace: str
    name: str
    labels: selectors.Selector
    fields: selectors.FieldSelector

    def sees(self, stored: Stored) -> bool:
        if self.namespace and stored.key[0] != self.namespace:
            return False
        if self.name and stored.key[1] != self.name:
            return False
        if self.labels and not selectors.matches(self.labels, stored.obj["metadata"].get("labels")):
            return False
        return all(term.matches(stored.obj) for term in self.fields)

    @property
    def selective(self) -> bool:
        return bool(self.labels or self.fields)


class Lists:
    """The reading half of the API over one store."""

    def __init__(self, store: Store, *, bookmark_s: float = 60.0) -> None:
        self._store = store
        self._bookmark_s = bookmark_s
        self.cutter = Cutter()
        self._pages: OrderedDict[str, list[Stored]] = OrderedDict()
        self._lock = threading.Lock()

    def forget_pages(self) -> None:
        """Make every continue token too old."""
        with self._lock:
            self._pages.clear()

    def page(self, target: Target, request: Request) -> Response:
        """GET of a collection."""
        form, wanted = render.form_of(request), _filter(target, request)
        revision, rest = self._snapshot(target, request, wanted)
        limit = int(request.query.get("limit") or 0)
        page = rest[:limit] if limit else rest
        meta: Obj = {"resourceVersion": str(revision)}
        if len(page) < len(rest):
            meta["continue"] = self._keep(revision, rest[len(page) :])
            if not wanted.selective:
                meta["remainingItemCount"] = len(rest) - len(page)
        shown = [render.item(target.resource, stored.obj, stored.raw) for stored in page]
        return Response(body=render.many(target.resource, form, shown, meta))

    def matching(self, target: Target, request: Request) -> list[Stored]:
        """The objects that a collection request names."""
        wanted = _filter(target, request)
        return [
            item
            for item in self._store.objects(registry.stored(target.resource), wanted.namespace)[1]
            if wanted.sees(item)
        ]

    def _snapshot(self, target: Target, request: Request, wanted: _Filter) -> tuple[int, list[Stored]]:
        token = request.query.get("continue")
        if token:
            return self._continued(token)
        revision, found = self._store.objects(registry.stored(target.resource), wanted.namespace)
        asked = _revision(request.query.get("resourceVersion"))
        if asked and asked > revision:
            raise errors.too_large_revision(asked, revision)
        if request.query.get("resourceVersionMatch") == "Exact" and asked != revision:
            raise errors.expired("The provided resource version is too old or no longer kept.")
        return revision, [item for item in found if wanted.sees(item)]

    def _keep(self, revision: int, rest: list[Stored]) -> str:
        text = msgspec.json.encode(
            {"v": "meta.k8s.io/v1", "rv": revision, "start": rest[0].key, "n": random.getrandbits(48)}
        )
        token = base64.urlsafe_b64encode(text).decode().rstrip("=")
        with self._lock:
            self._pages[token] = rest
            while len(self._pages) > _PAGES_KEPT:
                self._pages.popitem(last=False)
        return token

    def _continued(self, token: str) -> tuple[int, list[Stored]]:
        try:
            revision = int(msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))["rv"])
        except (binascii.Error, msgspec.DecodeError, KeyError, TypeError, ValueError) as failure:
            raise errors.bad_request("continue key is not valid: illegal base64 data") from failure
        with self._lock:
            rest = self._pages.get(token)
        if rest is None:
            raise errors.expired(
                "The provided continue parameter is too old to display a consistent list result. "
                "You must start a new list without the continue parameter."
            )
        return revision, rest

    # --- watch ----------------------------------------------------------------------------------------------

    def watch(self, target: Target, request: Request) -> Response:
        """GET with watch: a stream of events from a revision, or of the current objects first."""
        form, wanted = render.form_of(request), _filter(target, request)
        asked = request.query.get("resourceVersion") or ""
        initial = request.flag("sendInitialEvents")
        if initial and request.query.get("resourceVersionMatch") != "NotOlderThan":
            raise errors.invalid(
                "ListOptions",
                "meta.k8s.io",
                "",
                [
                    errors.forbidden_field(
                        "resourceVersionMatch",
                        "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                    )
                ],
            )
        if asked and not asked.isdigit():
            raise errors.ApiError(500, "", f'strconv.ParseUint: parsing "{asked}": invalid syntax')
        after = None if initial or asked in ("", "0") else _revision(asked)
        timeout_s = float(request.query.get("timeoutSeconds") or random.uniform(1800, 3600))  # noqa: S311
        stream = _Watch(self, target, form, wanted, bookmarks=request.flag("allowWatchBookmarks"))
        return Response(stream=stream.frames(after, initial, time.monotonic() + timeout_s))

    @property
    def store(self) -> Store:
        """What is read."""
        return self._store

    @property
    def bookmark_s(self) -> float:
        """Seconds between bookmarks."""
        return self._bookmark_s


def _revision(text: str | None) -> int | None:
    if not text:
        return None
    if not text.isdigit():
        raise errors.bad_request(
            f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return int(text)


def _filter(target: Target, request: Request) -> _Filter:
    fields = selectors.fields(request.query.get("fieldSelector", ""), registry.stored(target.resource))
    return _Filter(target.namespace, target.name, selectors.labels(request.query.get("labelSelector", "")), fields)


class _Watch:
    """One running watch."""

    def __init__(self, lists: Lists, target: Target, form: render.Form, wanted: _Filter, *, bookmarks: bool) -> None:
        self._lists, self._store = lists, lists.store
        self._target, self._form, self._wanted = target, form, wanted
        self._stored = registry.stored(target.resource)
        self._bookmarks = bookmarks
        self._first = True

    def frames(self, after: int | None, initial: bool, deadline: float) -> Iterator[bytes]:
        """The lines of the stream; an empty one when nothing happened for a while."""
        generation = self._lists.cutter.generation
        try:
            position, revision, found = self._store.subscribe(self._stored, after)
            yield b"".join(self._frame("ADDED", item) for item in found if self._wanted.sees(item))
            if initial and self._bookmarks:
                yield render.bookmark(self._target.resource, self._form, revision, initial_end=True)
            yield from self._follow(position, revision, generation, deadline)
        except Compacted as gone:
            yield _error_frame(errors.expired(f"too old resource version: {after or 0} ({gone.oldest})"))

    def _follow(self, position: int, after: int, generation: int, deadline: float) -> Iterator[bytes]:
        marked, seen = time.monotonic(), after
        while (now := time.monotonic()) < deadline and generation == self._lists.cutter.generation:
            position, newest, events = self._store.wait(self._stored, position, min(_POLL_S, deadline - now))
            yield b"".join(filter(None, (self._event(event) for event in events if event.revision > after)))
            seen = max(seen, newest)
            if self._bookmarks and time.monotonic() - marked >= self._lists.bookmark_s:
                marked = time.monotonic()
                yield render.bookmark(self._target.resource, self._form, seen)
        if self._bookmarks and generation == self._lists.cutter.generation:
            yield render.bookmark(self._target.resource, self._form, seen)

    def _event(self, event: Event) -> bytes:
        """What this watch sees of a change: an object may enter or leave its selectors."""
        before = event.before is not None and self._wanted.sees(event.before)
        after = not event.gone and self._wanted.sees(event.after)
        if before and not after:
            return self._frame("DELETED", event.after)
        if after:
            return self._frame("MODIFIED" if before else "ADDED", event.after)
        return b""

    def _frame(self, kind: str, stored: Stored) -> bytes:
        resource = self._target.resource
        line = render.frame(
            resource, self._form, kind, render.item(resource, stored.obj, stored.raw), first=self._first
        )
        self._first = False
        return line


def _error_frame(error: errors.ApiError) -> bytes:
    return b'{"type":"ERROR","object":' + msgspec.json.encode(error.status) + b"}\n"
