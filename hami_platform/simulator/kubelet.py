"""A simulated kubelet for one node, with a device plugin beside it or an inventory that a scenario gives.

`with Kubelet(api.url, "n1", plugin_dir=…)`: serves kubelet.sock there and lets a real agent register; without
`plugin_dir` the node's extended resources are those of `inventory`. It knows nothing of GPUs or quotas.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from hami_platform.simulator import client, transport
from hami_platform.simulator.node import lifecycle, plugins, pods, worker

Obj = dict[str, Any]
_log = logging.getLogger(__name__)
_LEASE_S, _RENEW_S = 40, 10.0  # source: kubelet, nodeLeaseDurationSeconds and a quarter of it
_BASE = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110"}


class Kubelet:
    """One node's kubelet. `scale`: how many simulated seconds pods live in a real one.

    `node` may hold labels, annotations, taints and unschedulable for the Node object, which is made when it is missing.
    """

    def __init__(
        self,
        url: str,
        name: str,
        *,
        plugin_dir: Path | None = None,
        inventory: Mapping[str, int] | None = None,
        node: Obj | None = None,
        ip: str = "10.0.0.1",
        scale: float = 1.0,
        shared: worker.Worker | None = None,
        token: str = "",
        ca_pem: bytes | None = None,
    ) -> None:
        self.name = name
        self._api = client.Client(url, token=token, ca_pem=ca_pem, agent="kubelet/v1.36.3 (linux/amd64) simulated")
        self._inventory = dict(inventory or {})
        self._node, self._ip = node or {}, ip
        self._work = shared or worker.Worker(f"sim-kubelet {name}")
        self._own_work = shared is None
        self._plugins = plugins.PluginManager(plugin_dir, self._resources_changed) if plugin_dir else None
        self._beating = threading.Event()
        self._beating.set()
        self._stopped = False
        self.pods = pods.Pods(
            self._api,
            self._work,
            node_ip=ip,
            admit=self._admit,
            release=self._release,
            started=self._container_starts,
            scale=scale,
        )
        self._mirror = client.Mirror(
            self._api, client.path_of("pods"), self._pod_changed, {"fieldSelector": f"spec.nodeName={name}"}
        )

    def __enter__(self) -> Kubelet:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Make the node known, accept plugins, take the pods that are bound here."""
        if self._plugins:
            self._plugins.start()
        self._register_node()
        if self._own_work:
            self._work.start()
        self._work.submit(self._renew)
        self._mirror.start()

    def stop(self) -> None:
        """Stop without touching pods or node: what remains is what a dead kubelet leaves."""
        self._stopped = True
        self._mirror.stop()
        if self._own_work:
            self._work.stop()
        if self._plugins:
            self._plugins.stop()
        self._api.close()

    def restart_plugins(self) -> None:
        """What plugins see when the kubelet restarts: sockets wiped, registration open again. Pods stay."""
        if self._plugins:
            self._plugins.stop()
            self._resources_changed()
            self._plugins.start()

    def rebuild_sandbox(self, namespace: str, name: str) -> None:
        """Lose a pod's sandbox: its init containers run again."""
        self._work.submit(lambda: self.pods.rebuild(namespace, name))

    def crash(self, namespace: str, name: str, container: str, exit_code: int = 1) -> None:
        """Let a running container exit."""
        self._work.submit(lambda: self.pods.crash(namespace, name, container, exit_code))

    def set_inventory(self, resource: str, count: int) -> None:
        """Change what a node without a plugin advertises."""
        self._inventory[resource] = count
        self._resources_changed()

    def pause_heartbeat(self, *, paused: bool = True) -> None:
        """Stop or go on renewing the node's lease."""
        if paused:
            self._beating.clear()
        else:
            self._beating.set()

    # --- node -----------------------------------------------------------------------------------------------

    def _register_node(self) -> None:
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            **self._node.get("labels", {}),
        }
        spec = {key: self._node[key] for key in ("taints", "unschedulable") if key in self._node}
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": labels, "annotations": self._node.get("annotations", {})},
            "spec": spec,
            "status": self._status(),
        }
        try:
            self._api.create(client.path_of("nodes"), body)
        except client.ApiFailure as failure:
            if failure.reason != "AlreadyExists":
                raise
            self._report_resources()

    def _status(self) -> Obj:
        capacity, allocatable = self._amounts()
        now = pods.now_text()
        return {
            "capacity": capacity,
            "allocatable": allocatable,
            "conditions": [_condition(kind, status, reason, now) for kind, status, reason in _CONDITIONS],
            "addresses": [{"type": "InternalIP", "address": self._ip}, {"type": "Hostname", "address": self.name}],
            "nodeInfo": dict(_NODE_INFO),
        }

    def _amounts(self) -> tuple[Obj, Obj]:
        capacity, allocatable = dict(_BASE), dict(_BASE)
        for name, count in self._inventory.items():
            capacity[name] = allocatable[name] = str(count)
        for name, (total, healthy) in (self._plugins.counts() if self._plugins else {}).items():
            capacity[name], allocatable[name] = str(total), str(healthy)
        return capacity, allocatable

    def _resources_changed(self) -> None:
        self._work.submit(self._report_resources)

    def _report_resources(self) -> None:
        capacity, allocatable = self._amounts()
        body = {"status": {"capacity": capacity, "allocatable": allocatable}}
        try:
            self._api.patch(client.path_of("nodes", "", self.name, "status"), body, client.STRATEGIC_PATCH)
        except (client.ApiFailure, transport.TransportError):
            if not self._stopped:
                self._work.submit(self._report_resources, 1.0)

    def _renew(self) -> None:
        if self._beating.is_set():
            spec = {
                "holderIdentity": self.name,
                "leaseDurationSeconds": _LEASE_S,
                "renewTime": pods.now_text().replace("Z", ".000000Z"),
            }
            path = client.path_of("leases", "kube-node-lease", self.name, group="coordination.k8s.io")
            try:
                self._api.patch(path, {"metadata": {"name": self.name}, "spec": spec}, "application/apply-patch+yaml")
            except (client.ApiFailure, transport.TransportError):
                pass  # the next one comes soon
        self._work.submit(self._renew, _RENEW_S)

    # --- pods -----------------------------------------------------------------------------------------------

    def _pod_changed(self, before: Obj | None, after: Obj | None) -> None:
        if after is not None:
            self._work.submit(lambda: self.pods.changed(after))
        elif before is not None:
            self._work.submit(lambda: self.pods.gone(before))

    def _admit(self, pod: Obj) -> None:
        if self._plugins is None:
            return
        run = lifecycle.PodRun(pod, "", "")
        for container in (*run.inits, *run.apps):
            limits = (container.spec.get("resources") or {}).get("limits") or {}
            try:
                self._plugins.allocate(run.uid, container.name, container.kind, limits)
            except plugins.AllocationError as failure:
                message = f"Pod was rejected: Allocate failed due to {failure}, which is unexpected"
                raise pods.Rejected("UnexpectedAdmissionError", message) from failure

    def _release(self, uid: str) -> None:
        if self._plugins:
            self._plugins.release(uid)

    def _container_starts(self, uid: str, container: str) -> None:
        if self._plugins:
            try:
                self._plugins.prestart(uid, container)
            except plugins.AllocationError:
                _log.exception("simulated kubelet: PreStartContainer failed, the container starts all the same")


_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID"),
    ("Ready", "True", "KubeletReady"),
)
_NODE_INFO = {
    "machineID": "",
    "systemUUID": "",
    "bootID": "",
    "kernelVersion": "6.1.0-simulated",
    "osImage": "Simulated Linux",
    "containerRuntimeVersion": "simulated://1",
    "kubeletVersion": "v1.36.3+simulated",
    "kubeProxyVersion": "",
    "operatingSystem": "linux",
    "architecture": "amd64",
}


def _condition(kind: str, status: str, reason: str, now: str) -> Obj:
    return {
        "type": kind,
        "status": status,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": "kubelet is posting ready status" if kind == "Ready" else "",
    }
