"""Pods of several requests: the screen by sums never hides a node, and the short refusal is that of `fit`."""

from __future__ import annotations

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from hami_platform.domain import fit, score, several, together
from hami_platform.domain.devices import ContainerKind, Held
from hami_platform.domain.nodes import NodeState
from hami_platform.domain.quota import Headroom
from hami_platform.domain.reasons import Reason, Rejection
from hami_platform.domain.requests import Constraints, ContainerRequest, DeviceRequest, PodRequest, Weights
from hami_platform.domain.terms import terms_of
from tests import builders
from tests.builders import ask, init, pod, sidecar
from tests.domain import clusters

EXAMPLES = settings(max_examples=400, deadline=None)


@st.composite
def tight_nodes(draw: st.DrawFn) -> NodeState:
    """A few devices, alike or not, of one vendor or two, on which little is left in one way or another."""
    alike = draw(st.booleans())
    total = draw(st.sampled_from((12, 13, 8)))

    def one(index: int) -> object:
        slots = draw(st.sampled_from((0, 0, 1, 1, 2, 4)))
        memory, cores = draw(st.sampled_from(((0, 0), (4, 0), (12, 0), (4, 20), (0, 100), (13, 100), (0, 50), (2, 20))))
        return builders.state(
            str(index),
            index=index,
            vendor=draw(st.sampled_from(("NVIDIA", "NVIDIA", "NVIDIA", "NVIDIA", "MLU"))),
            memory_mib=total if alike else draw(st.sampled_from((12, 8, 13))),
            core_percent=100 if alike else draw(st.sampled_from((100, 100, 200, 0))),
            slots=draw(st.sampled_from((4, 4, 2, 1))) if not alike else 4,
            numa=draw(st.integers(0, 1)),
            healthy=draw(st.integers(0, 9)) < 9,
            reserved_mib=draw(st.sampled_from((0, 0, 1))),
            used=Held(slots, memory, cores) if slots else Held(),
        )

    states = [one(index) for index in range(draw(st.integers(1, 4)))]
    return NodeState.of("n1", states)  # type: ignore[arg-type]


@st.composite
def pods_of_several(draw: st.DrawFn) -> PodRequest:
    """Two to five requests in containers of all kinds; equal requests are frequent."""
    memory = st.sampled_from(((1, None), (2, None), (4, None), (8, None), (13, None), (0, 100), (0, 50), (0, None)))
    one = st.builds(
        lambda vendor, count, amount, cores: DeviceRequest(vendor, count, amount[0], amount[1], cores),
        st.sampled_from(("NVIDIA", "NVIDIA", "NVIDIA", "MLU")),
        st.sampled_from((1, 1, 1, 2, 3)),
        memory,
        st.sampled_from((0, 0, 20, 50, 100, 150)),
    )
    some = draw(st.lists(one, min_size=1, max_size=3))
    kinds = draw(st.lists(st.sampled_from((ContainerKind.INIT, ContainerKind.SIDECAR)), max_size=2))
    kinds += [ContainerKind.APP] * draw(st.integers(1, 3))
    found = [
        ContainerRequest(f"c{n}", kind, tuple(draw(st.lists(st.sampled_from(some), min_size=1, max_size=2))))
        for n, kind in enumerate(kinds)
    ]
    wanted = Constraints(
        device_policy=draw(st.sampled_from((None, "binpack", "spread", "binpack,numa", "numa,spread"))),
        weights=draw(st.sampled_from((Weights(), Weights(1, 1, 3)))),
    )
    return PodRequest(tuple(found), wanted)


def dropped(node: NodeState, request: PodRequest) -> Reason | None:
    return together.lacks(node, together.sums_of(request, request.vendors))


def steps(request: PodRequest) -> several.Steps | None:
    return several.steps_of(request, terms_of(request, score.DEFAULTS, Headroom()))


@EXAMPLES
@given(
    st.one_of(tight_nodes(), clusters.busy_nodes(), clusters.node_states()), pods_of_several() | clusters.pods()
)  # fmt: skip
def test_law_2_the_sums_never_drop_a_node_that_fits(node: NodeState, request: PodRequest) -> None:
    reason = dropped(node, request)
    event(f"dropped: {reason}")
    if reason is not None:
        assert isinstance(fit.fit_pod(node, request), Rejection)


@EXAMPLES
@given(st.one_of(tight_nodes(), clusters.busy_nodes(), clusters.node_states()), pods_of_several())
def test_the_short_refusal_of_several_is_that_of_fit(node: NodeState, request: PodRequest) -> None:
    found = steps(request)
    short = several.refusal_of(node, found) if found is not None else None
    long = fit.fit_pod(node, request)

    event(f"refused: {short is not None}")
    if isinstance(long, Rejection):
        mig = any(ranks.mig for ranks in node.ranks.values())
        assert short is not None or found is None or mig
        assert short is None or (short.text(), short.dominant()) == (long.text(), long.dominant())
    else:
        assert short is None


@pytest.mark.parametrize(
    "request_, reason",
    [
        (pod(ask(4, core_percent=100), ask(5, core_percent=100)), Reason.CARD_INSUFFICIENT_CORE),
        (pod(ask(4, core_percent=100), ask(4, core_percent=100)), None),
        (pod(*[ask(memory_mib=13000)] * 9), Reason.CARD_INSUFFICIENT_MEMORY),
        (pod(*[ask(memory_mib=12000)] * 16), None),
        (pod(*[ask(8, memory_percent=60)] * 2), Reason.CARD_INSUFFICIENT_MEMORY),
        (pod(*[ask(8, memory_percent=50)] * 2), None),
        (pod(*[ask(8)] * 11), Reason.CARD_TIME_SLICING_EXHAUSTED),
        (pod(init(ask(8, core_percent=100)), ask(8, core_percent=100)), None),
        (pod(sidecar(ask(1, core_percent=10)), ask(8, core_percent=100)), Reason.CARD_INSUFFICIENT_CORE),
    ],
)  # fmt: skip
def test_the_sums_of_a_pod_against_an_empty_node_of_eight(request_: PodRequest, reason: Reason | None) -> None:
    node = builders.uniform_node(count=8)

    assert dropped(node, request_) is reason
    assert isinstance(fit.fit_pod(node, request_), Rejection) is (reason is not None)


def test_more_held_than_there_is_takes_nothing_from_other_devices() -> None:
    node = builders.uniform_node(count=2, used=[Held(1, 40000, 0)])

    assert dropped(node, pod(ask(memory_mib=12000), ask(memory_mib=12000))) is None
