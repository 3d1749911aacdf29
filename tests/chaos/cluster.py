"""A simulated cluster over the processes of a Stand: API server, scheduler and kubelets, and people who create pods.

Webhooks and extenders stand behind one address each, as behind a Service. Must not know: what tests assert.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from hami_platform.simulator import client, kubelet, scenarios, scheduler, transport
from hami_platform.simulator.apiserver import ApiServer
from hami_platform.simulator.node import worker
from hami_platform.simulator.scheduling import extender
from tests.chaos.balancer import Balancer
from tests.chaos.stand import Stand

Obj = dict[str, Any]
NAMESPACE = "hami-system"
PLATFORM = f"system:serviceaccount:{NAMESPACE}:platform"
MANAGED = frozenset({"nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"})
MEMORY_MIB = 81920
PATIENCE_S = 120
_AWAY = "no answer"
_LATER = ("cannot be checked now", "is not ready")
_HOOKS = client.path_of("mutatingwebhookconfigurations", group="admissionregistration.k8s.io")


class Cluster:
    """API server first (`kubeconfig` is for the platform); `open` once webhooks and extenders serve."""

    def __init__(self, folder: Path) -> None:
        self.api = ApiServer(window=50_000)
        self.people = client.Client(self.api.url, agent="people")
        self._folder = folder
        self._work = worker.Worker("kubelets")
        self._over = contextlib.ExitStack()

    def __enter__(self) -> Cluster:
        self._over.enter_context(self.api)
        self._over.callback(self.people.close)
        self._work.start()
        self._over.callback(self._work.stop)
        self.namespace(NAMESPACE)
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}")
        self.kubeconfig = self.api.kubeconfig(self._folder / "kubeconfig", token=self.api.token(PLATFORM, *groups))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.close()

    @property
    def settings(self) -> dict[str, str]:
        """What the platform's processes need to find this cluster."""
        return {
            "HAMI_KUBECONFIG": str(self.kubeconfig),
            "HAMI_POD_NAMESPACE": NAMESPACE,
            "HAMI_KUBE_QPS": "1000",
            "HAMI_KUBE_BURST": "1000",
        }

    def namespace(self, name: str) -> None:
        """Create one."""
        self.people.create("/api/v1/namespaces", {"metadata": {"name": name}})

    def node(self, name: str, cards: int, *, agent: bool = True) -> None:
        """A node of 80 GiB cards with our agent's mark (or, as HAMi's plugin leaves it, without), and the kubelet that
        runs its pods."""
        made = scenarios.Node(name, "NVIDIA A100-SXM4-80GB", cards, MEMORY_MIB)
        registered = made.as_registered()
        if not agent:
            del registered["labels"][scenarios.AGENT_LABEL]
        one = kubelet.Kubelet(
            self.api.url,
            name,
            inventory={scenarios.RESOURCE: made.shares},
            node=registered,
            shared=self._work,
        )
        one.start()
        self._over.callback(one.stop)

    def open(self, stand: Stand) -> None:
        """Ask the webhooks about pods, and let a scheduler with the extenders place them."""
        hooks, extenders = (Balancer([one.port for one in stand.of(role)]) for role in ("webhook", "extender"))
        for one in (hooks, extenders):
            self._over.callback(one.close)
        url = f"https://127.0.0.1:{hooks.port}/webhook"
        made = stand.manage("webhook_config", "--format", "json", "--url", url, "--ca-file", str(stand.authority))
        self.people.create(_HOOKS, msgspec.json.decode(made))
        config = extender.ExtenderConfig(f"http://127.0.0.1:{extenders.port}", managed_resources=MANAGED)
        self._over.enter_context(scheduler.Scheduler(self.api.url, extender_config=config))

    # -- pods -------------------------------------------------------------------------------------------------

    def create(self, namespace: str, name: str, mem: int, *, node: str = "") -> str:
        """Create a pod of one share; "" or why it was denied. One that finds webhooks, ledger or API server away is
        tried again, as a controller does."""
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                why = self.create_once(namespace, name, mem, node=node)
            except (client.ApiFailure, transport.TransportError):
                why = _AWAY
                if time.monotonic() > until:
                    raise
            if not any(text in why for text in (_AWAY, *_LATER)):
                return why
            time.sleep(0.1)

    def create_once(self, namespace: str, name: str, mem: int | None, *, node: str = "") -> str:
        """The same without another try; without mem a pod that asks for no device. Raises ApiFailure for any failure
        but a denial, TransportError."""
        try:
            self.made(namespace, name, mem, node=node)
        except client.ApiFailure as failure:
            if failure.reason == "AlreadyExists":  # an earlier try arrived although its answer did not
                return ""
            if "denied the request" not in failure.message:
                raise
            return failure.message
        return ""

    def made(
        self,
        namespace: str,
        name: str,
        mem: int | None,
        *,
        node: str = "",
        annotations: Mapping[str, str] | None = None,
    ) -> Obj:
        """The pod that was created. Raises ApiFailure, TransportError."""
        spec: Obj = {"containers": [_container(mem)], "terminationGracePeriodSeconds": 0}
        if node:
            spec["nodeSelector"] = {"kubernetes.io/hostname": node}
        meta = {"name": name, "namespace": namespace, "annotations": dict(annotations or {})}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        return self.people.create(client.path_of("pods", namespace), body)

    def delete(self, namespace: str, name: str) -> None:
        """Gone at once."""
        self.people.delete(client.path_of("pods", namespace, name), grace_s=0)

    def pods(self, namespace: str = "") -> list[Obj]:
        """All pods (of a namespace)."""
        found: list[Obj] = self.people.get(client.path_of("pods", namespace))["items"]
        return found

    def events(self) -> list[Obj]:
        """All events of pods."""
        found: list[Obj] = self.people.get(client.path_of("events", group="events.k8s.io"))["items"]
        return found

    def given(self) -> dict[str, Counter[str]]:
        """What each card gives to live pods, by their annotations alone: card → amounts."""
        cards: dict[str, Counter[str]] = {}
        for pod in self.pods():
            if pod["spec"].get("nodeName") and pod["status"].get("phase") not in ("Succeeded", "Failed"):
                for uuid, mib, percent in _allocated(pod):
                    cards.setdefault(uuid, Counter()).update(slots=1, memory_mib=mib, core_percent=percent)
        return cards


