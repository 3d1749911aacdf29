"""Decisions on nodes of which some was worked out before, compared with the same decisions on nodes seen for the first
time.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hami_platform.domain import place as placing
from hami_platform.domain.devices import Held
from hami_platform.domain.nodes import NodeState
from hami_platform.domain.quota import Amounts, Headroom, Limits
from hami_platform.domain.requests import PodRequest
from hami_platform.domain.states import FEW, MEMOS_KEPT, STALE_MOST, STEPS_KEPT, Ranking, States
from tests import builders
from tests.builders import ask, pod

NAMES = ("a", "b", "c")
ROOMS = (Headroom(), builders.headroom(Limits(memory_mib=3000), Amounts()))
REQUESTS = (
    pod(ask(memory_mib=1000)),
    pod(ask(2, memory_mib=2000, core_percent=50)),
    pod(ask(memory_percent=50), ask(memory_mib=500)),
)


def node(name: str, held_mib: int) -> NodeState:
    return builders.uniform_node(name, 2, used=[Held(1, held_mib, 40)], memory_mib=4000)


def told(decision: placing.Decision) -> object:
    """All of a decision that anybody reads."""
    refused = {name: rejection.text() for name, rejection in decision.rejections.items()}
    return decision.placement, decision.fitting, refused, placing.dominant_reasons(decision.rejections)


changes = st.dictionaries(st.sampled_from(NAMES), st.none() | st.integers(0, 4).map(lambda n: n * 1000))
steps = st.lists(st.tuples(changes, st.sampled_from(REQUESTS), st.sampled_from(ROOMS), st.booleans()), max_size=8)


@given(steps)
def test_what_is_remembered_of_nodes_never_changes_a_decision(
    taken: list[tuple[dict[str, int | None], PodRequest, Headroom, bool]],
) -> None:
    line = [States()]
    for changed, request, room, on_older in taken:
        new = {name: None if mib is None else node(name, mib) for name, mib in changed.items()}
        line.append(line[-1].replaced(new))
        for known in (line[-2] if on_older else line[-1], line[-1]):
            remembered = placing.place(known, NAMES, request, headroom=room, fit_all=on_older)
            fresh = placing.place(dict(known), NAMES, request, headroom=room, fit_all=on_older)
            assert told(remembered) == told(fresh)


crowd = st.dictionaries(st.integers(0, 2 * FEW), st.none() | st.integers(0, 4).map(lambda n: n * 1000))


def judged(one: NodeState) -> float | None:
    """Few different values, so that names decide; full nodes have no chance."""
    return None if one.devices[0].held.memory_mib == 4000 else one.score


@given(st.lists(crowd, max_size=4))
def test_a_ranking_kept_up_to_date_is_the_one_made_at_once(taken: list[dict[int, int | None]]) -> None:
    known, ranking = States(), Ranking()
    for changed in taken:
        new = {f"n{i}": None if mib is None else node(f"n{i}", mib) for i, mib in changed.items()}
        known = known.replaced(new)
        ranking = ranking.updated(known, new, judged)
        fresh = Ranking().updated(known, known, judged)
        assert (ranking.order, ranking.judged, ranking.hopeless) == (fresh.order, fresh.judged, fresh.hopeless)
        assert [name for _, name in ranking.order] == sorted(
            (name for name in known if judged(known[name]) is not None), key=lambda name: (known[name].score, name)
        )


def test_names_that_are_no_nodes_are_not_remembered() -> None:
    known = States({"a": node("a", 0)})
    ranking, unknown = known.ranked("key", dict.fromkeys(("a", "ghost")), judged)
    assert (list(ranking.judged), unknown) == (["a"], {"ghost"})
    emptied, unknown = known.replaced({"a": None}).ranked("key", dict.fromkeys(("a",)), judged)
    assert (emptied.order, unknown) == ([], {"a"})


def test_only_changed_nodes_are_forgotten() -> None:
    first = States({"a": node("a", 0), "b": node("b", 0)})
    first.memo("key").update(a=1, b=2)
    assert first.replaced({"b": None}).memo("key") == {"a": 1}
    assert first.memo("key") == {"a": 1, "b": 2}


def test_memory_is_bounded() -> None:
    states = States()
    for key in range(2 * MEMOS_KEPT):
        states.memo(key)["a"] = key
    assert states.memo(MEMOS_KEPT - 1) == {}
    assert states.memo(2 * MEMOS_KEPT - 1) == {"a": 2 * MEMOS_KEPT - 1}
    left = states.replaced({f"n{i}": node(f"n{i}", 0) for i in range(STALE_MOST + 1)})
    assert left.memo(2 * MEMOS_KEPT - 1) == {}


@given(st.lists(changes, max_size=6), st.data())
def test_all_that_changed_since_earlier_states_is_named(
    taken: list[dict[str, int | None]], data: st.DataObject
) -> None:
    line = [States()]
    for changed in taken:
        line.append(
            line[-1].replaced({name: None if mib is None else node(name, mib) for name, mib in changed.items()})
        )
    before = data.draw(st.sampled_from(line))

    names = line[-1].changed_since(before)

    assert names is not None
    assert {name for name in NAMES if line[-1].get(name) is not before.get(name)} <= names


def test_what_changed_since_long_ago_or_elsewhere_is_not_known() -> None:
    first = last = States()
    for _ in range(STEPS_KEPT):
        last = last.replaced({"a": node("a", 0)})
    twin = first.replaced({"b": node("b", 0)})

    assert last.changed_since(first) is None
    assert last.changed_since(twin) is None
    assert last.changed_since(last) == frozenset()


def test_a_ranking_shares_what_did_not_change() -> None:
    known = States({name: node(name, 0) for name in NAMES})
    ranking = Ranking().updated(known, known, judged)
    known = known.replaced({"a": node("a", 1000)})

    later = ranking.updated(known, ["a"], judged)

    assert (later.members, later.hopeless) == (ranking.members, ranking.hopeless)
    assert later.members is ranking.members
    assert later.hopeless is ranking.hopeless
    assert later.updated(known, ["a"], judged) is later
