"""What there is in a cluster, followed from state to state, compared with what is found by looking at every device."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hami_platform.domain.devices import Held
from hami_platform.domain.ever import Inventory
from hami_platform.domain.nodes import NodeState
from hami_platform.domain.states import STEPS_KEPT, States
from tests import builders
from tests.builders import ask, pod

ASK = pod(ask(memory_mib=1000))
NAMES = ("a", "b", "c")
sizes = st.none() | st.sampled_from((4000, 8000))
changes = st.lists(st.dictionaries(st.sampled_from(NAMES), sizes), min_size=1, max_size=8)


def node(name: str, memory_mib: int) -> NodeState:
    return builders.uniform_node(name, 2, memory_mib=memory_mib)


def line_of(changes: list[dict[str, int | None]]) -> list[States]:
    """The states that follow one another."""
    line = [States()]
    for changed in changes:
        made = {name: None if mib is None else node(name, mib) for name, mib in changed.items()}
        line.append(line[-1].replaced(made))
    return line


@given(changes, st.data())
def test_what_is_followed_in_any_order_is_what_is_there(
    changed: list[dict[str, int | None]], data: st.DataObject
) -> None:
    line, inventory = line_of(changed), Inventory()
    for known in data.draw(st.lists(st.sampled_from(line), max_size=12)):
        assert inventory.of(known, ASK) == Inventory().of(known, ASK)


def test_what_only_holds_more_is_the_same_and_is_found_after_any_number_of_steps() -> None:
    first = States({"a": node("a", 4000), "b": node("b", 8000)})
    inventory = Inventory()
    before, last = inventory.of(first, ASK), first
    for _ in range(2 * STEPS_KEPT):
        last = last.replaced({"a": builders.uniform_node("a", 2, used=[Held(1, 10, 0)], memory_mib=4000)})
    assert inventory.of(last, ASK) == before
    assert inventory.of(last.replaced({"b": None}), ASK) < before
