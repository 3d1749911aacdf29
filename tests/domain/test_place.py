"""Which node a pod goes to, in which order others follow, and what is said of the rest."""

from __future__ import annotations

import pytest

from hami_platform.domain import fit
from hami_platform.domain.devices import Held, Share
from hami_platform.domain.nodes import NodeState
from hami_platform.domain.place import Decision, Defaults, dominant_text, place, summary
from hami_platform.domain.quota import Headroom
from hami_platform.domain.reasons import Reason, Rejection
from hami_platform.domain.requests import PodRequest
from tests import builders
from tests.builders import ask, cluster, init, pod, state, uniform_node

SMALL = ask(memory_mib=1000)


def decide(
    known: dict[str, NodeState], request: PodRequest, *, candidates: list[str] | None = None, fit_all: bool = False,
    node_policy: str = "binpack", device_policy: str = "spread",
) -> Decision:  # fmt: skip
    return place(
        known,
        list(known) if candidates is None else candidates,
        request,
        headroom=Headroom(),
        defaults=Defaults(node_policy, device_policy),
        fit_all=fit_all,
    )


def chosen(decision: Decision) -> str | None:
    return decision.placement.node if decision.placement else None


def half_used(name: str, slots: int) -> NodeState:
    return uniform_node(name, 1, used=[Held(slots, slots * 1000, slots)])


@pytest.mark.parametrize("policy, node", [("binpack", "b"), ("spread", "a")])
def test_the_node_policy_chooses_by_score(policy: str, node: str) -> None:
    known = cluster(half_used("a", 1), half_used("b", 3), half_used("c", 2))

    assert chosen(decide(known, pod(SMALL), node_policy=policy)) == node


@pytest.mark.parametrize("policy", ["binpack", "spread"])
@pytest.mark.parametrize("order", [["a", "b", "c"], ["c", "b", "a"]])
def test_ties_go_to_the_first_name_whatever_the_order_of_candidates(policy: str, order: list[str]) -> None:
    known = cluster(*(uniform_node(name, 1) for name in "cab"))

    assert chosen(decide(known, pod(SMALL), candidates=order, node_policy=policy)) == "a"


@pytest.mark.parametrize(
    "node_policy, device_policy, containers, placed",
    [
        ("binpack", "binpack", [ask(memory_mib=1000, core_percent=20)], [("node2", "d4")]),
        ("binpack", "binpack", [init(ask(memory_mib=5000)), ask(memory_mib=4000)], [("node2", "d3"), ("node2", "d3")]),
        ("binpack", "spread", [ask(memory_mib=1000, core_percent=20)], [("node2", "d3")]),
        ("spread", "binpack", [ask(memory_mib=1000, core_percent=20)], [("node1", "d1")]),
        ("spread", "spread", [ask(memory_mib=1000, core_percent=20)], [("node1", "d2")]),
    ],
)
def test_both_policies_together_place_as_hami_does(
    node_policy: str, device_policy: str, containers: list[object], placed: list[tuple[str, str]]
) -> None:
    known = cluster(
        builders.node(
            "node1", state("d1", memory_mib=8000, used=Held(1, 2000, 25)), state("d2", index=1, memory_mib=8000)
        ),
        builders.node(
            "node2", state("d3", memory_mib=8000), state("d4", index=1, memory_mib=8000, used=Held(1, 6000, 75))
        ),
    )
    request = pod(*containers)  # type: ignore[arg-type]

    decision = decide(known, request, node_policy=node_policy, device_policy=device_policy)

    assert decision.placement is not None
    assert [(decision.placement.node, share.uuid) for share in decision.placement.shares] == placed


def test_the_best_node_that_does_not_fit_is_passed_over_and_explained() -> None:
    known = cluster(half_used("full", 10), uniform_node("free", 1))

    decision = decide(known, pod(SMALL))

    assert chosen(decision) == "free"
    assert {name: r.text() for name, r in decision.rejections.items()} == {"full": "1/1 CardTimeSlicingExhausted"}


def test_a_node_that_only_the_exact_fit_refuses_is_explained() -> None:
    shared = uniform_node("shared", 1, used=[Held(1, 100, 0)])

    decision = decide(cluster(shared, uniform_node("free", 1)), pod(ask(core_percent=100)))

    assert chosen(decision) == "free"
    assert decision.rejections["shared"].text() == "1/1 ExclusiveDeviceAllocateConflict"


def test_an_unknown_candidate_and_a_blocked_node_have_reasons_of_their_own() -> None:
    known = cluster(builders.node("locked", state(), blocked=Reason.NODE_LOCKED))

    decision = decide(known, pod(SMALL), candidates=["locked", "stranger"])

    assert decision.placement is None
    assert {name: r.text() for name, r in decision.rejections.items()} == {
        "locked": "NodeLocked",
        "stranger": "node unregistered",
    }


def test_only_candidates_are_chosen() -> None:
    known = cluster(uniform_node("a", 1), uniform_node("b", 1))

    assert chosen(decide(known, pod(SMALL), candidates=["b"])) == "b"
    assert chosen(decide(known, pod(SMALL), candidates=[])) is None


def test_a_candidate_named_twice_counts_once() -> None:
    assert len(decide({}, pod(SMALL), candidates=["x", "x"]).rejections) == 1


