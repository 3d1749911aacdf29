"""Whether a pod that kube-scheduler never asked about stands in its queue, or was forgotten by it.

kube-scheduler works its queue off by priority, then by the time at which it learned of the pod; so one that was asked
about shows that all which stood before it are through. When it starts it learns of all pods at once, in no order that
we know: then its first questions go up and down in age, and show nothing until that is over. Must not know: where
questions are recorded, or what a wake is.
Source: Kubernetes v1.36 pkg/scheduler/framework/plugins/queuesort (Less) and pkg/scheduler/backend/queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

QUIET_S: Final = 60.0
"""How long kube-scheduler may say nothing before it counts as idle or away; and how far back its order is judged."""
LONGEST_S: Final = 600.0
"""A pod that was not asked about for so long is not waited for any more, whatever kube-scheduler seems to do."""
SLACK_S: Final = 5.0
"""How much older than one asked about before a pod may be and still count as in order: questions are recorded in
batches, by several processes, and a pod's age is known to the second."""


@dataclass(frozen=True, slots=True)
class Question:
    """kube-scheduler's first question about a pod: when, and the pod's priority and creation. Seconds."""

    at_s: float
    priority: int
    created_at_s: float


@dataclass(frozen=True, slots=True)
class Heard:
    """What was heard of kube-scheduler. last_s: when it last asked; None: never. in_order: its first questions lately
    went from older to newer. reached: (priority, time) rising in both: a pod of this priority that came to the queue
    then was asked about, so whoever came before it with that priority or a higher one is through."""

    last_s: float | None = None
    in_order: bool = True
    reached: tuple[tuple[int, float], ...] = ()

    def through(self, priority: int, since_s: float) -> bool:
        """Whether somebody behind a pod of this priority, which came to the queue then, was asked about."""
        return any(at_s > since_s for lower, at_s in self.reached if lower <= priority)

    def stands(self, priority: int, since_s: float, now_s: float) -> bool:
        """Whether a pod that came to the queue then, and was not asked about since, may still stand in it."""
        waited_s = now_s - since_s
        if waited_s <= QUIET_S:
            return True
        if waited_s > LONGEST_S or self.last_s is None or now_s - self.last_s > QUIET_S:
            return False
        return not (self.in_order and self.through(priority, since_s))


def heard(first: Sequence[Question], *, behind: Iterable[tuple[int, float]] = (), last_s: float | None = None) -> Heard:
    """What these questions say. first: first questions, of the last minute. behind: (priority, when it came to the
    queue) of pods that were asked about whenever. last_s: when any question came, first or not."""
    times = [one.at_s for one in first] + ([] if last_s is None else [last_s])
    came = [*((one.priority, one.created_at_s) for one in first), *behind]
    return Heard(max(times, default=None), _in_order(first), _highest(came))


def _in_order(first: Sequence[Question]) -> bool:
    """Whether no pod was asked about clearly after a newer one of its priority. What has one time has no order."""
    newest: dict[int, float] = {}
    for _, same in groupby(sorted(first, key=lambda one: one.at_s), key=lambda one: one.at_s):
        at_once = list(same)
        if any(one.created_at_s < newest.get(one.priority, one.created_at_s) - SLACK_S for one in at_once):
            return False
        for one in at_once:
            newest[one.priority] = max(newest.get(one.priority, one.created_at_s), one.created_at_s)
    return True


def _highest(came: Iterable[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """Of each priority the newest, without those that one of a lower priority outdoes."""
    found: list[tuple[int, float]] = []
    for priority, at_s in sorted(came, key=lambda one: (one[0], -one[1])):
        if not found or at_s > found[-1][1]:
            found.append((priority, at_s))
    return tuple(found)
