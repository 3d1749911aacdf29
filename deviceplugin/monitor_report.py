"""Reports measurements to the platform in batches, newest kept while it is away.

A batch says how old it is when it is sent, so that the platform's clock counts and not the node's. The contract is in
docs/agent.md. Must not know: how measurements are made.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from deviceplugin import completion, monitor_meters, monitor_samples
from hami_platform import logs

PATH: Final = "/api/v1/measurements"
QUEUE_MOST: Final = 60
"""Batches, an hour at the usual period: the platform keeps ten minutes in one row, so older ones lose little."""
SAMPLES_MOST: Final = 2000
"""In one batch; what the platform takes."""
TURN_MOST: Final = 5
"""Batches in one step, so that agents that come back together do not flood the platform."""
AGAIN_S: Final = 2.0

log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Batch:
    """Measurements until `until_s`, by the monotonic clock."""

    until_s: float
    samples: tuple[monitor_samples.Sample, ...]

    def body(self, node: str, now_s: float) -> dict[str, Any]:
        """As it is sent."""
        return {
            "node": node,
            "age_s": max(0, round(now_s - self.until_s)),
            "samples": [_body(one) for one in self.samples],
        }


def _body(one: monitor_samples.Sample) -> dict[str, Any]:
    """What is not known of a device's condition is left out: shares, the most of them, have none."""
    told = {name: value for name, value in asdict(one.condition).items() if value not in (None, "")}
    return {
        "uuid": one.uuid,
        "pod_uid": one.pod_uid,
        "container": one.container,
        "memory_used_mib": one.memory_used_mib,
        "core_used_percent": one.core_used_percent,
        **told,
    }


class Reporter:
    """A step for a Loop."""

    def __init__(
        self,
        node: str,
        platform: completion.Platform,
        samples: monitor_samples.Samples,
        period_s: float,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node = node
        self._platform = platform
        self._samples = samples
        self._period_s = period_s
        self._now_s = now_s
        self._next_s = now_s() + period_s
        self._queue: deque[Batch] = deque()
        self._failing = False

    @property
    def failing(self) -> bool:
        """Whether the last batch could not be delivered."""
        return self._failing

    def step(self) -> float:
        """Take what is due, and send what waits, oldest first; stop at the first that cannot be delivered."""
        if self._now_s() >= self._next_s:
            self._next_s = self._now_s() + self._period_s
            self._take()
        for _ in range(TURN_MOST):
            if not self._queue or not self._deliver(self._queue[0]):
                break
            self._queue.popleft()
        monitor_meters.WAITING.set(len(self._queue))
        wait_s = max(0.0, self._next_s - self._now_s())
        return min(wait_s, AGAIN_S) if self._queue and not self._failing else wait_s

    def _take(self) -> None:
        samples = self._samples.take()
        if not samples:
            return
        if len(samples) > SAMPLES_MOST:
            log.warning("measurements_cut", samples=len(samples), most=SAMPLES_MOST)
        if len(self._queue) == QUEUE_MOST:
            self._queue.popleft()
            monitor_meters.DROPPED.inc()
        self._queue.append(Batch(self._now_s(), samples[:SAMPLES_MOST]))

    def _deliver(self, batch: Batch) -> bool:
        """Whether it is settled, for good or ill."""
        try:
            self._platform.post(batch.body(self._node, self._now_s()), PATH)
        except completion.Undelivered as error:
            if not self._failing:
                log.warning("measurements_undelivered", waiting=len(self._queue), error=str(error))
            self._failing = True
            return False
        except completion.Rejected as error:
            log.warning("measurements_rejected", samples=len(batch.samples), error=str(error))
            monitor_meters.DROPPED.inc()
        self._failing = False
        return True
