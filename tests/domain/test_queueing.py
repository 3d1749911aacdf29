"""Who stands in kube-scheduler's queue, judged by its questions alone, against a queue that is known: in order of age,
with priorities, after a restart that lists pods by name, with forgotten pods."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from hami_platform.domain import queueing
from hami_platform.domain.queueing import LONGEST_S, QUIET_S, Question


@dataclass
class Scheduler:
    """kube-scheduler's queue: by priority, then by when it learned of the pod. Pods are (priority, created, name)."""

    queue: list[tuple[int, float, tuple[int, float, str]]] = field(default_factory=list)
    asked: list[tuple[float, tuple[int, float, str]]] = field(default_factory=list)

    def learn(self, pod: tuple[int, float, str], at_s: float) -> None:
        heapq.heappush(self.queue, (-pod[0], at_s, pod))

    def ask(self, at_s: float) -> None:
        if self.queue:
            self.asked.append((at_s, heapq.heappop(self.queue)[2]))

    def restart(self, at_s: float) -> None:
        """It lists all pods anew, by name."""
        pods = sorted((pod for *_, pod in self.queue), key=lambda pod: pod[2])
        self.queue = []
        for number, pod in enumerate(pods):
            self.learn(pod, at_s + number / 1e6)

    def heard(self, now_s: float) -> queueing.Heard:
        lately = [one for one in self.asked if now_s - one[0] <= QUIET_S]
        first = [Question(at_s, pod[0], float(int(pod[1]))) for at_s, pod in lately]
        last_s = max((at_s for at_s, _ in self.asked), default=None)
        return queueing.heard(first, behind=[(pod[0], float(int(pod[1]))) for _, pod in self.asked], last_s=last_s)

    def standing(self, now_s: float) -> set[str]:
        """Who of its queue is taken to stand there."""
        heard = self.heard(now_s)
        return {
            pod[2] for *_, pod in self.queue if heard.stands(pod[0], float(int(pod[1])), now_s)
        }  # fmt: skip

    @property
    def names(self) -> set[str]:
        return {pod[2] for *_, pod in self.queue}


STEPS = st.lists(st.tuples(st.sampled_from("aaak"), st.integers(0, 2), st.floats(0.1, 20.0)), max_size=60)


@given(STEPS)
def test_who_stands_in_a_queue_that_moves_is_never_taken_for_forgotten(steps: list[tuple[str, int, float]]) -> None:
    """As long as kube-scheduler asks once a minute and works in order; however long the queue, up to ten minutes."""
    scheduler, now_s = Scheduler(), 1000.0
    for number, (what, priority, pause_s) in enumerate(steps):
        now_s += pause_s
        if what == "a":
            scheduler.learn((priority, now_s, f"pod-{number}"), now_s)
        else:
            scheduler.ask(now_s)
        last_s = max((at_s for at_s, _ in scheduler.asked), default=0.0)
        young = {pod[2] for *_, pod in scheduler.queue if now_s - pod[1] < LONGEST_S - 1}
        if now_s - last_s <= QUIET_S:
            assert scheduler.standing(now_s) >= young


@given(STEPS, st.integers(0, 2))
def test_a_forgotten_pod_is_told_from_those_behind_it(steps: list[tuple[str, int, float]], priority: int) -> None:
    """As soon as one that came later, no more urgent, was asked about; after a minute at the earliest."""
    scheduler, now_s = Scheduler(), 1000.0
    forgotten_s = now_s
    for number, (what, other, pause_s) in enumerate(steps):
        now_s += pause_s
        if what == "a":
            scheduler.learn((other, now_s, f"pod-{number}"), now_s)
        else:
            scheduler.ask(now_s)
        passed = any(pod[0] <= priority and int(pod[1]) > forgotten_s for _, pod in scheduler.asked)
        if passed and now_s - forgotten_s > QUIET_S:
            assert not scheduler.heard(now_s).stands(priority, forgotten_s, now_s)


def test_after_a_restart_nobody_is_taken_for_forgotten_while_the_queue_is_worked_off() -> None:
    """2,000 pods, made over 40 s while no scheduler ran, are asked about in the order of their names at 25 a second."""
    scheduler = Scheduler()
    for number in range(2000):
        scheduler.learn((0, 1000 + number / 50, f"pod-{number}"), 1000 + number / 50)
    scheduler.restart(1040.0)
    now_s = 1040.0
    while scheduler.queue:
        now_s += 1 / 25
        scheduler.ask(now_s)
        if len(scheduler.queue) % 50 == 0:
            assert scheduler.standing(now_s) == scheduler.names, now_s
    assert now_s > 1040 + QUIET_S


def test_pods_with_names_drawn_at_random_stand_after_a_restart() -> None:
    draw, scheduler = random.Random(1), Scheduler()
    for number in range(3000):
        scheduler.learn((0, 1000 + number / 10, f"{draw.random():.9f}"), 1000 + number / 10)
    now_s = 1300.0
    scheduler.restart(now_s)
    while now_s < 1000 + LONGEST_S - 1 and len(scheduler.queue) > 200:
        now_s += 1 / 25
        scheduler.ask(now_s)
        if len(scheduler.queue) % 100 == 0:
            assert scheduler.standing(now_s) == scheduler.names, now_s


@given(st.integers(0, 2), st.floats(0, 2000), st.floats(0, 2000), st.booleans())
def test_nobody_waits_longer_than_the_bound(priority: int, since_s: float, last_s: float, in_order: bool) -> None:
    heard = queueing.Heard(last_s, in_order)
    assert not heard.stands(priority, since_s, since_s + LONGEST_S + 1)


def test_a_scheduler_that_is_quiet_for_a_minute_has_no_queue() -> None:
    heard = queueing.heard([Question(1000.0, 0, 990.0)])
    assert heard.stands(0, 995.0, 1060.0)
    assert not heard.stands(0, 995.0, 1061.0)
    assert not queueing.heard([]).stands(0, 900.0, 1000.0)


def test_more_urgent_questions_do_not_show_that_a_pod_was_passed_over() -> None:
    heard = queueing.heard([Question(1000.0, 10, 995.0)])
    assert heard.stands(0, 900.0, 1000.0), "the urgent ones come first"
    assert not heard.stands(10, 900.0, 1000.0)
    assert not heard.stands(11, 900.0, 1000.0)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=8), st.integers(0, 3), st.integers(0, 9))
def test_through_is_what_looking_at_every_pod_says(came: list[tuple[int, int]], priority: int, since: int) -> None:
    heard = queueing.heard([], behind=[(one, float(at_s)) for one, at_s in came])
    assert heard.through(priority, since) == any(one <= priority and at_s > since for one, at_s in came)
