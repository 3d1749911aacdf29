"""An API server in memory that answers calls as values, with the real one's preconditions.

For the decisions of the agent. That the same calls work over HTTP is shown against the simulated
API server in test_agent_process.py.
"""

from __future__ import annotations

import copy
import json
import threading
from typing import Any, TypeVar

from hami_platform.kube import calls, errors, objects

T = TypeVar("T")


class Cluster:
    """Objects by path. `fail` errors are raised by the next calls, in order; `before` runs before a write."""

    def __init__(self, *values: dict[str, Any]) -> None:
        self._lock = threading.Lock()
        self.stored: dict[str, dict[str, Any]] = {}
        self.revision = 100
        self.writes: list[calls.KubeCall[Any]] = []
        self.fail: list[errors.KubeError | None] = []
        self.before_write: list[Any] = []
        for value in values:
            self.put(value)

    def put(self, value: dict[str, Any]) -> None:
        """Store or replace a pod or node."""
        facts = value["metadata"]
        space = facts.get("namespace")
        self._store(calls.path_of(calls.CORE, space, "pods" if space else "nodes", facts["name"]), value)

    def pod(self, name: str, namespace: str = "nlp") -> dict[str, Any]:
        """A stored pod, to look at or to change in place."""
        return self.stored[calls.path_of(calls.CORE, namespace, "pods", name)]

    def node(self, name: str) -> dict[str, Any]:
        """A stored node."""
        return self.stored[calls.path_of(calls.CORE, None, "nodes", name)]

    def remove_pod(self, name: str, namespace: str = "nlp") -> None:
        """The pod is gone."""
        del self.stored[calls.path_of(calls.CORE, namespace, "pods", name)]

    def send(self, call: calls.KubeCall[T], *, timeout_s: float | None = None) -> T:
        """See kube.api.Api."""
        with self._lock:
            if self.fail and (error := self.fail.pop(0)):
                raise error
            if call.method != "GET":
                for action in self.before_write:
                    action(call)
                self.writes.append(call)
            return objects.decode(json.dumps(self._answer(call)).encode(), call.answer)

    def watch(self, call: calls.KubeCall[T], *, idle_s: float) -> Any:
        """The agent watches nothing."""
        raise NotImplementedError

    def _answer(self, call: calls.KubeCall[Any]) -> dict[str, Any]:
        if call.method == "GET" and call.path.endswith("/pods"):
            node = dict(call.query).get("fieldSelector", "").removeprefix("spec.nodeName=")
            found = [v for v in self.stored.values() if v.get("spec", {}).get("nodeName") == node]
            return {"metadata": {"resourceVersion": str(self.revision)}, "items": found}
        body = copy.deepcopy(dict(call.body or {}))
        if call.method == "POST":
            return self._create(call, body)
        if call.path not in self.stored:
            raise errors.NotFound(404, "NotFound", f"{call.path} not found")
        if call.method == "GET":
            return self.stored[call.path]
        self._check(self.stored[call.path]["metadata"], body["metadata"])  # type: ignore[arg-type]
        if call.method == "PUT":
            return self._store(call.path, body)
        assert (call.method, call.content_type) == ("PATCH", calls.MERGE_PATCH)
        return self._store(call.path, merged(self.stored[call.path], body))

    def _create(self, call: calls.KubeCall[Any], body: dict[str, Any]) -> dict[str, Any]:
        path = f"{call.path}/{body['metadata']['name']}"
        if path in self.stored:
            raise errors.Conflict(409, "AlreadyExists", f"{path} already exists")
        return self._store(path, body)

    def _check(self, now: dict[str, Any], asked: dict[str, Any]) -> None:
        for key in ("uid", "resourceVersion"):
            if asked.get(key) and asked[key] != now.get(key):
                raise errors.Conflict(409, "Conflict", f"precondition failed: {key}")

    def _store(self, path: str, value: dict[str, Any]) -> dict[str, Any]:
        self.revision += 1
        value["metadata"]["resourceVersion"] = str(self.revision)
        self.stored[path] = value
        return value


def merged(value: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(value) if isinstance(value, dict) else {}
    for key, part in patch.items():
        if part is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), part)
    return result