def test_alternatives_follow_in_order_and_leave_out_what_does_not_fit() -> None:
    known = cluster(half_used("a", 3), half_used("b", 2), half_used("full", 10), half_used("c", 1))

    decision = decide(known, pod(SMALL))

    assert chosen(decision) == "a"
    assert [placement.node for placement in decision.alternatives] == ["b", "c"]
    assert [placement.node for placement in decision.alternatives] == ["b", "c"]


def test_fit_all_tries_every_node_and_chooses_the_same() -> None:
    known = cluster(half_used("a", 3), half_used("b", 2), half_used("full", 10))

    decision = decide(known, pod(SMALL), fit_all=True)

    assert decision.fitting == (("a", known["a"].score), ("b", known["b"].score))
    assert chosen(decision) == "a"
    assert [placement.node for placement in decision.alternatives] == ["b"]
    assert set(decision.rejections) == {"full"}


def test_a_placement_is_the_fit_of_its_node() -> None:
    node = uniform_node("a", 4)
    decision = decide(cluster(node), pod(ask(2, memory_mib=1000)))
    fitted = fit.fit_pod(node, pod(ask(2, memory_mib=1000)))

    assert decision.placement is not None
    assert isinstance(fitted, fit.Fitted)
    assert (decision.placement.shares, decision.placement.score) == (fitted.shares, fitted.score)


# Bursts: one decision after another, each seeing the last ------------------------------------------------------------


def fill(node: NodeState, request: PodRequest, times: int) -> tuple[int, NodeState]:
    """How many of so many pods are placed, and the node after them."""
    placed = 0
    for _ in range(times):
        decision = decide(cluster(node), request)
        if decision.placement is not None:
            placed += 1
            node = node.plus(held(decision.placement.shares))
    return placed, node


def held(shares: tuple[Share, ...]) -> dict[tuple[str, str], Held]:
    return {share.key: Held(1, share.memory_mib, share.core_percent) for share in shares}


def test_h58_the_eleventh_sharer_is_refused() -> None:
    placed, node = fill(uniform_node("n1", 1), pod(ask(memory_mib=100)), 11)

    assert placed == 10
    assert decide(cluster(node), pod(ask(memory_mib=100))).rejections["n1"].text() == "1/1 CardTimeSlicingExhausted"


def test_h60_a_device_of_46068_takes_23_pods_of_2000() -> None:
    placed, node = fill(uniform_node("n1", 1, memory_mib=46068, slots=30), pod(ask(memory_mib=2000)), 24)

    assert (placed, node.devices[0].held.memory_mib) == (23, 46000)


def test_h61_two_halves_fit_and_a_third_waits() -> None:
    assert fill(uniform_node("n1", 1), pod(ask(memory_mib=12288)), 3)[0] == 2


# Texts ---------------------------------------------------------------------------------------------------------------


def test_h62_a_refusal_counts_each_node_once_under_its_dominant_reason() -> None:
    known = cluster(
        uniform_node("n1", 2, model="NVIDIA A100", memory_mib=16000),
        uniform_node("n2", 2, model="NVIDIA A100", memory_mib=16000),
        uniform_node("n3", 2, model="NVIDIA T4"),
    )

    decision = decide(known, pod(ask(memory_mib=20000), use_models=("A100",)))

    assert summary(decision.rejections) == "0/3 nodes: 2 CardInsufficientMemory, 1 CardTypeMismatch"
    assert decision.rejections["n1"].text() == "2/2 CardInsufficientMemory"
    assert dominant_text(decision.rejections) == "CardInsufficientMemory"


def test_h62_a_node_with_fewer_devices_than_asked_is_counted() -> None:
    decision = decide(cluster(uniform_node("n1", 1), uniform_node("n2", 2, memory_mib=10)), pod(ask(2, memory_mib=20)))

    assert summary(decision.rejections) == "0/2 nodes: 1 CardInsufficientMemory, 1 NodeInsufficientDevice"


def test_h62_nodes_that_are_not_registered_are_counted() -> None:
    assert summary(decide({}, pod(SMALL), candidates=["a", "b"]).rejections) == "0/2 nodes: 2 node unregistered"


def test_the_wire_has_one_word_for_all_nodes_ties_by_name() -> None:
    rejections = {
        "a": Rejection({Reason.CARD_INSUFFICIENT_MEMORY: 1, Reason.CARD_CORDONED: 3}, 4),
        "b": Rejection({Reason.NUMA_NOT_FIT: 2}, 4),
    }

    assert dominant_text(rejections) == "CardCordoned"
    assert dominant_text({}) == ""
    assert summary({}) == "0/0 nodes"


def test_rejections_are_a_mapping_over_the_refused_nodes_only() -> None:
    rejections = decide(cluster(half_used("full", 10), uniform_node("free", 1)), pod(SMALL)).rejections

    assert list(rejections) == ["full"]
    assert "free" not in rejections
    assert rejections["full"] is rejections["full"]
    with pytest.raises(KeyError):
        rejections["free"]


def test_a_pod_of_several_containers_is_refused_with_exact_counts() -> None:
    decision = decide(cluster(uniform_node("n1", 2, memory_mib=100)), pod(ask(memory_mib=80), ask(2, memory_mib=200)))

    assert decision.rejections["n1"].text() == "2/2 CardInsufficientMemory"
