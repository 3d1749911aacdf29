"""What goes on while a part of the platform is down, and what is refused.

| down | goes on | refused |
|---|---|---|
| webhook | plain pods, running Jobs, labels and finalizers of GPU pods | new GPU pods |
| database | plain pods | new GPU pods, with the reason |
| watcher | everything, at the pace of the periodic passes | |
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster import kube, nodes
from tests.cluster.kube import eventually
from tests.cluster.platform import Platform
from tests.cluster.space import Space


def _job(run_for: str) -> dict[str, Any]:
    template = nodes.pod("", nodes.container(gpu=1, gpumem=1024), restartPolicy="Never")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "batch"},
        "spec": {
            "template": {"metadata": {"annotations": {"e2e/run-for": run_for}}, "spec": template["spec"]},
        },
    }


def test_job_completes_while_the_webhook_is_down(platform: Platform, team: Space) -> None:
    jobs = f"/apis/batch/v1/namespaces/{team.name}/jobs"
    team.api.create(jobs, _job("3s"))
    eventually("its pod runs", lambda: any(pod["status"].get("phase") == "Running" for pod in team.pods()))
    with platform.without("webhook"):
        # The job controller takes its finalizer off the pod: an update of a pod with devices.
        eventually("the job is complete", lambda: _succeeded(team, f"{jobs}/batch"), within_s=60)
    eventually("nothing is held", lambda: not team.holding(), within_s=15)


def _succeeded(team: Space, path: str) -> bool:
    job = team.api.get(path) or {}
    conditions = job.get("status", {}).get("conditions", [])
    return any(each["type"] == "Complete" and each["status"] == "True" for each in conditions)


def test_plain_pod_runs_while_webhook_and_database_are_down(platform: Platform, team: Space) -> None:
    with platform.without("webhook"), platform.without_database():
        team.create(nodes.pod("plain"))
        team.await_phase("plain", "Running")


def test_gpu_pod_is_not_created_past_a_webhook_that_is_down(platform: Platform, team: Space) -> None:
    with platform.without("webhook"), pytest.raises(kube.ApiError, match="failed calling webhook"):
        team.create(nodes.pod("gpu", nodes.container(gpu=1)))


def test_gpu_pod_is_denied_with_the_reason_while_the_database_is_down(platform: Platform, team: Space) -> None:
    with platform.without_database():
        with pytest.raises(kube.ApiError, match="denied the request") as denied:
            team.create(nodes.pod("gpu", nodes.container(gpu=1)))
        assert "database" in denied.value.message
    eventually("the webhook is ready again", lambda: platform.ready("webhook"))
    team.create_insisting(nodes.pod("gpu", nodes.container(gpu=1)))
    team.await_phase("gpu", "Running", within_s=60)


def test_every_process_outlives_a_lost_database(platform: Platform, team: Space) -> None:
    with platform.without_database():
        eventually("the extender notices", lambda: not platform.ready("extender"))
        eventually("the webhook notices", lambda: not platform.ready("webhook"))
    for role in platform.roles():
        platform.await_role(role)
    team.create_insisting(nodes.pod("after", nodes.container(gpu=1)))
    team.await_phase("after", "Running")
    team.delete("after")
    eventually("nothing is held", lambda: not team.holding(), within_s=10)
    assert [role for role in platform.roles() if not platform.alive(role)] == []


def test_pods_are_placed_and_forgotten_without_the_watcher(platform: Platform, team: Space) -> None:
    with platform.without("watcher"):
        team.create(nodes.pod("gpu", nodes.container(gpu=1)))
        team.await_phase("gpu", "Running")
        team.delete("gpu")
        eventually("nothing is held", lambda: not team.holding(), within_s=60)


def test_what_happened_while_nobody_watched_is_seen_afterwards(platform: Platform, team: Space) -> None:
    # On two nodes: the lock of a node falls only when somebody has seen a container start.
    with platform.without("watcher", "worker", "beat"):
        for name, node in (("kept", "gpu-1"), ("gone", "gpu-2")):
            selector = {"kubernetes.io/hostname": node}
            team.create(nodes.pod(name, nodes.container(gpu=1), nodeSelector=selector))
            team.await_bound(name)
        team.delete("gone")
    eventually("the deleted pod holds nothing", lambda: not team.row("gone").get("held"), within_s=30)
    assert team.row("kept")["held"]
