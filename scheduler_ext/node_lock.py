"""HAMi's node lock: annotation `hami.io/mutex.lock`, taken and released by resourceVersion.

Only for nodes where HAMi's plugin serves Allocate: it finds the pod to serve by this lock. The rules are the domain's;
here they get what the API server and this process's memory know. Must not know: the ledger, which keeps a row beside
it. Source: HAMi v2.10.0 nodelock; decision D8.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from hami_platform.domain import errors as domain_errors
from hami_platform.domain import locks
from hami_platform.domain.wire import node_lock
from hami_platform.kube import api as ports
from hami_platform.kube import calls, errors, objects

BIND_PHASE = "hami.io/bind-phase"
TRIES = 5


@dataclass(frozen=True, slots=True)
class Taken:
    """The lock is ours, with this value. fresh: this call has written it."""

    value: str
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Contended:
    """Somebody else has it; waiting may help. `message` is for people."""

    message: str


def holder_state(pod: objects.Pod, node: str) -> locks.HolderState:
    """Whether the pod that a lock on `node` names may still wait for Allocate there.

    It does not once it ended, was served or refused by the plugin, has started, or is bound to another node.
    """
    elsewhere = bool(pod.spec.node_name) and pod.spec.node_name != node
    served = pod.metadata.annotations.get(BIND_PHASE) in {"success", "failed"}
    ended = pod.status.phase in {"Succeeded", "Failed"}
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    started = any(one.state.running or one.state.terminated for one in statuses)
    done = elsewhere or served or ended or started
    return locks.HolderState.DONE if done else locks.HolderState.WAITING


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

    def __init__(self, api: ports.Api, sightings: Sightings, *, timeout_s: float, key: str = node_lock.KEY) -> None:
        self._api, self._sightings, self._timeout_s, self._key = api, sightings, timeout_s, key
        self._named = key == node_lock.KEY  # plugins that have a lock of their own read a time and nothing else

    def take(self, node: str, pod: objects.Pod, *, mine: bool = False) -> Taken | Contended:
        """Take it for this pod, or say who has it. Re-entrant; mine: a lock without an owner is this pod's.

        Raises errors.KubeError.
        """
        me = locks.Owner(pod.metadata.namespace, pod.metadata.name)
        for _ in range(TRIES):
            seen = self._api.send(calls.node_get(name=node))
            text = seen.metadata.annotations.get(self._key)
            if mine and text is not None and not self._named:
                return Taken(text)
            verdict = self._judge(node, text, me, pod)
            if verdict.state is locks.State.MINE:
                return Taken(text or "")
            if verdict.state is locks.State.BUSY:
                return Contended(f"node {node}: {verdict.why}: node lock contention")
            now_s = int(time.time())
            lock = node_lock.NodeLock(now_s, me.namespace, me.name) if self._named else node_lock.NodeLock(now_s)
            value = node_lock.encode(lock)
            try:
                self._write(node, seen, value)
            except errors.Conflict:
                continue  # the node changed meanwhile; look again at who has it
            return Taken(value, fresh=True)
        return Contended(f"node {node} changes too often to be locked: node lock contention")

    def release(self, node: str, me: locks.Owner, *, value: str = "") -> None:
        """Give it back if it is the pod's, or nobody's by name; with a value only that one. Raises errors.KubeError."""
        for _ in range(TRIES):
            seen = self._api.send(calls.node_get(name=node))
            text = seen.metadata.annotations.get(self._key)
            if not locks.may_release(text, me) or (value and text != value):
                return
            try:
                self._write(node, seen, None)
            except errors.Conflict:
                continue
            return

    def _judge(self, node: str, text: str | None, me: locks.Owner, pod: objects.Pod) -> locks.Judgement:
        age_s = self._sightings.age_s(node, text or "")
        holder = self._holder(node, text, me, pod)
        return locks.judge(text, first_seen_age_s=age_s, holder=holder, me=me, timeout_s=self._timeout_s)

    def _holder(self, node: str, text: str | None, me: locks.Owner, pod: objects.Pod) -> locks.HolderState:
        try:
            lock = node_lock.decode(text or "")
        except domain_errors.WireError:
            return locks.HolderState.UNKNOWN
        if not lock.owned:
            return locks.HolderState.UNKNOWN
        if lock.owned_by(me.namespace, me.name):
            return locks.HolderState.DONE if lock.at_s < self._oldest_s(pod) else locks.HolderState.WAITING
        try:
            return holder_state(self._api.send(calls.pod_get(namespace=lock.namespace, name=lock.name)), node)
        except errors.NotFound:
            return locks.HolderState.DONE

    def _oldest_s(self, pod: objects.Pod) -> float:
        """Unix seconds: an own lock of an earlier time is written anew. It was an earlier pod's of this name, or HAMi's
        scheduler beside us would soon take it for left behind."""
        return max(_born_s(pod), time.time() - self._timeout_s)

    def _write(self, node: str, seen: objects.Node, value: str | None) -> None:
        version = seen.metadata.resource_version
        self._api.send(calls.node_annotate(name=node, annotations={self._key: value}, resource_version=version))


def _born_s(pod: objects.Pod) -> float:
    """Unix seconds of the pod's creation: an older lock of its name was an earlier pod's. 0 where it is not said.

    Whatever the clocks say, both are locks of this name, so a wrong answer only writes a fresh time.
    """
    text = pod.metadata.creation_timestamp
    return datetime.fromisoformat(text).timestamp() if text else 0.0
