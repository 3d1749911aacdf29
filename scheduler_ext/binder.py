"""`/bind`: takes the node's lock, sends the Binding, and makes of every answer what it means for the ledger.

The Binding carries the pod's uid and resourceVersion as preconditions, its allocation as annotations, and the node
label. An answer of unknown outcome is never taken for a failure: the pod is read, and if it is still unassigned it is
patched first, so that a Binding still under way fails on the old resourceVersion. No database connection is held
while this waits for a lock or a Kubernetes call. Must not know: quota, placement.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import TypeVar

from django.db import connection as database

from accounting import ledger, live_view
from accounting.models import PodState
from accounting.services import bindings, locks, observe, seen, wire_texts
from hami_platform import env, logs
from hami_platform.domain.locks import Owner
from hami_platform.domain.vendors.base import SHARED_LOCK, DeviceConfig
from hami_platform.domain.view import View
from hami_platform.kube import api as ports
from hami_platform.kube import calls, errors, objects
from scheduler_ext import background, binding_labels, hami_meters, lock_watch, node_lock, node_queue, protocol, versions

T = TypeVar("T")

_log = logs.get(__name__)

TRIES = 3  # Bindings per bind: each conflict may be somebody's harmless patch
POLL_S = 0.1  # HAMi's gang members look at a lock this often (v2.10.0)
LONGEST_POLL_S = 0.5
ASK_S = 1.0
OWNERLESS_S = 120.0
CALL_S = 5.0  # each request while kube-scheduler waits


@dataclass(frozen=True, slots=True)
class Ask:
    """Which pod onto which node, and until when (monotonic seconds)."""

    uid: str
    namespace: str
    name: str
    node: str
    deadline_s: float

    @property
    def owner(self) -> Owner:
        return Owner(self.namespace, self.name)

    @property
    def left_s(self) -> float:
        return self.deadline_s - time.monotonic()


class Binder:
    """Binds pods; one for a process. `bind` may be called by many threads."""

    def __init__(
        self,
        api: ports.Api,
        config: DeviceConfig,
        queue: node_queue.NodeQueue[str],
        *,
        versions: versions.Versions | None = None,
        record_after_s: float = 0.0,
    ) -> None:
        settings = env.current()
        self._versions = versions
        self._unrecorded: background.Batcher[Ask] | None = None
        if record_after_s:
            write = self._record_missed
            self._unrecorded = background.Batcher("bound", write, depth=10_000, linger_s=record_after_s)
        self._api, self._config, self._queue = api, config, queue
        self._patience_s = settings.node_lock_retry_timeout_s
        keys = {vendor.lock for vendor in config.vendors if vendor.lock} | {SHARED_LOCK}
        self._locks = {key: _annotation_lock(api, key, settings.node_lock_timeout_s) for key in keys}
        self._labels = binding_labels.Labels(api)
        self._rows = lock_watch.LockWatch(_look_at_ledger)
        self._pause = threading.Event()  # never set: a wait on it is a pause

    def _send(self, call: calls.KubeCall[T]) -> T:
        """Ask the API server, without a database connection in hand."""
        rest()
        return self._api.send(call, timeout_s=CALL_S)

    def bind(self, args: protocol.BindArgs) -> str:
        """Bind; "" when the pod is on that node, else why not, for people."""
        ask = Ask(args.pod_uid, args.pod_namespace, args.pod_name, args.node, time.monotonic() + self._patience_s)
        try:
            return self._queue.run(ask.node, ask.uid, lambda: self._bind(ask), patience_s=self._patience_s)
        except node_queue.Busy as error:
            return str(error)
        except ledger.LedgerUnavailable as error:
            return f"the ledger is unavailable: {error}"

    def _bind(self, ask: Ask) -> str:
        noted = self._noted(ask)
        try:
            found = noted or self._look(ask)
            if isinstance(found, str):
                return found
            begun = self._begin(ask, found)
            if isinstance(begun, bindings.BindRefused):
                return "" if begun.done else begun.message
            if begun.joined and noted:
                found = self._look(ask)
        except errors.KubeError as error:
            return f"the API server cannot be asked about the pod: {error}"
        return found if isinstance(found, str) else self._post(ask, begun, found)

    def _noted(self, ask: Ask) -> objects.Pod | None:
        """The pod as `/filter` saw it, where its resourceVersion is all that the bind needs. HAMi's lock needs more."""
        version = self._versions.take(ask.uid) if self._versions is not None else 0
        if not version:
            return None
        mode, _ = locks.lock_of(live_view.live().now, ask.node, ask.uid, self._config)
        if mode == locks.ANNOTATION:
            return None
        meta = objects.Metadata(name=ask.name, namespace=ask.namespace, uid=ask.uid, resource_version=str(version))
        return objects.Pod(metadata=meta)

    # -- what the API server has ----------------------------------------------------------------------------------

    def _look(self, ask: Ask) -> objects.Pod | str:
        """The pod if it can be bound, else this bind's answer ("" = bound), with the ledger settled.

        Raises errors.KubeError.
        """
        try:
            pod = self._send(calls.pod_get(namespace=ask.namespace, name=ask.name))
        except errors.NotFound:
            return self._gone(ask, "not found")
        return self._judge(ask, pod)

    def _judge(self, ask: Ask, pod: objects.Pod) -> objects.Pod | str:
        if pod.metadata.uid != ask.uid:
            return self._gone(ask, f"has another uid, {pod.metadata.uid}")
        if pod.spec.node_name:
            self._record(ask, pod.spec.node_name)
            there = pod.spec.node_name == ask.node
            return "" if there else f"pod {ask.namespace}/{ask.name} is on node {pod.spec.node_name}"
        if pod.metadata.deletion_timestamp:
            return self._gone(ask, "is being deleted")
        return pod

    def _gone(self, ask: Ask, why: str) -> str:
        """No such pod: what its row held is free. A call that names another pod frees nothing (HAMi #3040)."""
        row = live_view.live().refresh().pod(ask.uid)
        if row is not None and (row.namespace, row.name) != (ask.namespace, ask.name):
            return f"uid {ask.uid} is pod {row.namespace}/{row.name}; pod {ask.namespace}/{ask.name} {why}"
        bindings.binding_ended(uid=ask.uid)
        self._unlock(ask)
        return f"pod {ask.namespace}/{ask.name} {why}"

    # -- the lock ---------------------------------------------------------------------------------------------------

    def _begin(self, ask: Ask, pod: objects.Pod) -> bindings.BindingPlan | bindings.BindRefused:
        """Put the pod into `binding` with the node's lock; waits for the lock while there is time."""
        pause_s = POLL_S
        while True:
            begun = self._try(ask, pod)
            if isinstance(begun, bindings.BindingPlan) or not begun.retry:
                return begun
            if ask.left_s <= pause_s:
                waited = f"timed out after {self._patience_s:g}s waiting for node {ask.node} to be unlocked"
                return replace(begun, message=f"{waited}: {begun.message}")
            if begun.holder:
                self._await_row(ask, begun.holder)
                continue
            rest()
            self._pause.wait(pause_s)
            pause_s = min(pause_s * 1.5, LONGEST_POLL_S)

    def _try(self, ask: Ask, pod: objects.Pod) -> bindings.BindingPlan | bindings.BindRefused:
        view = live_view.live().within(POLL_S)
        if view.pod(ask.uid) is None:  # another extender's
            view = live_view.live().refresh()
        mode, key = locks.lock_of(view, ask.node, ask.uid, self._config)
        held = view.locks.get(ask.node) if mode != locks.NONE else None
        rival = held is not None and held.pod_uid not in ("", ask.uid)
        if held is not None and rival and held.mode == locks.ROW:  # seen without taking the Clock
            message = f"node {ask.node} is locked by pod uid {held.pod_uid}: node lock contention"
            return bindings.BindRefused(message, retry=True, holder=held.pod_uid)
        if mode != locks.ANNOTATION:
            return self._begun(ask, mode, "")
        rest()
        try:
            taken = self._locks[key].take(ask.node, pod, mine=held is not None and held.pod_uid == ask.uid)
        except errors.KubeError as error:
            return bindings.BindRefused(f"node {ask.node} cannot be locked: {error}")
        if isinstance(taken, node_lock.Contended):
            return bindings.BindRefused(taken.message, retry=True)
        begun = self._begun(ask, mode, taken.value)
        if isinstance(begun, bindings.BindRefused) and taken.fresh:
            self._unlock(ask, taken.value)
        return begun

    def _await_row(self, ask: Ask, holder: str) -> None:
        """Wait until the ledger's row names another holder, or nobody. The watcher tells of the holder's start; where
        it has not for a while, ask ourselves."""
        rest()

        def free(view: View) -> bool:
            row = view.locks.get(ask.node)
            return row is None or row.pod_uid != holder

        if not self._rows.wait(free, timeout_s=min(ASK_S, ask.left_s)):
            self._ask_holder(holder)

    def _ask_holder(self, uid: str) -> None:
        """Tell the ledger what became of the lock's holder, if the watcher has not yet: its lock may fall by that."""
        row = live_view.live().now.pod(uid) if uid else None
        if row is None:
            return
        try:
            pod = self._send(calls.pod_get(namespace=row.namespace, name=row.name).whole())
        except errors.NotFound:
            observe.pods_gone([uid])
            return
        except errors.KubeError:
            return  # nothing is known; the lock stays
        if (pod.get("metadata") or {}).get("uid") != uid:
            observe.pods_gone([uid])
        else:
            observe.pods_observe([seen.from_object(pod, self._config)], config=self._config)

    def _begun(self, ask: Ask, mode: str, value: str) -> bindings.BindingPlan | bindings.BindRefused:
        return bindings.binding_begin(
            uid=ask.uid, namespace=ask.namespace, name=ask.name, node=ask.node, mode=mode, lock_value=value,
            config=self._config,
        )  # fmt: skip

    def _unlock(self, ask: Ask, value: str = "") -> None:
        """Give HAMi's lock back where it is used; the ledger's row falls with the pod's move. value: what was taken;
        without one what the ledger has of this uid, never another pod's of the same name."""
        mode, key = locks.lock_of(live_view.live().now, ask.node, ask.uid, self._config)
        if mode != locks.ANNOTATION:
            return
        if key != SHARED_LOCK and not value:
            return  # it names nobody, so it may be another pod's by now; it lapses soon
        value = value or locks.lock_value(node=ask.node, uid=ask.uid)
        if not value:
            return
        rest()
        try:
            self._locks[key].release(ask.node, ask.owner, value=value)
        except errors.KubeError as error:
            _log.warning("lock_left", node=ask.node, uid=ask.uid, error=str(error))

    # -- the Binding ------------------------------------------------------------------------------------------------

    def _post(self, ask: Ask, plan: bindings.BindingPlan, pod: objects.Pod) -> str:
        """Send the Binding until its outcome is known, or the tries are used up."""
        why = ""
        for _ in range(TRIES):
            try:
                self._binding(ask, plan, pod)
            except errors.NotFound:
                return self._gone(ask, "not found")
            except errors.Conflict as error:
                why = str(error)
            except errors.Ambiguous as error:
                return self._doubtful(ask, plan, str(error))
            except errors.KubeError as error:
                return self._returned(ask, plan, str(error))
            else:
                self._record_soon(ask)
                return ""
            try:
                found = self._look(ask)
            except errors.KubeError as error:
                return f"the outcome of the Binding is unknown: {why}; {error}"
            if isinstance(found, str):
                return found
            if not bindings.binding_current(plan):
                return f"another bind of pod {ask.namespace}/{ask.name} has taken over"
            pod = found
        return self._returned(ask, plan, f"no Binding succeeded in {TRIES} tries: {why}")

    def _binding(self, ask: Ask, plan: bindings.BindingPlan, pod: objects.Pod) -> None:
        """Send one Binding. Raises errors.KubeError."""
        label = {wire_texts.NODE: ask.node} if len(ask.node) <= wire_texts.LABEL_MAX else {}
        now = str(int(time.time()))
        stamps = {wire_texts.TIME: now, wire_texts.BIND_TIME: now, wire_texts.BIND_PHASE: "allocating"}
        inside = not label or self._labels.travel_in_binding()
        if not inside:
            pod = self._send(
                calls.pod_annotate(
                    namespace=ask.namespace, name=ask.name, annotations={}, labels=label, uid=ask.uid,
                    resource_version=pod.metadata.resource_version,
                )
            )  # fmt: skip
        self._send(
            calls.pod_bind(
                namespace=ask.namespace, name=ask.name, uid=ask.uid, node=ask.node,
                resource_version=pod.metadata.resource_version, annotations={**plan.annotations, **stamps},
                labels=label if inside else {},
            )
        )  # fmt: skip
        if label and inside:
            self._labels.check(ask.namespace, ask.name, label)

    def _record_soon(self, ask: Ask) -> None:
        """Let the watcher record it, which sees it in a moment and that the pod has started as well; what it has not by
        then is recorded here. Until then the pod is `binding`, and holds the same."""
        if self._unrecorded is None or background.diverting() or not self._unrecorded.put(ask):
            self._record(ask, ask.node)

    def _record_missed(self, batch: list[Ask]) -> None:
        try:
            view = live_view.live().refresh()
            for ask in batch:
                row = view.pod(ask.uid)
                if row is not None and row.state == PodState.BINDING:
                    self._record(ask, ask.node)
        except ledger.LedgerUnavailable as error:
            _log.warning("bound_unrecorded", pods=len(batch), error=str(error))
        finally:
            rest()

    def _record(self, ask: Ask, node: str) -> None:
        """The pod is bound whatever the ledger's state: what it misses now, the watcher tells it."""
        try:
            if not bindings.binding_bound(uid=ask.uid, node=node):
                self._observe(ask)
        except (ledger.LedgerUnavailable, errors.KubeError) as error:
            _log.warning("bound_unrecorded", uid=ask.uid, node=node, error=str(error))

    def _observe(self, ask: Ask) -> None:
        """Let the ledger read from the pod itself what it was given. Raises KubeError, LedgerUnavailable."""
        pod = self._send(calls.pod_get(namespace=ask.namespace, name=ask.name).whole())
        if (pod.get("metadata") or {}).get("uid") == ask.uid:
            observe.pods_observe([seen.from_object(pod, self._config)], config=self._config)

    def _returned(self, ask: Ask, plan: bindings.BindingPlan, why: str) -> str:
        """Certainly not bound by this attempt; nor by another process's earlier one, which is made sure of first."""
        return self._doubtful(ask, plan, why) if plan.joined else self._given_back(ask, plan, why)

    def _given_back(self, ask: Ask, plan: bindings.BindingPlan, why: str) -> str:
        """The pod holds its claim alone again, unless a later attempt decides: then its lock is not ours to give."""
        if bindings.binding_returned(uid=ask.uid, attempt=plan.attempt):
            hami_meters.taken_back(ask.uid)
            self._unlock(ask)
        return why

    def _doubtful(self, ask: Ask, plan: bindings.BindingPlan, why: str) -> str:
        """The Binding may have been carried out, or may still be: make sure before anything is given back.

        While that cannot be done the pod stays in `binding` and its devices with it; kube-scheduler asks again.
        """
        _log.warning("bind_doubtful", uid=ask.uid, node=ask.node, error=why)
        try:
            found = self._look(ask)
            if isinstance(found, str):
                return found
            mark = calls.pod_retry(namespace=ask.namespace, name=ask.name, uid=ask.uid, retry_at=f"bind-{plan.attempt}")
            found = self._judge(ask, self._send(mark))
        except errors.NotFound:
            return self._gone(ask, "not found")
        except errors.KubeError as error:
            return f"the outcome of the Binding is unknown: {why}; {error}"
        if isinstance(found, str):
            return found
        return self._given_back(ask, plan, f"the Binding was not carried out: {why}")


def _annotation_lock(api: ports.Api, key: str, timeout_s: float) -> node_lock.AnnotationLock:
    """A lock without an owner lapses sooner: who left it behind cannot be asked (HAMi v2.10.0: 2 minutes)."""
    limit_s = timeout_s if key == SHARED_LOCK else min(timeout_s, OWNERLESS_S)
    return node_lock.AnnotationLock(api, node_lock.Sightings(), timeout_s=limit_s, key=key)


def _look_at_ledger() -> View:
    view = live_view.live().within(lock_watch.LOOK_S)  # in a burst, decisions look as often
    rest()
    return view


def rest() -> None:
    """Give the thread's database connection back to the pool while it waits for somebody else."""
    if database.vendor == "postgresql" and not database.in_atomic_block:
        database.close()
