"""Law: a pod that is bound to labelled nodes loses no node on which `place` would put it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hami_platform.domain import narrowing, place
from hami_platform.domain.quota import Headroom
from hami_platform.domain.rows import Changes, NodeRow
from hami_platform.domain.view import View
from tests import builders

VENDORS = ("NVIDIA", "MLU", "DCU")


@st.composite
def node_rows(draw: st.DrawFn) -> dict[str, NodeRow | None]:
    """What one look at the API server says of some nodes: registered, labelled or not yet, unlabelled by hand, gone."""
    found: dict[str, NodeRow | None] = {}
    for name in draw(st.sets(st.sampled_from(["a", "b", "c", "d"]), max_size=4)):
        has = draw(st.lists(st.sampled_from(VENDORS), max_size=3, unique=True))
        devices = tuple(builders.device(f"{name}-{word}", vendor=word, memory_mib=8000) for word in has)
        labelled = draw(st.one_of(st.just(frozenset(has)), st.frozensets(st.sampled_from(VENDORS))))
        row = NodeRow(name, devices, retired=draw(st.booleans()), labelled=labelled)
        found[name] = draw(st.sampled_from([row, row, row, None]))
    return found


def accepted(view: View, vendor: str) -> list[str]:
    """Every node on which a pod that asks for one device of this vendor would be placed, one candidate at a time."""
    request = builders.pod(builders.container(builders.ask(vendor=vendor, memory_mib=1000)))
    return [
        name
        for name in view.states
        if place.place(view.states, [name], request, headroom=Headroom()).placement is not None
    ]


@given(st.lists(node_rows(), max_size=6))
def test_law_narrowing_leaves_no_node_out_that_place_accepts(looks: list[dict[str, NodeRow | None]]) -> None:
    view = View()
    for look in looks:
        view = view.fold(Changes(nodes=look))
        for vendor in narrowing.vendors(view.nodes.values()):
            fitting = accepted(view, vendor)
            assert fitting, "a vendor without nodes is not narrowed"
            assert all(vendor in view.nodes[name].labelled for name in fitting)


def test_one_unlabelled_node_is_enough_to_narrow_nobody() -> None:
    labelled = NodeRow("a", (builders.device("a"),), labelled=frozenset({"NVIDIA"}))
    assert narrowing.vendors([labelled]) == {"NVIDIA"}
    assert narrowing.vendors([labelled, NodeRow("b", (builders.device("b"),))]) == frozenset()
    assert narrowing.vendors([labelled, NodeRow("plain")]) == {"NVIDIA"}
    assert narrowing.vendors([]) == frozenset()
