"""Many wait, one looks."""

from __future__ import annotations

import threading
from concurrent import futures

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_platform.domain.rows import Changes, LockRow
from hami_platform.domain.view import View
from scheduler_ext import lock_watch

LOCKED = View().fold(Changes(locks={"n1": LockRow("n1", "holder")}))


def held(view: View) -> bool:
    return "n1" in view.locks


def test_all_who_wait_are_told_by_one_look() -> None:
    waiting = threading.Barrier(20)
    looks: list[str] = []

    def look() -> View:
        looks.append(threading.current_thread().name)
        return LOCKED if len(looks) < 5 else View()

    watch = lock_watch.LockWatch(look)

    def wait(_: int) -> bool:
        waiting.wait(10)
        return watch.wait(lambda view: not held(view), timeout_s=30)

    with futures.ThreadPoolExecutor(20) as pool:
        assert all(pool.map(wait, range(20)))
    assert len(looks) < 25, "each for itself would be a hundred"


def test_time_runs_out() -> None:
    assert not lock_watch.LockWatch(lambda: LOCKED).wait(lambda view: not held(view), timeout_s=0.1)


def test_who_cannot_look_says_so_and_another_one_looks() -> None:
    answers = iter([OSError("away")])

    def look() -> View:
        for error in answers:
            raise error
        return View()

    watch = lock_watch.LockWatch(look)
    with pytest.raises(OSError, match="away"):
        watch.wait(lambda view: not held(view), timeout_s=5)
    assert watch.wait(lambda view: not held(view), timeout_s=5)


@given(st.floats(0, 10))
def test_looks_take_a_tenth_of_the_time_at_most_and_are_never_far_apart(look_s: float) -> None:
    pause_s = lock_watch.pause_after(look_s)
    assert lock_watch.LOOK_S <= pause_s <= lock_watch.LONGEST_S
    assert look_s <= pause_s * lock_watch.SHARE * 1.001 or pause_s == lock_watch.LONGEST_S
