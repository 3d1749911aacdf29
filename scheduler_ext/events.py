"""Kubernetes events about pods, as HAMi writes them, off the hot path and dropped first under load.

Same reasons, types and texts as HAMi v2.10.0. A repeated event about the same pod with the same text is written once
a minute at most. Must not know: how decisions are made, the database.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from accounting.services import cluster_api
from hami_platform import env, logs, metrics
from hami_platform.kube import calls, errors, limiter, objects
from scheduler_ext import background

_log = logs.get(__name__)

NORMAL, WARNING = "Normal", "Warning"
REPEAT_S = 60.0
REMEMBERED = 10_000
PER_S, BURST = 20.0, 50

_dropped = metrics.counter("hami_platform_events_dropped_total", "Events not written because of load or a failure.")


@dataclass(frozen=True, slots=True)
class PodEvent:
    """One event about one pod. `reason` is HAMi's word, `message` a sentence."""

    namespace: str
    pod: str
    uid: str
    reason: str
    message: str
    type: str = NORMAL

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.uid, self.reason, self.message)


@dataclass(frozen=True, slots=True)
class Told:
    """An event, and a way to make those that belong to it: the writer makes them, since counting costs time."""

    event: PodEvent
    more: Callable[[], Iterable[PodEvent]] | None = None

    def events(self) -> Iterator[PodEvent]:
        """All of them that were not told lately."""
        yield self.event
        for one in self.more() if self.more is not None else ():
            if _recent.first(one.key, time.monotonic()):
                yield one


class Recent:
    """Remembers what was told lately, in bounded memory."""

    def __init__(self, size: int = REMEMBERED, repeat_s: float = REPEAT_S) -> None:
        self._size, self._repeat_s = size, repeat_s
        self._told: OrderedDict[tuple[str, str, str], float] = OrderedDict()
        self._lock = threading.Lock()

    def first(self, key: tuple[str, str, str], now_s: float) -> bool:
        """Whether this was not told within the last minute; then it counts as told."""
        with self._lock:
            told = self._told.get(key)
            if told is not None and now_s - told < self._repeat_s:
                return False
            self._told[key] = now_s
            self._told.move_to_end(key)
            while len(self._told) > self._size:
                self._told.popitem(last=False)
            return True

    def clear(self) -> None:
        """Nothing was told."""
        with self._lock:
            self._told.clear()


_numbers = itertools.count()
_recent = Recent()
_limit = limiter.Limiter(PER_S, BURST)


def tell(event: PodEvent, more: Callable[[], Iterable[PodEvent]] | None = None) -> None:
    """Queue an event and what belongs to it; returns at once, whatever the API server does."""
    if _recent.first(event.key, time.monotonic()) and not _queue.put(Told(event, more)):
        _dropped.inc()


def forget() -> None:
    """What was told before is told again from now on: another cluster (tests, the conformance runner)."""
    _recent.clear()


def _write(batch: list[Told]) -> None:
    for event in (one for told in batch for one in told.events()):
        if not _limit.take(0):
            _dropped.inc()
            continue
        try:
            cluster_api.cluster_api().send(call_of(event, datetime.now(UTC)), timeout_s=5)
        except errors.KubeError as error:
            _dropped.inc()
            _log.warning("event_lost", uid=event.uid, reason=event.reason, error=str(error))


def call_of(event: PodEvent, at: datetime) -> calls.KubeCall[objects.Object]:
    """The request that writes this event; its name is the pod's with a number that is new."""
    number = f"{time.time_ns():x}{next(_numbers) % 256:02x}"
    return calls.event_create(
        namespace=event.namespace,
        name=f"{event.pod[: 252 - len(number)]}.{number}",
        pod=event.pod,
        uid=event.uid,
        reason=event.reason,
        message=event.message,
        type_=event.type,
        component=env.current().scheduler_name or "hami-scheduler",
        at=at.strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


_queue: background.Batcher[Told] = background.Batcher("pod-events", _write, depth=1000)
