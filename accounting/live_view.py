"""This process's View, kept current by folding the Journal. Reads only; services decide on what it returns.

A refresh is one indexed query when nothing changed. Views are immutable, so several threads may fold at once: whoever
publishes first wins, the others take what he published, or start again from it. No thread waits for another one here.
"""

from __future__ import annotations

import gc
import math
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from django.db import InterfaceError, InternalError, OperationalError

from accounting import ledger, loading
from accounting.models import Clock
from accounting.statements import Asked
from hami_platform.domain.rows import ClockRow
from hami_platform.domain.view import View

LARGE = 5000
"""Nodes and pods from which on a View is kept from the garbage collector: it has no cycles, and looking for them there
stopped every thread for a quarter of a second at 20,000 pods. What is replaced is freed all the same."""


class _News(NamedTuple):
    """What the Journal says since a revision."""

    last: ClockRow
    keys: dict[str, set[str]]


class LiveView:
    """One cluster's View in this process."""

    def __init__(self, cluster: int) -> None:
        self._cluster = cluster
        self._mutex = threading.Lock()
        self._view = View()
        self._kept = 0
        self._current_s = -math.inf

    @property
    def now(self) -> View:
        """The View as last folded; no query."""
        return self._view

    def refresh(self) -> View:
        """The View folded through the last committed revision. Inside a ledger transaction it is exact until commit.

        Inside somebody else's transaction it also has what that one has written, for this caller's eyes only.

        Raises ledger.LedgerUnavailable.
        """
        if ledger.current() is None:
            ledger.breaker.check()
        asked_s = time.monotonic()
        try:
            while True:
                base = self._view
                found = self._next(base)
                if ledger.revocable():
                    return found
                published = found if found is base else self._published(base, found)
                if published is not None:
                    self._current_s = max(self._current_s, asked_s)
                    return published
        except (OperationalError, InterfaceError, InternalError) as fault:
            if not ledger.lost(fault):
                raise
            ledger.breaker.trip(f"database: {fault}")
            raise ledger.LedgerUnavailable(f"database: {fault}") from fault

    def within(self, age_s: float) -> View:
        """The View as it was at most so long ago: for who looks again and again, beside others who do. Raises as
        `refresh`."""
        fresh = time.monotonic() - self._current_s <= age_s
        return self._view if fresh and ledger.current() is None else self.refresh()

    def reload(self) -> View:
        """Drop everything and load from the rows."""
        loaded = self._load()
        with self._mutex:
            self._view = loaded
        return loaded

    def _published(self, base: View, found: View) -> View | None:
        """`found`, if nobody has published since `base`; or what somebody has, if it has all that was found.

        Without the latter a thread could lose every race for as long as others write.
        """
        with self._mutex:
            now = self._view
            if now is base:
                self._view = found
                return found
        as_new = now.clock.revision >= found.clock.revision
        return now if as_new and now.clock.incarnation == found.clock.incarnation else None

    def _next(self, base: View) -> View:
        if not base.clock.revision:
            return self._load()
        running = ledger.current()
        if running is not None and running.clock.cluster_id == self._cluster and running.stands_at(base.clock):
            return base
        news = self._news(base.clock)
        if news is None:
            return self._lost(base)
        if not news.keys:
            return base
        folded = base.fold(loading.changed(self._cluster, news.keys, news.last))
        self._keep(folded)
        return folded

    def _load(self) -> View:
        with ledger.snapshot(), _no_collector():
            loaded = View().fold(loading.everything(self._cluster))
            self._kept = 0
            self._keep(loaded)
        return loaded

    def _keep(self, view: View) -> None:
        """Keep a View that has become large from the garbage collector, and again when it has grown by half."""
        size = len(view.pods) + len(view.nodes)
        if size > LARGE and size > self._kept * 3 // 2:
            self._kept = size
            gc.freeze()

    def _news(self, folded: ClockRow) -> _News | None:
        """Rows after the folded revision; None when that revision is not in the Journal any more, or is another one."""
        found = ledger.journal_since(self._cluster, folded.revision)
        if not found or found[0][:2] != (folded.revision, folded.tag):
            return None
        keys: dict[str, set[str]] = defaultdict(set)
        for revision, _, kind, key in found:
            if revision > folded.revision:
                keys[kind].add(key)
        clock = ClockRow(found[-1][0], found[-1][1], folded.incarnation, folded.compared)
        if "clock" in keys:
            now = loading.clock_row(self._cluster)
            clock = ClockRow(clock.revision, clock.tag, now.incarnation, now.compared)
        return _News(clock, dict(keys))

    def _lost(self, base: View) -> View:
        """Behind the pruning: reload. Ahead, or on another history: the database was restored, so a new incarnation
        as well, unless somebody has drawn one since. An older one than this View's is the backup's own."""
        clock = Clock.objects.get(cluster=self._cluster)
        if base.clock.revision > clock.pruned_through and clock.incarnation <= base.clock.incarnation:
            with ledger.transaction(cause="history_changed") as entry:
                if Clock.objects.get(pk=entry.clock.pk).incarnation == clock.incarnation:
                    ledger.incarnation_draw(entry)
        return self._load()


@contextmanager
def _no_collector() -> Iterator[None]:
    """Rows by the thousand become values that all stay: the collector would look through them again and again."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


_views: dict[int, LiveView] = {}
_views_lock = threading.Lock()


def live() -> LiveView:
    """The LiveView of the cluster this process serves."""
    cluster = ledger.cluster_id()
    with _views_lock:
        if cluster not in _views:
            _views[cluster] = LiveView(cluster)
        return _views[cluster]


@contextmanager
def deciding(
    *,
    cause: str,
    actor: str = "",
    fence: int | None = None,
    gather: bool = False,
    first: Sequence[Asked] = (),
) -> Iterator[tuple[ledger.Entry, View]]:
    """`ledger.transaction` with the View as it stands under the Clock; what happened since this process looked last
    comes with the Clock, by the same message."""
    mine = live()
    since = mine.now.clock.revision
    with ledger.transaction(cause=cause, actor=actor, fence=fence, gather=gather, since=since, first=first) as entry:
        yield entry, mine.refresh()


def forget() -> None:
    """Drop every View: the database was replaced (tests)."""
    with _views_lock:
        _views.clear()
