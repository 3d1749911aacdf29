"""One vector's world: a cluster in memory, an empty ledger that has been compared with it, and the real listeners.

Events reach the ledger by the services that the watcher calls. Must not know: what a step of a vector is.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import pathlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from django.test import Client

from accounting import ledger, live_view
from accounting.models import NodeLiveness, Pod, PodState
from accounting.services import cluster_api, device_config, native_quotas, observe, reconcile, seen
from hami_platform import env
from hami_platform.domain.view import View
from hami_platform.domain.wire import handshake
from scheduler_ext import background, events, extender, traces
from scheduler_ext.conformance import state, vectors
from scheduler_ext.conformance.cluster import Cluster

Json = dict[str, Any]

BIND_PHASE, LOCK = "hami.io/bind-phase", "hami.io/mutex.lock"


class World:
    """What steps work on. mutated: the pod as the last admission left it; refused: it was refused instead."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.cluster = Cluster()
        self.config = device_config.device_config()
        self.http = Client(SERVER_NAME="localhost")
        self.told: list[events.PodEvent] = []
        self.decided: list[traces.Decided] = []
        self.mutated: Json | None = None
        self.refused = False
        self.shown: dict[str, dict[str, str]] = {}
        """uid → annotations shown with a reservation: HAMi writes them at `/filter`, we with the Binding."""

    def take(self, queue: str, item: Any) -> None:
        """Keep what the product would write in the background."""
        if isinstance(item, events.Told):
            self.told += item.events()
        elif isinstance(item, traces.Decided):
            self.decided.append(item)

    # -- the ledger -----------------------------------------------------------------------------------------------

    @property
    def view(self) -> View:
        """The ledger now."""
        return live_view.live().refresh()

    def state(self) -> Json:
        """Use and quota now."""
        return state.state(self.view, self.config)

    def row(self, uid: str) -> Pod | None:
        """The ledger's row of a pod."""
        return Pod.objects.filter(uid=uid).first()

    # -- what the watcher does ------------------------------------------------------------------------------------

    def start(self, vector: vectors.Vector) -> None:
        """Quotas, nodes with one registration pass, pods; then the ledger has been compared with the cluster."""
        for quota in vector.quotas:
            self.quota(quota)
        for node in vector.nodes:
            self.cluster.put("nodes", vectors.filled(node, self.now))
        if vector.register:
            self.register()
        reconcile.compared()
        for pod in vector.pods:
            self.cluster.put("pods", vectors.filled(pod, self.now))
        observe.pods_observe(
            [seen.from_object(pod, self.config) for pod in self.cluster.all("pods")], config=self.config
        )

    def register(self) -> None:
        """One pass over all nodes; a second one where a node turns out to be known for long."""
        asked = {one["metadata"]["name"]: self._asked_at(one) for one in self.cluster.all("nodes")}
        reconcile.nodes_reconcile(self.cluster, config=self.config)
        known = [
            NodeLiveness.objects.filter(node__name=name, first_seen_at__gt=at).update(first_seen_at=at)
            for name, at in asked.items()
            if at is not None
        ]
        if any(known):
            reconcile.nodes_reconcile(self.cluster, config=self.config)

    def _asked_at(self, node: Mapping[str, Any]) -> datetime | None:
        """When the request for a handshake was written that stands on a node: whoever wrote it had seen the node."""
        notes = node["metadata"].get("annotations") or {}
        found = [handshake.decode(notes[v.handshake_key]) for v in self.config.vendors if v.handshake_key in notes]
        times = [one.requested_at.astimezone() for one in found if one.requested_at is not None]
        return min(times, default=None)

    def pod(self, obj: Mapping[str, Any]) -> None:
        """A pod was added or changed."""
        observe.pods_observe([seen.from_object(obj, self.config)], config=self.config)

    def quota(self, raw: Mapping[str, Any]) -> None:
        """A ResourceQuota `{namespace, name, hard}` was added or changed."""
        meta = {"namespace": raw.get("namespace", "default"), "name": raw["name"]}
        made = self.cluster.put("resourcequotas", {"metadata": meta, "spec": {"hard": dict(raw.get("hard") or {})}})
        native_quotas.native_quotas_observe([made], config=self.config, complete=False)

    def quota_gone(self, raw: Mapping[str, Any]) -> None:
        """It was deleted."""
        namespace, name = raw.get("namespace", "default"), raw["name"]
        self.cluster.drop("resourcequotas", name, namespace)
        native_quotas.native_quota_gone(namespace=namespace, name=name)

    def restart(self) -> None:
        """A new process on the same ledger and cluster: nothing is remembered, everything is compared."""
        forget(self.cluster)
        reconcile.everything_reconcile(self.cluster, config=self.config)

    # -- what kube-scheduler and the node do ------------------------------------------------------------------------

    def post(self, path: str, body: Any) -> Json:
        """The JSON answer of a listener to a JSON body."""
        answer = self.http.post(path, json.dumps(body), content_type="application/json")
        found: Json = json.loads(answer.content)
        return found

    def bind(self, namespace: str, name: str, uid: str, node: str) -> str:
        """The error of `/bind`, empty for success."""
        asked = {"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node}
        return str(self.post("/bind", asked)["Error"])

    def put_on_node(self, obj: Mapping[str, Any]) -> None:
        """Bind a reserved pod and serve its Allocate, as must have happened before it has container statuses."""
        meta = obj["metadata"]
        row = self.row(meta["uid"])
        if row is None or row.state != PodState.RESERVED or (obj.get("spec") or {}).get("nodeName"):
            return
        if not self.bind(meta["namespace"], meta["name"], meta["uid"], row.node):
            self.cluster.merge("nodes", row.node, "", {"metadata": {"annotations": {LOCK: None}}})
            done = {"metadata": {"annotations": {BIND_PHASE: "success"}}}
            self.cluster.merge("pods", meta["name"], meta["namespace"], done)
            self.pod(self.cluster.objects["pods", meta["namespace"], meta["name"]])

    # -- objects --------------------------------------------------------------------------------------------------

    def annotations(self, plural: str) -> dict[str, dict[str, str]]:
        """Name → annotations of every object of a kind, copied."""
        return {
            one["metadata"]["name"]: copy.copy(one["metadata"].get("annotations") or {})
            for one in self.cluster.all(plural)
        }

    def find(self, reference: str) -> Json | None:
        """The pod of a `podRef`: `name` or `namespace/name`."""
        namespace, name = split(reference)
        return self.cluster.get("pods", name, namespace)


def split(reference: str) -> tuple[str, str]:
    """(namespace, name) of a `podRef`."""
    namespace, slash, name = reference.rpartition("/")
    return (namespace if slash else "default"), name


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """The annotations that differ; None for one that was removed."""
    return {key: after.get(key) for key in sorted({*before, *after}) if before.get(key) != after.get(key)}


def forget(cluster: Cluster) -> None:
    """Drop what this process remembers of another vector, and ask this cluster from now on."""
    ledger.forget_cluster()
    live_view.forget()
    cluster_api.cluster_api_use(cluster)
    extender.the_binder.cache_clear()
    events.forget()


@contextlib.contextmanager
def made(vector: vectors.Vector, folder: pathlib.Path, now: datetime) -> Iterator[World]:
    """The world of a vector, before its first step. The database must be empty."""
    with env.override(**_settings(vector.flags, _device_file(vector.devices, folder))):
        world = World(now)
        with background.diverted(world.take):
            forget(world.cluster)
            world.start(vector)
            world.told.clear()
            yield world


def _settings(flags: Mapping[str, Any], device_file: pathlib.Path) -> Json:
    """HAMi's flags as ours. Answers are asked for in HAMi's form, and nothing waits unless a vector says so."""
    return {
        "cluster": "conformance",
        "scheduler_name": flags.get("schedulerName", "hami-scheduler"),
        "node_scheduler_policy": flags.get("nodePolicy", "binpack"),
        "gpu_scheduler_policy": flags.get("gpuPolicy", "spread"),
        "force_overwrite_default_scheduler": flags.get("forceOverwrite", True),
        "node_label_selector": tuple(sorted((flags.get("nodeSelector") or {}).items())),
        "node_lock_timeout_s": float(flags.get("nodeLockTimeoutSeconds", 300)),
        "node_lock_retry_timeout_s": float(flags.get("nodeLockRetrySeconds", 0)),
        "device_config_file": str(device_file),
        "default_namespace_mode": "enforce",
        "node_cache_capable": True,
        "narrowing": False,
        "pod_webhook_ignore_label": False,
        "strict_hami": True,
        "role": "tool",
    }


def _device_file(devices: Mapping[str, Any], folder: pathlib.Path) -> pathlib.Path:
    """A file with this device configuration: JSON is YAML."""
    text = json.dumps(devices, sort_keys=True)
    file = folder / f"devices-{hashlib.sha256(text.encode()).hexdigest()[:16]}.yaml"
    if not file.exists():
        file.write_text(text, encoding="utf-8")
    return file
