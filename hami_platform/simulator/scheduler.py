"""A kube-scheduler loop: serial scheduling cycles, parallel binding cycles, an extender in between.

`with Scheduler(api.url, extender_url=…):`. It behaves as kube-scheduler v1.36 was measured to, in what it sends, how
it words failures and when it tries again. It knows nothing of GPUs: the extender alone counts them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

from hami_platform.simulator import client, transport
from hami_platform.simulator.scheduling import extender, ledger, predicates, telling, waiting

Obj = dict[str, Any]
_UNFINISHED = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}


class _NoFit(Exception):
    """No node fits; `total` nodes there are."""

    def __init__(self, total: int, turned: dict[str, predicates.Turned]) -> None:
        super().__init__(total)
        self.total, self.turned = total, turned


class Scheduler:
    """Schedules pods whose schedulerName is one of `names`. `extender_url` is short for an extender of defaults."""

    def __init__(
        self,
        url: str,
        *,
        extender_url: str = "",
        extender_config: extender.ExtenderConfig | None = None,
        names: Iterable[str] = ("default-scheduler", "hami-scheduler"),
        percentage_of_nodes: int = 0,
        backoff_s: float = 1.0,
        token: str = "",
        ca_pem: bytes | None = None,
    ) -> None:
        if extender_config is None and extender_url:
            extender_config = extender.ExtenderConfig(extender_url)
        self._api = client.Client(
            url, token=token, ca_pem=ca_pem, agent="kube-scheduler/v1.36.3 (linux/amd64) simulated"
        )
        self._extender = extender.Extender(extender_config) if extender_config else None
        self._names = frozenset(names)
        self._percentage = percentage_of_nodes
        self._cache = ledger.Cache()
        self._queue = waiting.Queue(backoff_s, backoff_s * 10)
        self._teller = telling.Teller(self._api)
        self._start_at = 0  # where the next search of nodes begins
        self._nodes = client.Mirror(self._api, client.path_of("nodes"), self._node_changed)
        self._pods = client.Mirror(self._api, client.path_of("pods"), self._pod_changed, _UNFINISHED)
        self._binders = ThreadPoolExecutor(64, thread_name_prefix="sim-bind")
        self._thread = threading.Thread(target=self._run, name="sim-scheduler", daemon=True)

    def __enter__(self) -> Scheduler:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Fill the cache, then begin to schedule."""
        self._nodes.start()
        self._nodes.synced.wait(30)
        self._pods.start()
        self._pods.synced.wait(30)
        self._thread.start()

    def stop(self) -> None:
        """Stop scheduling, let running binds end, close connections."""
        self._queue.close()
        for mirror in (self._pods, self._nodes):
            mirror.stop()
        self._thread.join(35)
        self._binders.shutdown(wait=True)
        self._api.close()
        if self._extender:
            self._extender.close()

    def counts(self) -> dict[str, int]:
        """How many pods are active, waiting, in backoff, being tried."""
        return self._queue.counts()

    # --- what the cluster tells -----------------------------------------------------------------------------

    def _node_changed(self, before: Obj | None, after: Obj | None) -> None:
        name = (after or before or {})["metadata"]["name"]
        self._cache.set_node(name, after)
        if before is None or after is None or _matters(before) != _matters(after):
            self._queue.event()

    def _pod_changed(self, before: Obj | None, after: Obj | None) -> None:
        uid = (after or before or {})["metadata"]["uid"]
        if after is None:
            self._queue.drop(uid)
            self._cache.set_pod(None, uid)
            self._queue.event()
        elif after["spec"].get("nodeName"):
            self._queue.drop(uid)
            self._cache.set_pod(after, uid)
            self._queue.event()
        elif after["spec"].get("schedulingGates") or after["metadata"].get("deletionTimestamp"):
            self._queue.drop(uid)
        elif after["spec"].get("schedulerName") in self._names:
            self._queue.put(after)

    # --- cycles ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (entry := self._queue.pop()) is not None:
            self._schedule(entry)

    def _schedule(self, entry: waiting.Entry) -> None:
        pod, wanted = entry.pod, predicates.requests(entry.pod)
        try:
            node = self._choose(pod, wanted)
        except _NoFit as none:
            self._queue.turned_down(entry)
            self._say_failed(pod, "Unschedulable", telling.no_node_fits(none.total, none.turned))
        except extender.ExtenderError as failure:
            self._queue.failed(entry)
            self._say_failed(pod, "SchedulerError", str(failure))
        else:
            self._cache.assume(entry.uid, node, wanted)
            self._binders.submit(self._bind, entry, node)

    def _choose(self, pod: Obj, wanted: dict[str, int]) -> str:
        """The node to bind to. Raises _NoFit or ExtenderError."""
        nodes = self._cache.nodes()
        feasible, turned = self._search(pod, wanted, nodes)
        left = feasible
        if feasible and self._extender and self._extender.interested(pod):
            left = self._ask(self._extender, pod, feasible, turned)
        if not left:
            raise _NoFit(len(nodes), turned)
        return max(left, key=lambda seen: predicates.score(wanted, seen.node, seen.used)).name

    def _search(
        self, pod: Obj, wanted: dict[str, int], nodes: list[ledger.Seen]
    ) -> tuple[list[ledger.Seen], dict[str, predicates.Turned]]:
        """Walk the nodes from where the last search ended, until enough fit."""
        enough, ignored = predicates.nodes_to_find(len(nodes), self._percentage), self._ignored()
        feasible: list[ledger.Seen] = []
        turned: dict[str, predicates.Turned] = {}
        walked = 0
        for walked in range(1, len(nodes) + 1):
            seen = nodes[(self._start_at + walked - 1) % len(nodes)]
            verdict = predicates.turned_down(pod, wanted, seen.node, seen.used, seen.pods, ignored)
            if verdict is None:
                feasible.append(seen)
                if len(feasible) == enough:
                    break
            else:
                turned[seen.name] = verdict
        self._start_at = (self._start_at + walked) % len(nodes) if nodes else 0
        return feasible, turned

    def _ignored(self) -> frozenset[str]:
        config = self._extender.config if self._extender else None
        return config.managed_resources if config and config.ignored_by_scheduler else frozenset()

    def _ask(
        self, asked: extender.Extender, pod: Obj, feasible: list[ledger.Seen], turned: dict[str, predicates.Turned]
    ) -> list[ledger.Seen]:
        try:
            answer = asked.filter(pod, [seen.node for seen in feasible])
        except extender.ExtenderError:
            if asked.config.ignorable:
                return feasible
            raise
        for texts, final in ((answer.failed, False), (answer.unresolvable, True)):
            turned.update({name: predicates.Turned((text,), final) for name, text in texts.items()})
        return [seen for seen in feasible if seen.name in answer.nodes]

    def _bind(self, entry: waiting.Entry, node: str) -> None:
        pod = entry.pod
        meta = pod["metadata"]
        try:
            self._carry_out(pod, node)
        except (extender.ExtenderError, client.ApiFailure, transport.TransportError) as failure:
            self._cache.forget(entry.uid)
            self._queue.failed(entry)
            self._queue.event()
            self._say_failed(pod, "SchedulerError", getattr(failure, "message", "") or str(failure))
            return
        said = f"Successfully assigned {meta['namespace']}/{meta['name']} to {node}"
        self._teller.event(pod, "Normal", "Scheduled", "Binding", said)

    def _carry_out(self, pod: Obj, node: str) -> None:
        asked = self._extender
        if asked and asked.config.bind_verb and asked.interested(pod):
            try:
                asked.bind(pod, node)
                return
            except extender.ExtenderError:
                if not asked.config.ignorable:
                    raise
        meta = pod["metadata"]
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        identity = {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": identity, "target": target}
        self._api.create(client.path_of("pods", meta["namespace"], meta["name"], "binding"), body)

    def _say_failed(self, pod: Obj, reason: str, message: str) -> None:
        self._teller.event(pod, "Warning", "FailedScheduling", "Scheduling", message)
        # A bind that failed to answer may have bound: then the pod has left the queue and its condition is right.
        if self._queue.knows(pod["metadata"]["uid"]):
            self._teller.unscheduled(pod, reason, message)


def _matters(node: Obj) -> Obj:
    """The node without what a mere heartbeat changes."""
    meta, status = node["metadata"], node.get("status") or {}
    conditions = [(item.get("type"), item.get("status"), item.get("reason")) for item in status.get("conditions") or []]
    return {
        "labels": meta.get("labels"),
        "annotations": meta.get("annotations"),
        "spec": node.get("spec"),
        "allocatable": status.get("allocatable"),
        "conditions": conditions,
    }