def over(given: dict[str, Counter[str]]) -> dict[str, Counter[str]]:
    """Cards that give more than they have."""
    most = {"slots": scenarios.SHARES, "memory_mib": MEMORY_MIB, "core_percent": 100}
    return {uuid: use for uuid, use in given.items() if any(use[name] > limit for name, limit in most.items())}


class Bound:
    """When each pod was first seen with a node, by a watch of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self.at: dict[tuple[str, str], float] = {}
        self._news = threading.Condition()
        self._mirror = client.Mirror(cluster.people, client.path_of("pods"), self._changed)

    def __enter__(self) -> Bound:
        self._mirror.start()
        self._mirror.synced.wait(30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._mirror.stop()

    def wait(self, what: str, holds: Callable[[], bool], timeout_s: float) -> None:
        """Until it holds, looked at whenever a pod is bound."""
        with self._news:
            assert self._news.wait_for(holds, timeout_s), f"not within {timeout_s:g} s: {what}"

    def _changed(self, before: Obj | None, after: Obj | None) -> None:
        if after is not None and after["spec"].get("nodeName"):
            meta = after["metadata"]
            with self._news:
                self.at.setdefault((meta["namespace"], meta["name"]), time.monotonic())
                self._news.notify_all()


def _container(mem: int | None) -> Obj:
    limits = {} if mem is None else {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(mem)}
    return {"name": "main", "image": "fake", "resources": {"limits": limits}}


def _allocated(pod: Obj) -> Iterator[tuple[str, int, int]]:
    """(card, MiB, percent) of each share, read without the platform's codec."""
    text = (pod["metadata"].get("annotations") or {}).get("hami.io/vgpu-devices-allocated", "")
    for share in text.replace(";", ":").split(":"):
        if share:
            uuid, _, mib, percent = share.split(",")[:4]
            yield uuid, int(mib), int(percent)
