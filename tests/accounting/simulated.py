"""A simulated API server with the platform's client beside it: what reconcile and watcher tests act on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from accounting.services.cluster_api import cluster_api_use
from hami_platform.kube import client as kube
from hami_platform.simulator import client as simulated
from hami_platform.simulator.apiserver import ApiServer
from tests.accounting import flow, kube_objects

Object = dict[str, Any]


class World:
    """The API server (`server`), a plain client of it (`people`), and the platform's client (`api`)."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self.server = server
        self.people = simulated.Client(server.url)
        self.api = kube.KubeClient(kube.Config(kubeconfig=str(server.kubeconfig(folder / "kubeconfig"))))
        self.people.create("/api/v1/namespaces", {"metadata": {"name": "nlp"}})

    def node(self, *args: Any, **kwargs: Any) -> None:
        """A node as `kube_objects.node` makes it."""
        made = kube_objects.node(*args, **kwargs)
        for field in ("uid", "resourceVersion"):
            del made["metadata"][field]
        self.people.create("/api/v1/nodes", made)

    def pod(self, name: str, **kwargs: Any) -> Object:
        """A pod as `kube_objects.pod` makes it; the server gives it its uid."""
        made = kube_objects.pod(name, **kwargs)
        for field in ("uid", "resourceVersion", "creationTimestamp"):
            del made["metadata"][field]
        del made["status"]
        return self.people.create("/api/v1/namespaces/nlp/pods", made)

    def look(self, name: str) -> Object:
        """The pod as the server has it."""
        return self.people.get(f"/api/v1/namespaces/nlp/pods/{name}")

    def bind(self, name: str, node: str, annotations: dict[str, str] | None = None) -> None:
        """Bind the pod, as an extender does."""
        body = {
            "metadata": {"name": name, "annotations": annotations or {}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        self.people.create(f"/api/v1/namespaces/nlp/pods/{name}/binding", body)

    def status(self, name: str, **status: Any) -> None:
        """What the kubelet would report."""
        self.people.call(
            "PATCH", f"/api/v1/namespaces/nlp/pods/{name}/status", {"status": status}, media=simulated.MERGE_PATCH
        )

    def delete(self, name: str) -> None:
        """Gone at once."""
        self.people.call("DELETE", f"/api/v1/namespaces/nlp/pods/{name}", {"gracePeriodSeconds": 0})

    def placed(self, name: str, node: str = "n1", **amounts: Any) -> Object:
        """A pod that the platform has placed and bound."""
        pod = self.pod(name, **amounts)
        answer = flow.filter_(pod, node)
        assert answer.node == node, answer
        plan = flow.bind(pod, node)
        self.bind(name, node, plan.annotations)  # type: ignore[union-attr]
        return self.look(name)


@contextlib.contextmanager
def world(folder: Path) -> Iterator[World]:
    """A running API server that is also this process's cluster."""
    with ApiServer() as server:
        made = World(server, folder)
        cluster_api_use(made.api)
        try:
            yield made
        finally:
            cluster_api_use(None)
            made.people.close()
            made.api.close()


def until(probe: Callable[[], object], what: str, timeout_s: float = 20.0) -> None:
    """Poll until the probe is true."""
    end = time.monotonic() + timeout_s
    while not probe():
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        time.sleep(0.05)
