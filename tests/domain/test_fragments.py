"""What of the free amounts can really be asked for: the law holds it to the decision itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_platform.domain import fit, fragments
from hami_platform.domain.devices import Held
from hami_platform.domain.fragments import Ask
from hami_platform.domain.nodes import DeviceState
from hami_platform.domain.reasons import Reason
from tests import builders

held = st.builds(
    builders.held,
    st.integers(0, 4),
    st.sampled_from((0, 1000, 12000, 24576, 30000)),
    st.sampled_from((0, 20, 50, 100)),
)
asks = st.builds(Ask, st.sampled_from((1, 1000, 6144, 12288, 24576, 24577)), st.sampled_from((0, 20, 34, 50, 100)))
states = st.builds(
    lambda used, slots, reserved: builders.state(used=used, slots=slots, reserved_mib=reserved),
    held,
    st.integers(1, 5),
    st.sampled_from((0, 500)),
)
migs = st.sampled_from(((), (builders.mig_use("1g.5gb", 0, 1),), (builders.mig_use("3g.20gb", 4, 4),)))


def accepted(state: DeviceState, ask: Ask) -> bool:
    """Whether the decision gives this device to such a pod."""
    request = builders.pod(builders.ask(memory_mib=ask.memory_mib, core_percent=ask.core_percent))
    return isinstance(fit.fit_pod(builders.node("n1", state), request), fit.Fitted)


def one_more(state: DeviceState, ask: Ask) -> DeviceState:
    return replace(state, held=state.held + Held(1, ask.memory_mib, ask.core_percent))


@given(states, asks)
def test_an_ask_fits_as_often_as_the_decision_takes_it(state: DeviceState, ask: Ask) -> None:
    count, reason = fragments.times(state, ask)
    for _ in range(count):
        assert accepted(state, ask)
        state = one_more(state, ask)
    assert not accepted(state, ask)
    assert reason is not None


@given(states)
def test_the_largest_request_fits_and_a_larger_one_does_not(state: DeviceState) -> None:
    largest = fragments.largest_mib(state)
    assert not accepted(state, Ask(largest + 1))
    assert largest == 0 or accepted(state, Ask(largest))


@given(migs, st.sampled_from((1, 4864, 4865, 19968, 40192, 40193)))
def test_mig_instances_are_counted_by_where_they_can_lie(uses: tuple[object, ...], memory_mib: int) -> None:
    state = builders.mig_state(uses=uses)  # type: ignore[arg-type]
    assert (fragments.times(state, Ask(memory_mib))[0] > 0) == accepted(state, Ask(memory_mib))
    largest = fragments.largest_mib(state)
    assert accepted(state, Ask(largest))
    assert not accepted(state, Ask(largest + 1))


def summed(*used: Held, **fields: object) -> fragments.Fragments:
    node = builders.uniform_node("n1", len(used), used=used, **fields)
    return fragments.fragments([node], {})[0]


def test_free_memory_that_is_of_no_use_is_told_by_reason() -> None:
    found = summed(builders.held(1, 20000), builders.held(1, 100, 100), builders.held())
    assert (found.devices, found.free_mib) == (3, 3 * 24576 - 20100)
    assert (found.ask, found.fits) == (Ask(6144), 4)
    assert found.unusable_mib == {
        Reason.CARD_INSUFFICIENT_MEMORY: 24576 - 20000,
        Reason.CARD_COMPUTE_UNITS_EXHAUSTED: 24476,
    }
    assert found.lost_mib + found.fits * 6144 == found.free_mib
    assert (found.largest_mib, found.whole, found.whole_on_node) == (24576, 1, 1)
    assert found.free_by_quarter == [0, 1, 0, 0, 2]


@pytest.mark.parametrize(
    "fields, reason", [({"healthy": False}, "CardNotHealth"), ({"cordoned": True}, "CardCordoned")]
)
def test_what_a_closed_device_has_free_is_of_no_use(fields: dict[str, object], reason: str) -> None:
    found = summed(builders.held(), **fields)
    assert (found.fits, found.largest_mib, found.whole) == (0, 0, 0)
    assert {key.value: mib for key, mib in found.unusable_mib.items()} == {reason: 24576}
