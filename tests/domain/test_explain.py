"""What a refusal says to people: the headline, the reasons, the limit, and whether waiting can help."""

from __future__ import annotations

import pytest

from hami_platform.domain.devices import Held
from hami_platform.domain.explain import Explanation, NodeDetail, Verdict, explain
from hami_platform.domain.nodes import NodeState
from hami_platform.domain.place import place
from hami_platform.domain.quota import Amounts, Headroom, Limits
from hami_platform.domain.reasons import Reason
from hami_platform.domain.requests import PodRequest
from tests import builders
from tests.builders import ask, cluster, pod, state, uniform_node


def why(*nodes: NodeState, request: PodRequest, room: Headroom | None = None) -> Explanation:
    known = cluster(*nodes)
    return explain(place(known, list(known), request, headroom=room or Headroom()), request)


def test_a_pod_that_fits_says_where() -> None:
    assert why(uniform_node("n1"), request=pod(ask())) == Explanation(Verdict.FITS, "fits on n1")


def test_a_refusal_has_a_headline_reasons_and_a_line_per_node() -> None:
    full = uniform_node("n2", 1, used=[Held(1, 24000, 0)])
    small = uniform_node("n1", 1, memory_mib=500)

    found = why(full, small, builders.node("n3"), request=pod(ask(memory_mib=1000)))

    assert found.headline == "0/3 nodes: 2 CardInsufficientMemory, 1 NodeInsufficientDevice"
    assert found.reasons == ((Reason.CARD_INSUFFICIENT_MEMORY, 2), (Reason.NODE_INSUFFICIENT_DEVICE, 1))
    assert found.nodes[1] == NodeDetail("n2", Reason.CARD_INSUFFICIENT_MEMORY, "1/1 CardInsufficientMemory")
    assert found.verdict is Verdict.NO_FIT_NOW


@pytest.mark.parametrize(
    "node",
    [
        uniform_node("n1", 1, used=[Held(1, 24000, 0)]),
        uniform_node("n1", 1, healthy=False),
        uniform_node("n1", 1, cordoned=True),
        builders.node("n1", state(), blocked=Reason.NODE_PLUGIN_GONE),
    ],
    ids=["in use", "unhealthy", "cordoned", "blocked"],
)
def test_what_can_pass_is_not_never(node: NodeState) -> None:
    assert why(node, request=pod(ask(memory_mib=20000))).verdict is Verdict.NO_FIT_NOW


@pytest.mark.parametrize(
    "node, request_",
    [
        (uniform_node("n1", 1), pod(ask(memory_mib=30000))),
        (uniform_node("n1", 1), pod(ask(2))),
        (uniform_node("n1", 1, reserved_mib=100), pod(ask(memory_percent=100))),
        (uniform_node("n1", 1), pod(ask(), use_models=("H100",))),
        (uniform_node("n1", 1), pod(ask(), use_uuids=("other",))),
        (uniform_node("n1", 1), pod(ask(vendor="MLU"))),
    ],
    ids=["memory", "devices", "reserved", "model", "uuid", "vendor"],
)
def test_what_no_empty_cluster_offers_never_fits(node: NodeState, request_: PodRequest) -> None:
    assert why(node, request=request_).verdict is Verdict.NEVER_FITS


def test_a_uuid_that_is_busy_may_come_free() -> None:
    busy = uniform_node("n1", 1, used=[Held(10, 0, 0)])

    assert why(busy, uniform_node("n2", 1), request=pod(ask(), use_uuids=("GPU-n1-0",))).verdict is Verdict.NO_FIT_NOW


def test_a_quota_that_refuses_is_named_with_its_numbers() -> None:
    room = builders.headroom(Limits(memory_mib=10000), Amounts(memory_mib=8000))

    found = why(uniform_node("n1", 1), request=pod(ask(memory_mib=4000)), room=room)

    assert found.verdict is Verdict.NO_FIT_NOW
    assert found.excess is not None
    assert found.excess.text() == "needs 4000, free 2000 of 10000 memory MiB, used 8000, quota nlp/default"


def test_a_limit_below_the_request_never_fits() -> None:
    room = builders.headroom(Limits(memory_mib=3000))

    assert why(uniform_node("n1", 1), request=pod(ask(memory_mib=4000)), room=room).verdict is Verdict.NEVER_FITS


def test_no_candidate_never_fits() -> None:
    found = why(request=pod(ask()))

    assert (found.verdict, found.headline) == (Verdict.NEVER_FITS, "0/0 nodes")
