"""How vendors choose devices: the shared strategies, and that the screen never drops a node that they accept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_platform.domain import errors, fit, nodes, place, quota, score
from hami_platform.domain.devices import ContainerKind, Device, Held
from hami_platform.domain.nodes import DeviceState, NodeState
from hami_platform.domain.requests import Constraints, ContainerRequest, DeviceRequest, PodRequest
from hami_platform.domain.strategy import Outcome, Strategy
from hami_platform.domain.terms import terms_of
from hami_platform.domain.vendors import base, parse, registry
from hami_platform.domain.vendors.strategies import groups

CONFIG = registry.default_config()


def device(index: int, vendor: str, cores: int = 100, **facts: str) -> Device:
    custom = tuple(sorted(facts.items()))
    return Device(f"{vendor}-{index}", index, vendor, vendor, 1000, cores, slots=4, custom=custom)


def asking(vendor: str, count: int = 1, containers: int = 1, **amounts: int) -> PodRequest:
    ask = DeviceRequest(vendor, count, **amounts)
    apps = (ContainerRequest(f"c{i}", ContainerKind.APP, (ask,)) for i in range(containers))
    return PodRequest(tuple(apps))


@pytest.mark.parametrize(
    "count, given_groups, expected",
    [
        (4, [1, 1, 1, 2, 2, 3], (0, 1, 2, 3)),
        (2, [1, 2, 2], (1, 2)),
        (2, [2, 1, 2, 1], (1, 3)),
        (2, ["b", None, "a"], (2, 0)),
        (2, [None, 1], None),
    ],
)
def test_the_largest_group_is_emptied_first_and_ties_go_by_name(
    count: int, given_groups: list[object], expected: tuple[int, ...] | None
) -> None:
    assert groups.largest_first(count, given_groups) == expected


def test_a_second_container_keeps_to_the_card_of_the_first() -> None:
    node = NodeState.of("n", [DeviceState(device(i, "Mthreads", 16)) for i in range(2)])
    terms = terms_of(
        asking("Mthreads", containers=2, memory_mib=10), score.DEFAULTS, quota.UNLIMITED, CONFIG.strategies
    )
    found = fit.fit(node, asking("Mthreads", containers=2, memory_mib=10), terms)
    assert isinstance(found, fit.Fitted)
    assert len({share.uuid for share in found.shares}) == 1


def test_units_of_an_amd_card_are_rounded_down_but_never_to_none() -> None:
    node = NodeState.of("n", [DeviceState(device(0, "AMD", 64))])
    for percent, units in ((1, 1), (33, 21), (100, 64)):
        request = asking("AMD", core_percent=percent)
        found = fit.fit(node, request, terms_of(request, score.DEFAULTS, quota.UNLIMITED, CONFIG.strategies))
        assert isinstance(found, fit.Fitted)
        assert [share.core_percent for share in found.shares] == [units]


def more_on_b(outcome: Outcome) -> float:
    return 5.0 if outcome.node.name == "b" else 0.0


@pytest.mark.parametrize(
    "neutral, node_policy, expected",
    [(False, "binpack", "b"), (False, "spread", "a"), (True, "binpack", "b"), (True, "spread", "b")],
)
def test_a_vendors_score_decides_on_the_node(neutral: bool, node_policy: str, expected: str) -> None:
    known = {name: NodeState.of(name, [DeviceState(device(0, "X"))]) for name in ("a", "b")}
    own = {"X": Strategy(score=more_on_b, neutral=neutral)}
    request = PodRequest(asking("X").containers, Constraints(node_policy=node_policy))
    found = place.place(known, ("a", "b"), request, headroom=quota.UNLIMITED, strategies=own)
    assert found.placement is not None
    assert found.placement.node == expected
    assert {name for name, _ in found.fitting} == {"a", "b"}


@st.composite
def requested(draw: st.DrawFn, vendor: base.Vendor) -> PodRequest:
    """What a pod can ask of a vendor, as it is read."""
    names = vendor.resources
    limits = {names.count: str(draw(st.integers(1, 3)))}
    notes = {key: draw(st.sampled_from(["online", "offline", "best-effort", "true"])) for key in vendor.selection.notes}
    for name in filter(None, (names.memory, names.cores)):
        if draw(st.booleans()):
            limits[name] = str(draw(st.sampled_from([1, 2, 16, 96, 500])))
    containers = [{"name": "c", "resources": {"limits": limits}}]
    pod = {"metadata": {"annotations": notes}, "spec": {"containers": containers}}
    try:
        return parse.pod_request(pod, CONFIG)
    except errors.RequestError:
        return PodRequest(())


@st.composite
def cases(draw: st.DrawFn) -> tuple[NodeState, PodRequest]:
    vendor = draw(st.sampled_from(CONFIG.vendors))
    held = st.tuples(st.integers(0, 4), st.sampled_from([0, 500, 1000]), st.sampled_from([0, 3, 50, 100]))
    said = st.tuples(
        *(st.tuples(st.just(key), st.sampled_from(["online", "offline"])) for key in vendor.selection.notes)
    )
    states = [
        DeviceState(
            device(i, vendor.word, draw(st.sampled_from([0, 3, 16, 64, 100, 304]))),
            Held(*draw(held), notes=draw(st.one_of(st.just(()), said))),
        )
        for i in range(draw(st.integers(0, 3)))
    ]
    return NodeState.of("n", states), draw(requested(vendor))


@given(cases())
def test_law_the_screen_never_drops_what_a_vendor_accepts(case: tuple[NodeState, PodRequest]) -> None:
    node, request = case
    terms = terms_of(request, score.DEFAULTS, quota.UNLIMITED, CONFIG.strategies)
    if isinstance(fit.fit(node, request, terms), fit.Fitted):
        assert all(nodes.lacks(node, ask) is None for ask in terms.floors(request))
