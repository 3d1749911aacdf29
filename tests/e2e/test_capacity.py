"""A full cluster: forty whole cards taken by a Deployment, and a pod that waits for the next one."""

from __future__ import annotations

from typing import Any

from tests.cluster import nodes
from tests.cluster.kube import eventually
from tests.cluster.space import Space

CARDS = 40


def _deployment(replicas: int) -> dict[str, Any]:
    template = nodes.pod("", nodes.container(gpu=1))
    template["metadata"] = {"labels": {"app": "trainer"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "trainer"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "trainer"}},
            "template": {"metadata": template["metadata"], "spec": template["spec"]},
        },
    }


def test_next_pod_waits_with_a_reason_and_takes_the_first_free_card(team: Space) -> None:
    deployments = f"/apis/apps/v1/namespaces/{team.name}/deployments"
    team.api.create(deployments, _deployment(CARDS))
    path = f"{deployments}/trainer"
    eventually("40 replicas run", lambda: _ready(team, path) == CARDS, within_s=120)
    held = team.ledger.devices()
    assert [use["memory_mib"] for use in held.values()] == [nodes.MEMORY_MIB] * CARDS

    team.create(nodes.pod("late", nodes.container(gpu=1)))
    eventually("the ledger stored why", lambda: team.row("late").get("refusal"))
    assert "CardInsufficientMemory" in str(team.ledger.traces(team.name, "late"))
    assert team.condition("late")["reason"] == "Unschedulable"
    assert team.node_of("late") is None

    team.api.patch(path, {"spec": {"replicas": CARDS - 1}})
    team.await_bound("late", within_s=5)
    assert team.scheduler_errors() == []


def _ready(team: Space, path: str) -> int:
    deployment = team.api.get(path) or {}
    return int(deployment.get("status", {}).get("readyReplicas", 0))
