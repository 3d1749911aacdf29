"""Who may take a node's lock: value x holder x age; H45 to H51 at domain level, D8."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_platform.domain import locks
from hami_platform.domain.locks import HolderState, State

ME, RIVAL = locks.Owner("ns", "abc"), locks.Owner("ns", "abc-123")
STAMP = "2026-08-21T08:00:00Z"
MINE, THEIRS = f"{STAMP},ns,abc", f"{STAMP},ns,abc-123"


def judge(
    value: str | None, age_s: float = 0.0, holder: HolderState = HolderState.WAITING, me: locks.Owner = ME
) -> locks.Judgement:
    return locks.judge(value, first_seen_age_s=age_s, holder=holder, me=me)


def test_a_node_without_lock_is_free() -> None:
    assert judge(None) == locks.Judgement(State.FREE)


def test_h45_a_waiting_holder_keeps_its_lock() -> None:
    assert judge(THEIRS, 60).state is State.BUSY
    assert "ns/abc-123" in judge(THEIRS, 60).why


@pytest.mark.parametrize("age_s, alarm", [(360, False), (599, False), (600, True), (10**6, True)])
def test_d8_age_never_takes_a_lock_from_a_waiting_holder(age_s: float, alarm: bool) -> None:
    found = judge(THEIRS, age_s)
    assert (found.state, found.alarm, found.replaces) == (State.BUSY, alarm, None)


@pytest.mark.parametrize("age_s", [2, 10])
def test_h46_h47_a_lock_is_free_at_once_when_its_holder_needs_it_no_more(age_s: float) -> None:
    found = judge(THEIRS, age_s, HolderState.DONE)
    assert (found.state, found.replaces) == (State.FREE, THEIRS)


@pytest.mark.parametrize("me", [ME, locks.Owner("s", "abc-123"), locks.Owner("", ""), locks.Owner("ns,abc", "123")])
def test_h48_a_lock_is_released_by_its_whole_owner_only(me: locks.Owner) -> None:
    assert not locks.may_release(THEIRS, me)
    assert locks.may_release(THEIRS, RIVAL)


def test_h49_the_same_pod_locks_again_for_its_second_vendor() -> None:
    assert judge(MINE, 1).state is State.MINE
    assert locks.may_release(MINE, ME)


def test_a_new_pod_of_an_old_name_does_not_inherit_the_lock() -> None:
    assert judge(MINE, 1, HolderState.DONE).state is State.FREE


@pytest.mark.parametrize("age_s, state", [(240, State.BUSY), (299, State.BUSY), (300, State.FREE), (360, State.FREE)])
def test_h50_a_lock_without_owner_holds_for_one_timeout(age_s: float, state: State) -> None:
    found = judge(STAMP, age_s, HolderState.UNKNOWN)
    assert (found.state, found.alarm) == (state, False)


@pytest.mark.parametrize("value", ["garbage", "", "a,b", f"{STAMP},a,b,c"])
def test_h51_an_unreadable_lock_is_freed_after_one_timeout_with_an_alarm(value: str) -> None:
    early, late = judge(value, 10), judge(value, 300)
    assert (early.state, early.alarm) == (State.BUSY, False)
    assert (late.state, late.alarm, late.replaces) == (State.FREE, True, value)
    assert not locks.may_release(value, ME)


def test_a_holder_that_cannot_be_looked_up_keeps_its_lock() -> None:
    found = judge(THEIRS, 1000, HolderState.UNKNOWN)
    assert (found.state, found.alarm) == (State.BUSY, True)
    assert "unknown" in found.why


def test_a_lock_without_owner_may_be_released_by_anybody_and_none_by_nobody() -> None:
    assert locks.may_release(STAMP, ME)
    assert not locks.may_release(None, ME)


@pytest.mark.parametrize("age_s, stuck", [(0, False), (30, False), (30.1, True)])
def test_a_lock_older_than_half_a_minute_takes_its_node_out(age_s: float, stuck: bool) -> None:
    assert locks.stuck(age_s) is stuck


@given(
    st.none() | st.sampled_from((MINE, THEIRS, STAMP)) | st.text(max_size=30),
    st.floats(0, 10**6),
    st.sampled_from(HolderState),
)
def test_a_lock_is_only_taken_over_against_the_exact_value_seen(
    value: str | None, age_s: float, holder: HolderState
) -> None:
    found = judge(value, age_s, holder)
    assert found.replaces == (value if found.state is State.FREE else None)
    if value == THEIRS and holder is not HolderState.DONE:
        assert found.state is State.BUSY
