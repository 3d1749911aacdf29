"""Spelling one decision after the other, of which each says what changed, is spelling each anew."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from accounting.services import decision_inputs
from hami_platform.domain import place, quota
from hami_platform.domain.devices import Held
from hami_platform.domain.nodes import NodeState
from hami_platform.domain.states import States
from tests import builders

NAMES = tuple(f"n{i}" for i in range(12))
changes = st.dictionaries(st.sampled_from(NAMES), st.none() | st.integers(0, 4).map(lambda n: n * 1000))


def node(name: str, held_mib: int) -> NodeState:
    return builders.uniform_node(name, 1, used=[Held(1, held_mib, 0)])


def grounds(known: States, candidates: list[str]) -> decision_inputs.Grounds:
    request = builders.pod(builders.ask(memory_mib=100))
    return decision_inputs.Grounds(None, (place.place(known, candidates, request, headroom=quota.UNLIMITED),))


@given(st.lists(changes, min_size=1, max_size=6), st.lists(st.integers(0, 5), max_size=6), st.data())
def test_decisions_in_any_order_are_spelled_as_each_alone(
    taken: list[dict[str, int | None]], order: list[int], data: st.DataObject
) -> None:
    line = [States()]
    for changed in taken:
        new = {name: None if mib is None else node(name, mib) for name, mib in changed.items()}
        line.append(line[-1].replaced(new))
    speller, kept = decision_inputs.Speller(), decision_inputs.Pieces()
    for index in order:
        known = line[index % len(line)]
        asked = data.draw(st.permutations((*NAMES, "ghost")).map(lambda names: names[: len(names) // 2]))
        own = grounds(known, asked)

        digest = speller.spell(own, "", kept)
        alone = decision_inputs.Pieces()

        assert digest == decision_inputs.Speller().spell(own, "", alone)
        assert alone.keys() <= kept.keys()
        (choice,) = decision_inputs.inputs(digest, lambda digests: {one: kept[one] for one in digests}).steps
        assert isinstance(choice, decision_inputs.Choice)
        assert set(
            decision_inputs.candidates(choice, known, lambda digests: {one: kept[one] for one in digests})
        ) == set(asked)
