"""Container statuses as a kubelet writes them, for pods labelled e2e/manual.

Must not know: what anybody concludes from them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from tests.cluster import kube

Object = dict[str, Any]


def waiting(reason: str = "PodInitializing") -> Object:
    """The state of a container that has not started."""
    return {"waiting": {"reason": reason}}


def running() -> Object:
    """The state of a container that runs since now."""
    return {"running": {"startedAt": _now()}}


def ended(exit_code: int = 0) -> Object:
    """The state of a container that ran and ended."""
    reason = "Completed" if exit_code == 0 else "Error"
    return {"terminated": {"exitCode": exit_code, "reason": reason, "startedAt": _now(), "finishedAt": _now()}}


def report(
    api: kube.Kube, namespace: str, name: str, *, init: Mapping[str, Object], apps: Mapping[str, Object], phase: str
) -> None:
    """Write a pod's phase and the states of all its containers through the status subresource."""
    status = {
        "phase": phase,
        "startTime": _now(),
        "initContainerStatuses": [_status(each, state) for each, state in init.items()],
        "containerStatuses": [_status(each, state) for each, state in apps.items()],
    }
    api.patch(f"{kube.pod_path(namespace, name)}/status", {"status": status})


def _status(name: str, state: Object) -> Object:
    runs = "running" in state
    return {
        "name": name,
        "image": "example/fake",
        "imageID": "",
        "ready": runs or state.get("terminated", {}).get("exitCode") == 0,
        "started": runs,
        "restartCount": 0,
        "state": state,
    }


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
