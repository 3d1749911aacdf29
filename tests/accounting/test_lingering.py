"""What the watcher sees and keeps for a moment: nobody misses it, nothing is lost, and nothing waits for long."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounting.services import lingering
from accounting.services.lingering import LINGER_S, Lingering
from accounting.services.seen import PodSeen
from hami_platform.domain.lifecycle import ContainerFact, PodFacts
from hami_platform.domain.requests import PodRequest
from hami_platform.domain.rows import Changes, PodRow
from hami_platform.domain.view import View

NEW = PodSeen("a", "nlp", "a", PodRequest(()), PodFacts("Pending", deleting=False, bound=False), claim_id="c")
BOUND = replace(NEW, node="n1", facts=PodFacts("Pending", deleting=False, bound=True))
BINDING = PodRow(1, "a", "c", "nlp", "a", "binding", PodRequest(()), node="n1")
RUNNING = replace(BOUND, facts=PodFacts("Running", deleting=False, bound=True))
STARTED = replace(
    BOUND, facts=PodFacts("Pending", deleting=False, bound=True, containers={"init": ContainerFact("running")})
)


@pytest.mark.parametrize(
    "row, seen",
    [
        (None, replace(NEW, claim_id="")),
        (None, replace(NEW, gated=True)),
        (None, replace(NEW, problem="cannot be read")),
        (None, replace(NEW, facts=PodFacts("Pending", deleting=True, bound=False))),
        (None, replace(NEW, facts=PodFacts("Failed", deleting=False, bound=False))),
        (replace(BINDING, state="claimed", node=""), NEW),
        (None, BOUND),
        (replace(BINDING, node="n2"), BOUND),
        (replace(BINDING, state="reserved"), BOUND),
        (BINDING, RUNNING),
        (BINDING, STARTED),
        (BINDING, replace(BOUND, facts=PodFacts("Pending", deleting=True, bound=True))),
    ],
)
def test_what_frees_takes_or_refuses_anything_is_recorded_at_once(row: PodRow | None, seen: PodSeen) -> None:
    assert not lingering.may_linger(row, seen)


def test_a_new_pod_with_its_claim_and_a_bound_one_that_has_not_started_may_wait() -> None:
    assert lingering.may_linger(None, NEW)
    assert lingering.may_linger(BINDING, BOUND)


PAUSES = st.integers(0, 10).map(lambda sixteenths: sixteenths / 16)
"""Seconds whose sums are exact."""
EVENTS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([NEW, BOUND, RUNNING]), st.booleans(), PAUSES), max_size=30
)


@given(EVENTS)
def test_the_last_state_of_each_pod_is_recorded_within_the_time_and_an_older_one_never_after_it(
    events: list[tuple[str, PodSeen, bool, float]],
) -> None:
    waiting, now_s = Lingering(), 0.0
    newest: dict[str, int] = {}
    recorded: dict[str, int] = {}
    since: dict[str, float] = {}

    def record(found: list[PodSeen]) -> None:
        for one in found:
            assert recorded.get(one.uid, 0) < one.resource_version
            recorded[one.uid] = one.resource_version
            since.pop(one.uid, None)

    for number, (uid, state, binding, pause_s) in enumerate(events, start=1):
        now_s += pause_s
        view = View().fold(Changes(pods={1: replace(BINDING, uid=uid)})) if binding else View()
        newest[uid] = number
        since.setdefault(uid, now_s)
        record(waiting.now(view, [replace(state, uid=uid, resource_version=number)], now_s))
        record(waiting.due(now_s))
        assert all(now_s - at_s < LINGER_S for at_s in since.values())
        assert {uid: one.resource_version for uid, one in waiting.waiting.items()} == {
            uid: newest[uid] for uid in since
        }
    record(waiting.due(now_s + LINGER_S))
    assert recorded == newest


def test_a_pod_that_goes_while_it_waits_is_recorded_before_it_is_gone() -> None:
    waiting = Lingering()
    assert waiting.now(View(), [NEW], 0.0) == []
    assert waiting.forgotten(["b", "a"]) == [NEW]
    assert waiting.due(100.0) == []
