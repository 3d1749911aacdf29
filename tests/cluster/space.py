"""One namespace of one test: makes pods in it, reads them, and leaves nothing behind.

Must not know: what a test expects.
"""

from __future__ import annotations

import time
from typing import Any

from tests.cluster import kube, ledger
from tests.cluster.kube import eventually

Object = dict[str, Any]


class Space:
    """A namespace; `api` acts as administrator, `ledger` answers what the platform holds for it."""

    def __init__(self, name: str, api: kube.Kube, book: ledger.Ledger) -> None:
        self.name = name
        self.api = api
        self.ledger = book

    def open(self) -> None:
        """Make the namespace and wait for the service account without which no pod can be made."""
        self.api.create("/api/v1/namespaces", {"metadata": {"name": self.name}})
        path = f"/api/v1/namespaces/{self.name}/serviceaccounts/default"
        eventually("the default service account exists", lambda: self.api.get(path))

    def close(self) -> None:
        """Take everything away and wait until the platform holds nothing for this namespace."""
        for collection in ("/apis/apps/v1", "/apis/batch/v1"):
            kind = "deployments" if "apps" in collection else "jobs"
            base = f"{collection}/namespaces/{self.name}/{kind}"
            for each in self.api.list(base):
                self.api.call("DELETE", f"{base}/{each['metadata']['name']}", {"propagationPolicy": "Background"})
        eventually("all pods are gone", self._emptied, within_s=60)
        eventually("the ledger holds nothing here", lambda: not self.holding(), within_s=60)
        self.api.delete(f"/api/v1/namespaces/{self.name}")

    def create(self, pod: Object) -> Object:
        """Create a pod. Raises kube.ApiError with the webhook's message when it is denied."""
        return self.api.create(kube.pods_of(self.name), pod)

    def create_insisting(self, pod: Object, within_s: float = 60) -> Object:
        """Create a pod as a controller does: an internal error (a webhook that is down) is tried again."""
        deadline = time.monotonic() + within_s
        while True:
            try:
                return self.create(pod)
            except kube.ApiError as error:
                if error.status == 409:  # an earlier try arrived although its answer did not
                    return self.pod(pod["metadata"]["name"])
                if error.status < 500 or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def pod(self, name: str) -> Object:
        """The pod, which must exist."""
        found = self.api.get(kube.pod_path(self.name, name))
        assert found is not None, f"pod {self.name}/{name} is gone"
        return found

    def pods(self) -> list[Object]:
        """All pods of the namespace."""
        return self.api.list(kube.pods_of(self.name))

    def delete(self, name: str) -> None:
        """Delete a pod without grace."""
        self.api.delete(kube.pod_path(self.name, name), grace_s=0)

    def node_of(self, name: str) -> str | None:
        """Where the pod is bound, or None."""
        node: str | None = self.pod(name)["spec"].get("nodeName")
        return node

    def await_bound(self, name: str, within_s: float = 30) -> Object:
        """Wait until the pod is bound and answer it."""
        eventually(f"{self.name}/{name} is bound", lambda: self.node_of(name), within_s=within_s)
        return self.pod(name)

    def await_phase(self, name: str, phase: str, within_s: float = 30) -> Object:
        """Wait until the pod is in a phase and answer it."""
        what = f"{self.name}/{name} is {phase}"
        eventually(what, lambda: self.pod(name)["status"].get("phase") == phase, within_s=within_s)
        return self.pod(name)

    def condition(self, name: str) -> Object:
        """The pod's PodScheduled condition, or an empty one."""
        conditions: list[Object] = self.pod(name)["status"].get("conditions", [])
        return next((each for each in conditions if each["type"] == "PodScheduled"), {})

    def row(self, name: str) -> Object:
        """The ledger's row of the pod, or an empty one."""
        return self.ledger.pod(self.name, name) or {}

    def holding(self) -> list[Object]:
        """Rows of this namespace that hold something on a device or of a limit."""
        return [row for row in self.ledger.pods(self.name) if row["held"] or row["charged_mib"]]

    def events(self) -> list[Object]:
        """Events of the namespace."""
        return self.api.list(f"/api/v1/namespaces/{self.name}/events")

    def scheduler_errors(self) -> list[str]:
        """What kube-scheduler reported besides "no node is available": failed calls of /filter and /bind.

        Source: it writes both as events of reason FailedScheduling; only a refusal counts the nodes.
        """
        failed = [each for each in self.events() if each["reason"] == "FailedScheduling"]
        messages = [each.get("message") or each.get("note") or "" for each in failed]
        return [text for text in messages if "nodes are available" not in text]

    def _emptied(self) -> bool:
        for each in self.pods():
            self.delete(each["metadata"]["name"])
        return not self.pods()
