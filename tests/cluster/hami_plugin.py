"""A stand-in for HAMi's device plugin on fake nodes, for tests of the annotation protocol.

It does what the v2.10 plugin does between bind and container start: find the pod through the node
lock, blank the rows of devices-to-allocate one container after another, write bind-phase success when
none is left, take the lock off. It keeps what it saw, for tests to compare.
Must not know: our ledger.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from tests.cluster import kube

LOCK = "hami.io/mutex.lock"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
PHASE = "hami.io/bind-phase"
BIND_TIME = "hami.io/bind-time"
_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Allocation:
    """One pod that the plugin served: its rows as first read, and its lock's value."""

    pod: str
    node: str
    rows: tuple[str, ...]
    lock: str


@dataclass
class HamiPlugin:
    """Serves the given nodes from one thread while used as a context manager."""

    api: kube.Kube
    nodes: tuple[str, ...]
    served: list[Allocation] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> HamiPlugin:
        self._thread = threading.Thread(target=self._serve, name="hami-plugin", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join(30)

    def _serve(self) -> None:
        while not self._ended.wait(_PAUSE_S):
            for node in self.nodes:
                try:
                    self._look_at(node)
                except (kube.ApiError, OSError, ValueError) as problem:
                    self.failures.append(f"{node}: {problem}")
                    self._ended.wait(1)

    def _look_at(self, name: str) -> None:
        node = self.api.get(f"/api/v1/nodes/{name}") or {"metadata": {}}
        lock = node["metadata"].get("annotations", {}).get(LOCK)
        if lock is None:
            return
        _, namespace, pod_name = lock.split(",")
        pod = self.api.get(kube.pod_path(namespace, pod_name))
        if pod is None or pod["spec"].get("nodeName") != name:
            return  # the lock comes before the Binding
        notes = pod["metadata"].get("annotations", {})
        if notes.get(PHASE) != "allocating" or BIND_TIME not in notes:
            return
        self._allocate(pod, name, lock)

    def _allocate(self, pod: dict[str, Any], node: str, lock: str) -> None:
        metadata = pod["metadata"]
        path = kube.pod_path(metadata["namespace"], metadata["name"])
        text = metadata["annotations"][TO_ALLOCATE]
        # The piece behind the last separator counts as a row there, so every rewrite adds one empty row.
        rows = text.split(";")
        self.served.append(Allocation(metadata["name"], node, tuple(rows[:-1]), lock))
        for position, row in enumerate(rows):
            if row:
                rows[position] = ""
                self._annotate(path, {TO_ALLOCATE: "".join(f"{each};" for each in rows)})
        self._annotate(path, {PHASE: "success"})
        self._release(node, lock)

    def _release(self, name: str, lock: str) -> None:
        """Take this lock off, and no later one: who binds next may take a served pod's lock over."""
        path = f"/api/v1/nodes/{name}"
        while True:
            metadata = (self.api.get(path) or {"metadata": {}})["metadata"]
            if (metadata.get("annotations") or {}).get(LOCK) != lock:
                return
            version = metadata["resourceVersion"]
            try:
                self.api.patch(path, {"metadata": {"resourceVersion": version, "annotations": {LOCK: None}}})
            except kube.ApiError as problem:
                if problem.status != 409:
                    raise

    def _annotate(self, path: str, values: dict[str, str | None]) -> None:
        self.api.patch(path, {"metadata": {"annotations": values}})
