"""A simulated API server, the ledger that knows it, and the requests that its clients would send."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.test import Client

from accounting import live_view
from accounting.models import Pod
from accounting.services import cluster_api, reconcile
from accounting.services.device_config import device_config
from hami_platform.domain.wire import node_register
from hami_platform.kube import client
from hami_platform.simulator import client as simulated
from hami_platform.simulator.apiserver import ApiServer
from scheduler_ext import denied_asks, events, traces
from tests import builders

Obj = dict[str, Any]
AGENT = {"platform.hami.io/agent": "1.0"}


def container(name: str = "main", **amounts: Any) -> Obj:
    """A container; `gpumem=3000` is nvidia.com/gpumem."""
    limits = {f"nvidia.com/{key}": str(value) for key, value in amounts.items()}
    return {"name": name, "image": "i", "resources": {"limits": limits, "requests": dict(limits)}}


def pod(name: str, *containers: Obj, namespace: str = "nlp", init: list[Obj] | None = None, **metadata: Any) -> Obj:
    """A pod of hami-scheduler; without containers it asks for 3000 MiB of one card."""
    spec: Obj = {"schedulerName": "hami-scheduler", "containers": list(containers) or [container(gpu=1, gpumem=3000)]}
    if init:
        spec["initContainers"] = init
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": spec,
    }


class World:
    """What a test needs of both sides."""

    def __init__(self, api: ApiServer, kube: simulated.Client) -> None:
        self.api, self.kube = api, kube
        self.http = Client()

    @classmethod
    @contextmanager
    def made(cls, folder: Path) -> Iterator[World]:
        with ApiServer() as api:
            ours = client.KubeClient(client.Config(kubeconfig=str(api.kubeconfig(folder / "config"))))
            cluster_api.cluster_api_use(ours)
            world = cls(api, simulated.Client(api.url))
            try:
                world.kube.call("POST", "/api/v1/namespaces", {"metadata": {"name": "nlp"}})
                world.node("n1")
                world.compare()
                yield world
            finally:
                world.kube.close()
                world.flush()
                ours.close()

    @staticmethod
    def flush() -> None:
        """Let the background writers finish."""
        for queue in (traces._queue, denied_asks._queue, events._queue):
            assert queue.flush(10)

    def node(self, name: str, *, labels: Obj | None = None, cards: int = 2) -> None:
        """A node whose cards are GPU-<name>-0 …, marked as our agent's unless told otherwise."""
        cards_ = [builders.device(f"GPU-{name}-{i}", index=i) for i in range(cards)]
        count = {"nvidia.com/gpu": str(10 * cards)}
        body = {
            "metadata": {
                "name": name,
                "labels": AGENT if labels is None else labels,
                "annotations": {"hami.io/node-nvidia-register": node_register.encode(cards_)},
            },
            "status": {"capacity": count, "allocatable": count},
        }
        self.kube.call("POST", "/api/v1/nodes", body)

    def compare(self) -> None:
        """Bring the ledger in line with the API server."""
        reconcile.everything_reconcile(cluster_api.cluster_api(), config=device_config())

    # -- objects ----------------------------------------------------------------------------------------------

    def create(self, body: Obj) -> Obj:
        """Create a pod as its user would, past any webhook."""
        path = f"/api/v1/namespaces/{body['metadata']['namespace']}/pods"
        return self.kube.call("POST", path, body)

    def get(self, name: str, namespace: str = "nlp") -> Obj:
        return self.kube.call("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")

    def delete(self, name: str, namespace: str = "nlp") -> None:
        self.kube.call("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}?gracePeriodSeconds=0")

    def patch(self, path: str, body: Obj) -> Obj:
        return self.kube.patch(path, body)

    def started(self, name: str, namespace: str = "nlp") -> None:
        """The kubelet says that the pod's container runs."""
        statuses = [{"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]
        status = {"status": {"phase": "Running", "containerStatuses": statuses}}
        self.patch(f"/api/v1/namespaces/{namespace}/pods/{name}/status", status)

    # -- requests ---------------------------------------------------------------------------------------------

    def post(self, path: str, body: Any) -> Any:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = self.http.post(path, data, content_type="application/json")
        assert answer.status_code == 200, answer.content
        assert answer["Content-Type"] == "application/json"
        return json.loads(answer.content)

    def filter(self, made: Obj, *nodes: str) -> Obj:
        return self.post("/filter", {"Pod": made, "Nodes": None, "NodeNames": list(nodes or ("n1",))})

    def bind(self, made: Obj, node: str = "n1") -> str:
        meta = made["metadata"]
        args = {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"], "Node": node}
        return str(self.post("/bind", args)["Error"])

    def placed(self, name: str, *nodes: str) -> Obj:
        """A created pod that /filter has put on a node."""
        made = self.create(pod(name))
        answer = self.filter(made, *nodes)
        assert answer["NodeNames"], answer
        return made

    def admit(self, body: Obj, *, operation: str = "CREATE", old: Obj | None = None, **request: Any) -> Obj:
        asked = {
            "uid": str(uuid.uuid4()),
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "namespace": body["metadata"].get("namespace", "nlp"),
            "name": body["metadata"].get("name", ""),
            "operation": operation,
            "object": body,
            "oldObject": old,
            "userInfo": {"username": "jane"},
            **request,
        }
        answer = self.post(
            "/webhook", {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
        )
        assert answer["response"]["uid"] == asked["uid"]
        return dict(answer["response"])


def row(uid: str) -> Pod:
    """The ledger's row of a pod."""
    return Pod.objects.get(uid=uid)


def held_mib(uuid_: str = "GPU-n1-0") -> int:
    """Memory held on a card of n1 now."""
    states = live_view.live().refresh().states["n1"].devices
    return next(one.held.memory_mib for one in states if one.device.uuid == uuid_)


def total_mib() -> int:
    """Memory held on all cards."""
    return sum(one.held.memory_mib for node in live_view.live().refresh().states.values() for one in node.devices)
