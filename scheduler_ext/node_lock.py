"""HAMi's node lock: annotation `hami.io/mutex.lock`, taken and released by resourceVersion.

Only for nodes where HAMi's plugin serves Allocate: it finds the pod to serve by this lock. So a lock is never handed
over while its holder may still be waiting for Allocate (two pods would swap their limits); it is free at once when the
holder is gone, ended, was served or runs. Ages count from when this process first saw the value, never from its text.
Must not know: the ledger, which keeps a row beside it. Source: HAMi v2.10.0 nodelock; decision D8.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from hami_platform.domain import errors as domain_errors
from hami_platform.domain.wire import node_lock
from hami_platform.kube import api as ports
from hami_platform.kube import calls, errors, objects

BIND_PHASE = "hami.io/bind-phase"
TRIES = 5


class Standing(Enum):
    """What a lock means to a pod that wants it."""

    FREE = "free"
    OWN = "own"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Owner:
    """Who wants the lock."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Taken:
    """The lock is ours, with this value."""

    value: str


@dataclass(frozen=True, slots=True)
class Contended:
    """Somebody else has it; waiting may help. `message` is for people."""

    message: str


def standing(
    text: str, owner: Owner, *, node: str, holder: objects.Pod | None, age_s: float, timeout_s: float
) -> Standing:
    """What the lock `text` on `node` means to `owner`. holder: the pod it names, None if there is no such pod.

    A lock without a readable owner is busy until it is older than timeout_s.
    """
    if not text:
        return Standing.FREE
    lock = read(text)
    if lock is None or not lock.owned:
        return Standing.FREE if age_s > timeout_s else Standing.BUSY
    if lock.owned_by(owner.namespace, owner.name):
        return Standing.OWN
    if holder is None or finished(holder) or (holder.spec.node_name and holder.spec.node_name != node):
        return Standing.FREE
    unbound_and_old = not holder.spec.node_name and age_s > timeout_s
    return Standing.FREE if unbound_and_old else Standing.BUSY


def finished(pod: objects.Pod) -> bool:
    """Whether a lock holder does not wait for Allocate any more: deleted, ended, served, refused, or started."""
    if pod.metadata.deletion_timestamp or pod.status.phase in {"Succeeded", "Failed"}:
        return True
    if pod.metadata.annotations.get(BIND_PHASE) in {"success", "failed"}:
        return True
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return any(one.state.running or one.state.terminated for one in statuses)


def read(text: str) -> node_lock.NodeLock | None:
    """The lock, or None where it cannot be read."""
    try:
        return node_lock.decode(text)
    except domain_errors.WireError:
        return None


class Sightings:
    """When this process first saw each node's present lock value."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[str, float]] = {}
        self._mutex = threading.Lock()

    def age_s(self, node: str, text: str) -> float:
        """Seconds since this value was first seen on this node; another value starts anew."""
        now = self._clock()
        with self._mutex:
            before = self._seen.get(node)
            if before is None or before[0] != text:
                self._seen[node] = (text, now)
                return 0.0
            return now - before[1]


class AnnotationLock:
    """Takes and releases the lock of nodes through the API server."""

    def __init__(self, api: ports.Api, sightings: Sightings, *, timeout_s: float) -> None:
        self._api, self._sightings, self._timeout_s = api, sightings, timeout_s

    def take(self, node: str, owner: Owner) -> Taken | Contended:
        """Take it, or say who has it. Re-entrant. Raises errors.KubeError."""
        for _ in range(TRIES):
            seen = self._api.send(calls.node_get(name=node))
            text = seen.metadata.annotations.get(node_lock.KEY, "")
            verdict = self._standing(node, text, owner)
            if verdict is Standing.OWN:
                return Taken(text)
            if verdict is Standing.BUSY:
                return Contended(self._message(node, text))
            value = node_lock.encode(node_lock.NodeLock(int(time.time()), owner.namespace, owner.name))
            try:
                self._write(node, seen, value)
            except errors.Conflict:
                continue  # the node changed meanwhile; look again at who has it
            return Taken(value)
        return Contended(f"node {node} changes too often to be locked")

    def release(self, node: str, owner: Owner) -> None:
        """Give it back if it is the owner's or nobody's by name. Raises errors.KubeError."""
        for _ in range(TRIES):
            seen = self._api.send(calls.node_get(name=node))
            text = seen.metadata.annotations.get(node_lock.KEY, "")
            lock = read(text)
            if not text or (lock is not None and lock.owned and not lock.owned_by(owner.namespace, owner.name)):
                return
            if lock is None:
                return  # unreadable: not ours to remove, it ages
            try:
                self._write(node, seen, None)
            except errors.Conflict:
                continue
            return

    def _standing(self, node: str, text: str, owner: Owner) -> Standing:
        lock, holder = read(text), None
        if lock is not None and lock.owned and not lock.owned_by(owner.namespace, owner.name):
            holder = self._holder(lock)
        age_s = self._sightings.age_s(node, text)
        return standing(text, owner, node=node, holder=holder, age_s=age_s, timeout_s=self._timeout_s)

    def _holder(self, lock: node_lock.NodeLock) -> objects.Pod | None:
        try:
            return self._api.send(calls.pod_get(namespace=lock.namespace, name=lock.name))
        except errors.NotFound:
            return None

    def _write(self, node: str, seen: objects.Node, value: str | None) -> None:
        self._api.send(
            calls.node_annotate(
                name=node, annotations={node_lock.KEY: value}, resource_version=seen.metadata.resource_version
            )
        )

    def _message(self, node: str, text: str) -> str:
        within = f"{self._timeout_s / 60:g}m" if self._timeout_s >= 60 else f"{self._timeout_s:g}s"
        return f"node {node} has been locked within {within} by {text[:200]!r}: node lock contention"
