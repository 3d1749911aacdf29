"""A pod's containers from start to end, as the kubelet walks them, and the status it reports.

Pure but for the values it keeps: time comes in as text, nothing is sent or waited for. Source: Kubernetes
pkg/kubelet/kubelet_pods.go (getPhase) and pkg/kubelet/status/generate.go, v1.36.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

Obj = dict[str, Any]


@dataclass(slots=True)
class Container:
    """One container: `state` is waiting, running or terminated; `spec` is as in the pod."""

    spec: Obj
    kind: str  # init, sidecar, app
    state: str = "waiting"
    reason: str = "PodInitializing"
    started_at: str = ""
    finished_at: str = ""
    exit_code: int = 0
    restarts: int = 0
    last: Obj = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The container's name."""
        return str(self.spec["name"])

    @property
    def done(self) -> bool:
        """True once an init container has ended well."""
        return self.state == "terminated" and self.exit_code == 0

    def start(self, now: str) -> None:
        """Waiting or terminated to running."""
        self.state, self.reason, self.started_at, self.finished_at = "running", "", now, ""

    def end(self, exit_code: int, now: str) -> None:
        """Running to terminated."""
        self.state, self.exit_code, self.finished_at = "terminated", exit_code, now
        self.reason = {0: "Completed", 137: "Error"}.get(exit_code, "Error")

    def again(self, reason: str) -> None:
        """To waiting before another start; the state it had becomes the last one."""
        if self.state == "terminated":
            self.last = {"terminated": self._terminated(self._id())}
        self.restarts += self.state != "waiting"
        self.state, self.reason = "waiting", reason

    def status(self, uid: str) -> Obj:
        """An element of containerStatuses."""
        running = self.state == "running"
        identity = self._id(uid)
        if running:
            state: Obj = {"running": {"startedAt": self.started_at}}
        elif self.state == "terminated":
            state = {"terminated": self._terminated(identity)}
        else:
            state = {"waiting": {"reason": self.reason}}
        # An ordinary init container is "ready" once it has completed.
        ready = self.done if self.kind == "init" else running
        return {
            "name": self.name,
            "state": state,
            "lastState": self.last,
            "ready": ready,
            "restartCount": self.restarts,
            "image": self.spec.get("image", ""),
            "imageID": ""
            if self.state == "waiting" and not self.restarts
            else f"simulated@{self.spec.get('image', '')}",
            **({"containerID": identity} if self.state != "waiting" else {}),
            "started": running,
        }

    def _id(self, uid: str = "") -> str:
        text = f"{uid}/{self.name}/{self.restarts}"
        return "containerd://" + hashlib.sha256(text.encode()).hexdigest()

    def _terminated(self, identity: str) -> Obj:
        return {
            "exitCode": self.exit_code,
            "reason": self.reason,
            "startedAt": self.started_at,
            "finishedAt": self.finished_at,
            "containerID": identity,
        }


