"""Laws of placement.

The screen never hides a node, place equals brute force, the short refusal equals the long one, and what is placed stays
within every device.
"""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hami_platform.domain import fit, nodes, refusal, score
from hami_platform.domain.devices import ContainerKind, MigUse
from hami_platform.domain.nodes import NodeState
from hami_platform.domain.place import Decision, Defaults, place
from hami_platform.domain.quota import Headroom
from hami_platform.domain.reasons import Rejection
from hami_platform.domain.requests import DeviceRequest, PodRequest
from hami_platform.domain.terms import terms_of
from tests import builders
from tests.domain import clusters, oracle

EXAMPLES = settings(max_examples=250, deadline=None)


def rows(decision: Decision) -> list[oracle.Row]:
    def label(use: MigUse | None) -> str:
        return f"{use.profile}@{use.placement.start}+{use.placement.size}" if use else ""

    assert decision.placement is not None
    return [
        (s.container_index, s.vendor, s.uuid, s.memory_mib, s.core_percent, label(s.mig))
        for s in decision.placement.shares
    ]


@EXAMPLES
@given(
    clusters.clusters(), clusters.pods(), clusters.headrooms(), st.sampled_from(("binpack", "spread")),
    st.sampled_from(("binpack", "spread", "mutex")), st.booleans(),
)  # fmt: skip
def test_law_3_place_equals_brute_force(
    known: dict[str, NodeState],
    request: PodRequest,
    headroom: Headroom,
    node_policy: str,
    device_policy: str,
    all_: bool,
) -> None:
    decision = place(
        known, list(known), request, headroom=headroom, defaults=Defaults(node_policy, device_policy), fit_all=all_
    )
    expected = oracle.place(known, list(known), request, headroom, node_policy, device_policy)

    if isinstance(expected, dict):
        assert decision.placement is None
        assert {name: rejection.text() for name, rejection in decision.rejections.items()} == expected
    else:
        assert decision.placement is not None
        assert (decision.placement.node, rows(decision)) == expected


@EXAMPLES
@given(clusters.node_states(), clusters.pods(), clusters.headrooms())
def test_law_2_the_screen_never_drops_a_node_that_fits(
    node: NodeState, request: PodRequest, headroom: Headroom
) -> None:
    if isinstance(fit.fit_pod(node, request, score.DEFAULTS, headroom), fit.Fitted):
        assert nodes.screen(node, request) is None


@EXAMPLES
@given(clusters.node_states(), clusters.pods(), clusters.headrooms())
def test_the_short_refusal_is_that_of_fit(node: NodeState, request: PodRequest, headroom: Headroom) -> None:
    ask = next((ask for container in request.containers for ask in container.devices), None)
    assume(ask is not None)
    assert ask is not None
    terms = terms_of(request, score.DEFAULTS, headroom)

    short = refusal.refusal_of(node, ask, terms)

    if short is not None:
        long = fit.fit(node, request, terms)
        assert isinstance(long, Rejection)
        assert (short.text(), short.dominant()) == (long.text(), long.dominant())


@EXAMPLES
@given(clusters.busy_nodes(), clusters.busy_asks())
def test_the_short_refusal_of_a_busy_node_is_that_of_fit(node: NodeState, ask: DeviceRequest) -> None:
    request = builders.pod(ask)

    short = refusal.refusal_of(node, ask, terms_of(request, score.DEFAULTS, Headroom()))
    long = fit.fit_pod(node, request)

    if isinstance(long, Rejection):
        assert short is not None
        assert short.text() == long.text()
    else:
        assert short is None


@EXAMPLES
@given(clusters.node_states(), clusters.pods())
def test_law_5_what_is_placed_fits_the_devices_beside_what_is_held(node: NodeState, request: PodRequest) -> None:
    fitted = fit.fit_pod(node, request)
    if isinstance(fitted, Rejection):
        return
    peak = oracle._Pod(node, request, Headroom(), "spread").held(
        [(s.container_index, s.vendor, s.uuid, s.memory_mib, s.core_percent, "") for s in fitted.shares]
    )
    for state in node.devices:
        slots, memory, core = peak.get(state.device.uuid, (0, 0, 0))
        assert slots <= state.free_slots or slots == 0
        assert memory <= state.free_memory_mib or memory == 0
        assert state.device.mode == nodes.MIG or core <= state.free_core_percent or core == 0


@EXAMPLES
@given(clusters.node_states(), clusters.pods())
def test_mig_instances_that_run_together_never_overlap(node: NodeState, request: PodRequest) -> None:
    fitted = fit.fit_pod(node, request)
    if isinstance(fitted, Rejection):
        return
    for i, a in enumerate(fitted.shares):
        others = [b for b in fitted.shares[i + 1 :] if together(a, b) and b.uuid == a.uuid]
        taken = [*next(s.held.mig for s in node.devices if s.device.uuid == a.uuid), *(b.mig for b in others if b.mig)]
        for use in taken:
            assert a.mig is None or not overlaps(a.mig, use)


def together(a, b) -> bool:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """Whether the containers of two rows, in order, can run at the same time."""
    if a.container_index == b.container_index:
        return True
    return a.kind is not ContainerKind.INIT


def overlaps(a: MigUse, b: MigUse) -> bool:
    mine = set(range(a.placement.start, a.placement.start + a.placement.size))
    return bool(mine & set(range(b.placement.start, b.placement.start + b.placement.size)))
