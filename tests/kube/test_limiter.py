"""The token bucket against a slow oracle, on a clock that only moves when told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hami_platform.kube import limiter


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def bucket(per_s: float, burst: int) -> tuple[limiter.Limiter, Clock]:
    clock = Clock()
    return limiter.Limiter(per_s, burst, clock=clock, sleep=clock.sleep), clock


def test_a_burst_passes_at_once_and_the_next_one_waits() -> None:
    limit, clock = bucket(10, 3)
    assert [limit.take(1) for _ in range(3)] == [True] * 3
    assert clock.now == 0
    limit.take(1)
    assert round(clock.now, 6) == 0.1


def test_no_limit_never_waits() -> None:
    limit, clock = bucket(0, 1)
    assert all(limit.take(0) for _ in range(100))
    assert clock.now == 0


def test_who_would_wait_too_long_takes_nothing() -> None:
    limit, _ = bucket(1, 1)
    assert limit.take(0)
    assert not limit.take(0.5)
    assert limit.book(1) == 1.0


@given(st.lists(st.integers(0, 5), max_size=40), st.integers(1, 4), st.integers(1, 5))
def test_no_window_passes_more_than_rate_and_burst(pauses: list[int], per_s: int, burst: int) -> None:
    limit, clock = bucket(per_s, burst)
    passes = []
    for pause in pauses:
        clock.now += pause / 4
        assert limit.take(1e9)
        passes.append(clock.now)
    for i, start in enumerate(passes):
        for j in range(i, len(passes)):
            assert j - i + 1 <= burst + (passes[j] - start) * per_s + 1e-6