class PodRun:
    """One pod on a node. `proceed` starts what may start; `ended` takes an exit and says whether it starts again."""

    def __init__(self, pod: Obj, now: str, ip: str) -> None:
        spec = pod["spec"]
        self.uid: str = pod["metadata"]["uid"]
        self._policy: str = spec.get("restartPolicy", "Always")
        self._began, self._ip = now, ip
        self.inits = [
            Container(item, "sidecar" if item.get("restartPolicy") == "Always" else "init")
            for item in spec.get("initContainers") or []
        ]
        waiting = "PodInitializing" if self.inits else "ContainerCreating"
        self.apps = [Container(item, "app", reason=waiting) for item in spec.get("containers") or []]
        self._since: dict[str, tuple[str, str]] = {}

    def container(self, name: str) -> Container:
        """A container by name."""
        return next(item for item in (*self.inits, *self.apps) if item.name == name)

    def proceed(self, now: str) -> list[Container]:
        """Start every container whose turn it is; returns the ones that were started."""
        started: list[Container] = []
        for item in self.inits:
            if item.kind == "sidecar":
                if item.state == "waiting":
                    item.start(now)
                    started.append(item)
            elif not item.done:
                if item.state == "waiting":
                    item.start(now)
                    started.append(item)
                return started
        for item in self.apps:
            if item.state == "waiting":
                item.start(now)
                started.append(item)
        return started

    def ended(self, name: str, exit_code: int, now: str) -> bool:
        """A container exited. True when it is to start again after a pause (it is waiting then)."""
        item = self.container(name)
        item.end(exit_code, now)
        again = item.kind == "sidecar" or self._policy == "Always" or (self._policy == "OnFailure" and exit_code != 0)
        if item.kind == "init":
            again = exit_code != 0 and self._policy != "Never"
        if again:
            item.again("CrashLoopBackOff" if exit_code else "Completed")
        return again

    def rebuild(self, now: str) -> None:
        """The sandbox is gone: every container starts over, init containers first."""
        for item in (*self.inits, *self.apps):
            if item.state == "running":
                item.end(137, now)
            item.again("PodInitializing" if self.inits else "ContainerCreating")

    def stop(self, exit_code: int, now: str) -> None:
        """End whatever runs: the pod is being deleted, or its apps are over."""
        for item in (*self.inits, *self.apps):
            if item.state == "running":
                item.end(exit_code, now)

    @property
    def over(self) -> bool:
        """True when nothing will start any more."""
        if any(item.kind == "init" and item.state == "terminated" and item.exit_code for item in self.inits):
            return True
        return bool(self.apps) and all(item.state == "terminated" for item in self.apps)

    @property
    def initialized(self) -> bool:
        """True when every ordinary init container has ended well and every sidecar has started."""
        return all(item.done if item.kind == "init" else item.state == "running" for item in self.inits)

    @property
    def phase(self) -> str:
        """The pod's phase as the kubelet computes it."""
        if self.over:
            failed = any(item.exit_code for item in (*self._ordinary_inits(), *self.apps) if item.state == "terminated")
            return "Failed" if failed else "Succeeded"
        if not self.initialized and not any(item.state == "running" for item in self.apps):
            return "Pending"
        if all(item.state == "waiting" and not item.restarts for item in self.apps):
            return "Pending"
        return "Running"

    def _ordinary_inits(self) -> list[Container]:
        return [item for item in self.inits if item.kind == "init"]

    def status(self, now: str, node_ip: str) -> Obj:
        """The whole status to report."""
        found: Obj = {
            "phase": self.phase,
            "conditions": self._conditions(now),
            "hostIP": node_ip,
            "hostIPs": [{"ip": node_ip}],
            "podIP": self._ip,
            "podIPs": [{"ip": self._ip}],
            "startTime": self._began,
            "containerStatuses": [item.status(self.uid) for item in self.apps],
        }
        if self.inits:
            found["initContainerStatuses"] = [item.status(self.uid) for item in self.inits]
        return found

    def _conditions(self, now: str) -> list[Obj]:
        ready = not self.over and self.initialized and all(item.state == "running" for item in self.apps)
        why = "PodCompleted" if self.phase == "Succeeded" else "ContainersNotReady"
        facts = {
            "PodReadyToStartContainers": (not self.over, ""),
            "Initialized": (self.initialized or self.phase == "Succeeded", "ContainersNotInitialized"),
            "Ready": (ready, why),
            "ContainersReady": (ready, why),
        }
        return [self._condition(kind, holds, reason, now) for kind, (holds, reason) in facts.items()]

    def _condition(self, kind: str, holds: bool, reason: str, now: str) -> Obj:
        value = "True" if holds else "False"
        before = self._since.get(kind)
        if before is None or before[0] != value:
            self._since[kind] = (value, now)
        condition: Obj = {
            "type": kind,
            "status": value,
            "lastProbeTime": None,
            "lastTransitionTime": self._since[kind][1],
        }
        condition["reason"] = reason if reason and not holds else None  # null clears what the last status said
        return condition
