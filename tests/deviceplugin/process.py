"""The agent as a process of its own, with a simulated API server and a platform over HTTP."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hami_platform.kube import calls, client, errors, leases, objects
from hami_platform.simulator.apiserver import ApiServer
from tests.deviceplugin.builders import GPU_A, GPU_B, NODE, device_record, inventory_file
from tests.deviceplugin.web import Web

ROOT = Path(__file__).parents[2]
DEADLINE_S = 30.0


def until(true: Callable[[], Any]) -> Any:
    """What `true` returns once it is neither empty nor false; asked again until a deadline."""
    end = time.monotonic() + DEADLINE_S
    while not (found := true()):
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.05)
    return found


class Rig:
    """One node: API server, platform, and the agent as a process. The kubelet is the test's own."""

    def __init__(self, folder: Path, sockets: Path, api: ApiServer, web: Web) -> None:
        self.folder = folder
        self.url = api.url
        self.web = web
        self.kube = client.KubeClient(client.Config(kubeconfig=str(api.kubeconfig(folder / "kubeconfig"))))
        self.sockets = sockets
        self.process: subprocess.Popen[bytes] | None = None

    def set_up(self) -> None:
        """A node, a namespace and two cards."""
        inventory_file(self.folder, device_record(GPU_A), device_record(GPU_B))
        self.create(calls.path_of(calls.CORE, None, "nodes"), {"kind": "Node", "metadata": {"name": NODE}})
        self.create(calls.path_of(calls.CORE, None, "namespaces"), {"kind": "Namespace", "metadata": {"name": "nlp"}})

    def create(self, path: str, value: dict[str, Any]) -> objects.Object:
        return self.kube.send(calls.KubeCall("POST", path, objects.Object, (), {"apiVersion": "v1", **value}))

    def start(self, **environ: str) -> None:
        settings = {
            "NODE_NAME": NODE,
            "HOOK_PATH": str(self.folder / "hook"),
            "KUBECONFIG": str(self.folder / "kubeconfig"),
            "HAMI_INVENTORY_FILE": str(self.folder / "inventory.json"),
            "HAMI_KUBELET_DIR": str(self.sockets),
            "HAMI_STATE_DIR": str(self.folder / "state"),
            "HAMI_PLATFORM_URL": self.web.url,
            "HAMI_INTERNAL_TOKEN": "t0k3n",
            "HAMI_DEVICE_SPLIT_COUNT": "3",
        }
        command = [sys.executable, "-m", "deviceplugin", "--device-memory-scaling=1.5"]
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("HAMI_")}
        self.process = subprocess.Popen(command, cwd=ROOT, env={**inherited, **settings, **environ})

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_S)

    def close(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.kube.close()

    def bound_pod(
        self,
        name: str,
        rows: str,
        *,
        inits: Sequence[str] = (),
        asks: int = 1,
        notes: Mapping[str, str] | None = None,
    ) -> objects.Pod:
        """Create a pod and bind it as the scheduler does: the allocation travels inside the Binding."""
        usual = {"image": "busybox", "resources": {"limits": {"nvidia.com/gpu": asks}}}
        spec = {
            "containers": [{"name": "main", **usual}],
            "initContainers": [{"name": one, **usual} for one in inits],
            "terminationGracePeriodSeconds": 0,
        }
        path = calls.path_of(calls.CORE, "nlp", "pods")
        made = self.create(path, {"kind": "Pod", "metadata": {"name": name, "namespace": "nlp"}, "spec": spec})
        bound = {
            "hami.io/bind-phase": "allocating",
            "hami.io/bind-time": "1790000000",
            "hami.io/vgpu-node": NODE,
            "hami.io/vgpu-devices-to-allocate": rows,
        }
        self.kube.send(
            calls.pod_bind(
                namespace="nlp",
                name=name,
                uid=made.metadata.uid,
                resource_version=made.metadata.resource_version,
                node=NODE,
                annotations=bound | dict(notes or {}),
                labels={},
            )
        )
        return self.pod(name)

    def pod(self, name: str) -> objects.Pod:
        return self.kube.send(calls.pod_get(namespace="nlp", name=name))

    def status(self, name: str) -> dict[str, Any]:
        """A pod's status, whole."""
        path = calls.pod_get(namespace="nlp", name=name).path
        found: dict[str, Any] = self.kube.send(calls.KubeCall("GET", path, dict))["status"]
        return found

    def node(self) -> objects.Node:
        return self.kube.send(calls.node_get(name=NODE))

    def lease(self) -> objects.Lease | None:
        name = leases.agent_lease(NODE)
        try:
            return self.kube.send(calls.lease_get(namespace=leases.AGENTS_NAMESPACE, name=name))
        except errors.NotFound:
            return None
