"""The test equipment itself: a real scheduler places plain pods on fake nodes, and kwok runs them.

| pod | kwok shows |
|---|---|
| plain | Running |
| init containers and a sidecar | each init runs and ends in order, then the app |
| labelled e2e/manual | nothing: its test writes the statuses |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster import control_plane, kube, nodes
from tests.cluster.kube import eventually

NAMESPACE = "default"
NODE = "smoke-1"


@pytest.fixture(scope="module")
def api(plane: control_plane.ControlPlane) -> Iterator[kube.Kube]:
    if not plane.has_scheduler():  # the platform's places plain pods as well
        plane.start_scheduler()
    plane.kube.create("/api/v1/nodes", nodes.plain_node(NODE))
    eventually("the node is ready", lambda: nodes.is_ready(_node(plane.kube, NODE)))
    yield plane.kube
    for pod in plane.kube.list(kube.pods_of(NAMESPACE)):
        plane.kube.delete(kube.pod_path(NAMESPACE, pod["metadata"]["name"]), grace_s=0)
    plane.kube.delete(f"/api/v1/nodes/{NODE}")


def _made(api: kube.Kube, name: str, **parts: Any) -> None:
    selector = {"kubernetes.io/hostname": NODE}
    api.create(kube.pods_of(NAMESPACE), nodes.pod(name, nodeSelector=selector, **parts))


def _node(api: kube.Kube, name: str) -> dict[str, Any]:
    node = api.get(f"/api/v1/nodes/{name}")
    assert node is not None
    return node


def _pod(api: kube.Kube, name: str) -> dict[str, Any]:
    pod = api.get(kube.pod_path(NAMESPACE, name))
    assert pod is not None
    return pod


def _phase(api: kube.Kube, name: str) -> str:
    return str(_pod(api, name)["status"].get("phase"))


def test_version_is_the_pinned_release(api: kube.Kube) -> None:
    assert api.call("GET", "/version")["gitVersion"].startswith("v1.36.")


def test_plain_pod_is_scheduled_and_runs(api: kube.Kube) -> None:
    _made(api, "plain")
    eventually("the pod runs", lambda: _phase(api, "plain") == "Running")
    assert _pod(api, "plain")["spec"]["nodeName"] == NODE


def test_init_containers_are_walked_one_by_one(api: kube.Kube) -> None:
    sidecar = nodes.container("sidecar") | {"restartPolicy": "Always"}
    inits = [nodes.container("first"), sidecar, nodes.container("last")]
    slow = {"e2e/init-for": "300ms"}
    _made(api, "walked", init=inits, annotations=slow)

    def states() -> list[str]:
        statuses = _pod(api, "walked")["status"].get("initContainerStatuses", [])
        return [next(iter(each["state"])) for each in statuses]

    seen: list[list[str]] = []

    def running() -> bool:
        if not seen or seen[-1] != states():
            seen.append(states())
        return _phase(api, "walked") == "Running"

    eventually("the pod runs", running)
    assert ["running"] in seen
    assert states() == ["terminated", "running", "terminated"]


def test_job_pod_ends_after_its_time(api: kube.Kube) -> None:
    _made(api, "short", annotations={"e2e/run-for": "200ms"})
    eventually("the pod succeeded", lambda: _phase(api, "short") == "Succeeded")


def test_manual_pod_gets_no_status_from_kwok(api: kube.Kube) -> None:
    _made(api, "manual", labels=nodes.MANUAL)
    _made(api, "beside")
    eventually("a pod made later runs", lambda: _phase(api, "beside") == "Running")
    eventually("the manual pod is bound", lambda: _pod(api, "manual")["spec"].get("nodeName"))
    assert _phase(api, "manual") == "Pending"
    assert "containerStatuses" not in _pod(api, "manual")["status"]
