"""kube-scheduler's in-tree filters, as the simulated scheduler has them."""

from __future__ import annotations

from typing import Any

import pytest

from hami_platform.simulator.scheduling import predicates
from tests.simulator.equipment import Obj, make_node, make_pod

NONE: frozenset[str] = frozenset()


def container(**requests: str) -> Obj:
    return {"name": "x", "image": "x", "resources": {"requests": requests}}


def verdict(pod: Obj, node: Obj, used: dict[str, int] | None = None, pods: int = 0) -> tuple[str, ...]:
    """Why the node is turned down; () when it does."""
    found = predicates.turned_down(pod, predicates.requests(pod), node, used or {}, pods, NONE)
    return found.reasons if found else ()


def pod(**spec: Any) -> Obj:
    return make_pod("p", gpus=None, **spec)


@pytest.mark.parametrize(
    "toleration, holds",
    [
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "value": "yes", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "value": "no"}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"value": "yes"}, False),
    ],
)
def test_a_taint_needs_a_toleration(toleration: Obj, holds: bool) -> None:
    node = make_node("n", spec={"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]})
    assert verdict(pod(tolerations=[toleration]), node) == (() if holds else ("node(s) had untolerated taint(s)",))


def test_a_taint_that_only_prefers_turns_nobody_down() -> None:
    assert verdict(pod(), make_node("n", spec={"taints": [{"key": "a", "effect": "PreferNoSchedule"}]})) == ()


def test_an_unschedulable_node_takes_who_tolerates_it() -> None:
    node = make_node("n", spec={"unschedulable": True})
    tolerant = pod(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])
    assert verdict(pod(), node) == ("node(s) were unschedulable",)
    assert verdict(tolerant, node) == ()


@pytest.mark.parametrize(
    "terms, holds",
    [
        ([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}], True),
        ([{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}], False),
        (
            [{"matchExpressions": [{"key": "zone", "operator": "Exists"}, {"key": "x", "operator": "DoesNotExist"}]}],
            True,
        ),
        ([{"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["3"]}]}], True),
        ([{"matchExpressions": [{"key": "size", "operator": "Lt", "values": ["3"]}]}], False),
        ([{"matchExpressions": [{"key": "zone", "operator": "Gt", "values": ["3"]}]}], False),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}], True),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}], False),
        ([{}], False),
        ([], False),
        ([{}, {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}], True),
    ],
)
def test_required_node_affinity(terms: list[Obj], holds: bool) -> None:
    node = make_node("n", metadata={"labels": {"zone": "a", "size": "4"}})
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    assert (verdict(pod(affinity={"nodeAffinity": required}), node) == ()) is holds


def test_all_that_is_short_is_named() -> None:
    big = pod(containers=[container(cpu="33", memory="300Gi", **{"a.io/b": "1"})])
    short = verdict(big, make_node("n"), pods=110)
    assert short == ("Too many pods", "Insufficient cpu", "Insufficient memory", "Insufficient a.io/b")


def test_use_counts_and_equality_fits() -> None:
    asks = pod(containers=[container(cpu="2")])
    assert verdict(asks, make_node("n"), used={"cpu": 30_000}) == ()
    assert verdict(asks, make_node("n"), used={"cpu": 30_001}) == ("Insufficient cpu",)


def test_a_pod_needs_the_larger_of_its_init_peak_and_what_runs_together() -> None:
    spec = {
        "initContainers": [
            container(cpu="5"),
            {**container(cpu="1"), "restartPolicy": "Always"},
            container(cpu="3"),
        ],
        "containers": [container(cpu="1"), container(cpu="1500m")],
    }
    assert predicates.requests(pod(**spec)) == {"cpu": 5000}
    spec["initContainers"][0] = container(cpu="1")
    assert predicates.requests(pod(**spec)) == {"cpu": 4000}
    assert predicates.requests(pod(**spec, overhead={"cpu": "250m"})) == {"cpu": 4250}


def test_the_emptier_node_scores_higher() -> None:
    node = make_node("n")
    assert predicates.score({"cpu": 1000}, node, {}) > predicates.score({"cpu": 1000}, node, {"cpu": 16_000})
