"""What `kubectl get` shows, cell by cell."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hami_platform.simulator.api import registry, tables
from hami_platform.simulator.api.types import Obj, Resource

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def cell(resource: Resource, name: str, obj: Obj) -> object:
    (column,) = [column for column in tables.columns(resource) if column.name == name]
    return column.read({"metadata": {"name": "x"}, **obj}, NOW)


def text(ago_s: float) -> str:
    return (NOW - timedelta(seconds=ago_s)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize(
    "ago_s, shown",
    [(5, "5s"), (119, "119s"), (120, "2m"), (200, "3m20s"), (900, "15m"), (3 * 3600, "3h"), (5 * 3600 + 60, "5h1m"),
     (20 * 3600, "20h"), (4 * 86400, "4d")],
)  # fmt: skip
def test_ages(ago_s: float, shown: str) -> None:
    assert cell(registry.NAMESPACES, "Age", {"metadata": {"creationTimestamp": text(ago_s)}}) == shown


def status(state: Obj, **rest: object) -> Obj:
    return {"name": "c", "state": state, "restartCount": 0, **rest}


def with_app(phase: str, state: Obj) -> Obj:
    return {"status": {"phase": phase, "containerStatuses": [status(state)]}}


def with_init(phase: str, state: Obj) -> Obj:
    spec = {"initContainers": [{"name": "c"}]}
    return {"spec": spec, "status": {"phase": phase, "initContainerStatuses": [status(state)]}}


@pytest.mark.parametrize(
    "pod, shown",
    [
        ({"status": {"phase": "Pending"}}, "Pending"),
        ({"status": {"phase": "Failed", "reason": "UnexpectedAdmissionError"}}, "UnexpectedAdmissionError"),
        ({"status": {"phase": "Pending", "conditions": [{"reason": "SchedulingGated"}]}}, "SchedulingGated"),
        (with_app("Pending", {"waiting": {"reason": "ContainerCreating"}}), "ContainerCreating"),
        (with_app("Succeeded", {"terminated": {"exitCode": 0, "reason": "Completed"}}), "Completed"),
        (with_app("Failed", {"terminated": {"exitCode": 3}}), "ExitCode:3"),
        (with_init("Pending", {"running": {}}), "Init:0/1"),
        (with_init("Pending", {"waiting": {"reason": "CrashLoopBackOff"}}), "Init:CrashLoopBackOff"),
        (with_init("Failed", {"terminated": {"exitCode": 2}}), "Init:ExitCode:2"),
        ({"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Running"}}, "Terminating"),
    ],
)
def test_the_status_of_a_pod(pod: Obj, shown: str) -> None:
    assert cell(registry.PODS, "Status", pod) == shown


def test_ready_counts_sidecars_and_restarts_say_when() -> None:
    last = {"terminated": {"finishedAt": text(30)}}
    pod = {
        "spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}]},
        "status": {
            "initContainerStatuses": [{"name": "s", "ready": True, "started": True, "restartCount": 0, "state": {}}],
            "containerStatuses": [{"name": "c", "ready": False, "restartCount": 2, "lastState": last, "state": {}}],
        },
    }
    assert cell(registry.PODS, "Ready", pod) == "1/2"
    assert cell(registry.PODS, "Restarts", pod) == "2 (30s ago)"


@pytest.mark.parametrize(
    "spec, condition, shown",
    [({}, "True", "Ready"), ({"unschedulable": True}, "True", "Ready,SchedulingDisabled"), ({}, "False", "NotReady")],
)
def test_the_status_of_a_node(spec: Obj, condition: str, shown: str) -> None:
    node = {"spec": spec, "status": {"conditions": [{"type": "Ready", "status": condition}]}}
    assert cell(registry.NODES, "Status", node) == shown


def test_quotas_are_parted_into_requests_and_limits() -> None:
    hard = {"requests.a.io/b": "4", "limits.a.io/b": "20Gi"}
    quota = {"status": {"hard": hard, "used": {"requests.a.io/b": "1"}}}
    assert cell(registry.QUOTAS, "Request", quota) == "requests.a.io/b: 1/4"
    assert cell(registry.QUOTAS, "Limit", quota) == "limits.a.io/b: 0/20Gi"


def test_an_event_names_its_object_and_its_last_time() -> None:
    event = {"involvedObject": {"kind": "Pod", "name": "p"}, "series": {"count": 3, "lastObservedTime": text(7)}}
    assert cell(registry.EVENTS, "Object", event) == "pod/p"
    assert cell(registry.EVENTS, "Last Seen", event) == "7s"
    assert cell(registry.EVENTS, "Count", event) == "3"
