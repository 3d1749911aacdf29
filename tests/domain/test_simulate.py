"""What a change would do: waiting pods that start or strand, displaced ones that move, limits exceeded.

Law 11: what is simulated is what the decisions say, one after the other, on the changed state.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hami_platform.domain import simulate, what_if
from hami_platform.domain.devices import Held
from hami_platform.domain.errors import RequestError
from hami_platform.domain.quota import Limits, Rule, Selector
from hami_platform.domain.rows import Changes, QuotaRow
from hami_platform.domain.simulate import Scenario
from hami_platform.domain.view import View
from tests import builders
from tests.builders import ask, pod, uniform_node
from tests.domain import clusters
from tests.domain.views import NAMESPACE, decide, queue, reserved, view_of, waiting


def quota_row(**limits: int | None) -> QuotaRow:
    return QuotaRow(1, Rule("nlp/default", Selector(), Limits(**limits)), namespace=NAMESPACE)


def names(found: tuple[simulate.Placed, ...] | tuple[simulate.Stranded, ...]) -> list[str]:
    return [one.pod.name for one in found]


def test_a_raised_quota_starts_the_pods_that_wait_for_it_and_no_more() -> None:
    view = view_of(uniform_node("n1", 2), limits=Limits(memory_mib=0))
    view = queue(view, *(waiting(100 + n, pod(ask(memory_mib=4000))) for n in range(4)))

    found = simulate.effect(view, simulate.quota_change(quota_row(memory_mib=8000)), decide)

    assert names(found.starts) == ["w100", "w101"]
    assert (found.waiting, found.tried, found.revision) == (4, 4, 7)
    assert found.strands == ()


def test_a_lowered_quota_strands_pods_and_says_by_how_much_it_is_exceeded() -> None:
    view = view_of(uniform_node("n1", 1), limits=Limits(memory_mib=10000), used_mib=6000)
    view = queue(view, waiting(100, pod(ask(memory_mib=2000))))

    found = simulate.effect(view, simulate.quota_change(quota_row(memory_mib=4000)), decide)

    assert names(found.strands) == ["w100"]
    assert found.strands[0].excess is not None
    assert [(one.rule, one.resource, one.over) for one in found.over] == [("nlp/default", "memory_mib", 2000)]


def test_new_nodes_start_what_waits_for_devices() -> None:
    view = queue(view_of(uniform_node("n1", 2, cordoned=True)), *(waiting(100 + n, pod(ask(2))) for n in range(3)))

    found = simulate.effect(view, simulate.node_group(view, like="n1", count=2), decide)

    assert [(one.pod.name, one.placement.node) for one in found.starts][:1] == [("w100", "new-1")]
    assert len(found.starts) == 3


def test_a_described_node_group_has_its_devices() -> None:
    view = view_of()
    like = builders.device("", model="H100", memory_mib=81920)
    done = simulate.after(view, simulate.node_group_of(device=like, devices=4, count=2), decide)
    assert [len(done.view.states[name].devices) for name in ("new-1", "new-2")] == [4, 4]
    assert len({one.device.uuid for state in done.view.states.values() for one in state.devices}) == 8


def test_a_cordon_strands_and_an_uncordon_starts() -> None:
    view = queue(view_of(uniform_node("n1", 1)), waiting(100, pod(ask())))
    closed = simulate.effect(view, simulate.device_cordon(view, node="n1", uuid="GPU-n1-0"), decide)
    assert names(closed.strands) == ["w100"]

    shut = view_of(uniform_node("n1", 1, cordoned=True))
    shut = queue(shut, waiting(100, pod(ask())))
    opened = simulate.effect(shut, simulate.node_cordon(shut, node="n1", cordoned=False), decide)
    assert names(opened.starts) == ["w100"]


def test_a_drain_moves_what_fits_elsewhere_and_names_the_homeless() -> None:
    view = view_of(uniform_node("n1", 1, memory_mib=10000), uniform_node("n2", 1, memory_mib=10000))
    for number, amount in ((100, 8000), (101, 6000)):
        row = waiting(number, pod(ask(memory_mib=amount)))
        name = "n1" if number == 100 else "n2"
        placement = decide(view, what_if.Ask(NAMESPACE, row.request), [name]).placement
        assert placement is not None
        view = reserved(view, row, placement)

    found = simulate.effect(view, simulate.node_drain(view, node="n1"), decide)
    assert names(found.homeless) == ["w100"]
    assert found.homeless[0].reasons == "0/2 nodes: 1 CardCordoned, 1 CardInsufficientMemory"

    freed = view.fold(Changes(pods={101: None}))
    moved = simulate.effect(freed, simulate.node_gone(freed, node="n1"), decide)
    assert [(one.pod.name, one.placement.node) for one in moved.moves] == [("w100", "n2")]


def test_copies_are_placed_until_one_does_not_fit() -> None:
    view = view_of(uniform_node("n1", 2, memory_mib=10000))
    found = simulate.copies(view, what_if.Ask(NAMESPACE, pod(ask(memory_mib=4000))), 9, decide)
    assert len(found) == 4


@pytest.mark.parametrize(
    "scenario, key",
    [
        (lambda view: simulate.node_group(view, like="nowhere", count=1), "node"),
        (lambda view: simulate.node_group(view, like="n1", count=0), "count"),
        (lambda view: simulate.node_group_of(device=builders.device(), devices=0, count=1), "devices"),
        (lambda view: simulate.device_cordon(view, node="n1", uuid="none"), "uuid"),
        (lambda view: simulate.node_drain(view, node="n2"), "node"),
    ],
)
def test_what_does_not_exist_is_named(scenario: object, key: str) -> None:
    with pytest.raises(RequestError) as caught:
        scenario(view_of(uniform_node("n1", 1)))  # type: ignore[operator]
    assert caught.value.key == key


@st.composite
def changed(draw: st.DrawFn) -> tuple[View, Scenario]:
    states = draw(clusters.clusters())
    view = view_of(*states.values(), limits=draw(st.none() | clusters.limits()), used_mib=draw(st.integers(0, 6)))
    pods = [waiting(100 + n, draw(clusters.pods()), priority=draw(st.integers(0, 1))) for n in range(3)]
    view = queue(view, *pods)
    kind = draw(st.sampled_from(("quota", "cordon", "drain", "group")))
    name = draw(st.sampled_from(sorted(states)))
    if kind == "quota":
        return view, simulate.quota_change(quota_row(memory_mib=draw(st.integers(0, 20))))
    if kind == "group":
        return view, simulate.node_group(view, like=name, count=draw(st.integers(1, 2)))
    return view, simulate.node_drain(view, node=name) if kind == "drain" else simulate.node_cordon(view, node=name)


@given(case=changed())
@settings(max_examples=60, deadline=None)
def test_law_11_a_simulation_is_the_decisions_taken_one_after_the_other(case: tuple[View, Scenario]) -> None:
    view, scenario = case
    found = simulate.effect(view, scenario, decide)

    def live(now: View) -> dict[int, str]:
        """As the wake order and `/filter` would go about it."""
        placed = {}
        for row in what_if.waiting(now):
            placement = decide(now, what_if.ask_of(row), None).placement
            if placement is not None:
                placed[row.id] = placement.node
                now = reserved(now, row, placement)
        return placed

    before, now = live(view), live(_without_displaced(view, scenario))
    assert {one.pod.id: one.placement.node for one in found.starts if one.pod.id < 200} == {
        number: node for number, node in now.items() if number not in before
    }
    assert {one.pod.id for one in found.strands} == {number for number in before if number not in now}


def _without_displaced(view: View, scenario: Scenario) -> View:
    done = simulate.after(view, scenario, decide)
    homeless = {one.pod.id: None for one in done.homeless}  # they wait for ever: nobody takes them for pending ones
    return done.view.fold(Changes(pods=homeless))  # type: ignore[arg-type]


def test_a_simulation_leaves_the_view_alone() -> None:
    view = queue(view_of(uniform_node("n1", 2, used=[Held(1, 100, 0)])), waiting(100, pod(ask())))
    before = (dict(view.nodes), dict(view.pods), dict(view.quotas), dict(view.usage))
    simulate.effect(view, simulate.node_drain(view, node="n1"), decide)
    assert before == (dict(view.nodes), dict(view.pods), dict(view.quotas), dict(view.usage))
