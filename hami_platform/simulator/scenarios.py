"""Clusters as data: nodes with cards, namespaces with native quotas, pods, and a stream of pods that come and go.

`seeded` makes one from a number, always the same; a JSON file of the same shape can be read with `read`. Values and
generators only: who applies them is `crowd` and `__main__`. Knows nothing of the platform beyond the wire formats.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from hami_platform.domain import devices
from hami_platform.domain.wire import node_register

Obj = dict[str, Any]
VENDOR = "NVIDIA"
REGISTER_KEY = "hami.io/node-nvidia-register"
AGENT_LABEL = "platform.hami.io/agent"
RESOURCE = "nvidia.com/gpu"
SHARES = 10  # source: HAMi v2.10.0, device-config.yaml, deviceSplitCount
MODELS = (
    ("NVIDIA A100-SXM4-80GB", 81920),
    ("NVIDIA H100 80GB HBM3", 81559),
    ("NVIDIA L40S", 46068),
    ("NVIDIA-Tesla T4", 15360),
)


@dataclass(frozen=True, slots=True)
class Node:
    """A node with `cards` of one model; `unhealthy` holds indexes of broken ones."""

    name: str
    model: str
    cards: int
    memory_mib: int
    unhealthy: tuple[int, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)

    def uuid(self, index: int) -> str:
        """A card's uuid: the same in every run."""
        return f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{index}.{self.name}.simulated')}"

    def registered(self) -> tuple[devices.Device, ...]:
        """The cards as an agent would register them."""
        return tuple(
            devices.Device(
                uuid=self.uuid(index),
                index=index,
                vendor=VENDOR,
                model=self.model,
                memory_mib=self.memory_mib,
                core_percent=100,
                slots=SHARES,
                numa=index * 2 // self.cards,
                mode="hami-core",
                healthy=index not in self.unhealthy,
            )
            for index in range(self.cards)
        )

    def as_registered(self) -> Obj:
        """Labels and annotations of a node whose agent has registered, for nodes that have none."""
        labels = {AGENT_LABEL: "simulated", **self.labels}
        return {"labels": labels, "annotations": {REGISTER_KEY: node_register.encode(self.registered())}}

    @property
    def shares(self) -> int:
        """What the node advertises to the kubelet when all cards are counted."""
        return SHARES * (self.cards - len(self.unhealthy))

    def inventory(self) -> Obj:
        """The agent's inventory file."""
        return {"devices": [self._card(device) for device in self.registered()]}

    def _card(self, device: devices.Device) -> Obj:
        return {
            "uuid": device.uuid,
            "index": device.index,
            "model": device.model,
            "memory_mib": device.memory_mib,
            "numa": device.numa,
            "health": "healthy" if device.healthy else "unhealthy",
        }


@dataclass(frozen=True, slots=True)
class Ask:
    """A pod in short: amounts are for each device; `run_s` simulated seconds, None: it stays."""

    namespace: str
    name: str
    devices: int = 1
    memory_mib: int | None = None
    core_percent: int | None = None
    init_memory_mib: int | None = None
    run_s: int | None = None
    annotations: dict[str, str] = field(default_factory=dict)

    def pod(self) -> Obj:
        """The manifest."""
        notes = dict(self.annotations)
        if self.run_s is not None:
            notes |= {"simulator/run-for": str(self.run_s), "simulator/stop-for": "10"}
        spec: Obj = {"containers": [self._container("main", self.memory_mib)]}
        if self.init_memory_mib is not None:
            spec["initContainers"] = [self._container("fetch", self.init_memory_mib)]
            notes.setdefault("simulator/init-for", "60")
        if self.run_s is not None:
            spec["restartPolicy"] = "Never"
        meta = {"name": self.name, "namespace": self.namespace, "annotations": notes}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}

    def _container(self, name: str, memory_mib: int | None) -> Obj:
        amounts = {RESOURCE: self.devices, f"{RESOURCE}mem": memory_mib, f"{RESOURCE}cores": self.core_percent}
        limits = {key: str(amount) for key, amount in amounts.items() if amount is not None}
        return {"name": name, "image": "workload:1", "resources": {"limits": limits, "requests": {"cpu": "100m"}}}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A whole cluster. `quotas` are the `hard` maps of native ResourceQuota objects by namespace."""

    seed: int
    nodes: tuple[Node, ...]
    namespaces: tuple[str, ...]
    quotas: dict[str, dict[str, str]] = field(default_factory=dict)
    pods: tuple[Ask, ...] = ()
    at_once: int = 16  # pods of the stream that may be there at a time

    def stream(self) -> Iterator[tuple[float, Ask]]:
        """Without end: (simulated seconds to wait, the next pod); the same for the same seed."""
        dice = random.Random(f"stream {self.seed}")  # noqa: S311 - the same pods in every run
        number = 0
        while True:
            number += 1
            yield dice.expovariate(1 / 60), _ask(dice, self.namespaces, f"guest-{number}", dice.randint(300, 3600))

    def objects(self) -> Iterator[tuple[str, str, Obj]]:
        """(plural, namespace, body) of namespaces and quotas, in the order to create them."""
        for name in self.namespaces:
            yield "namespaces", "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for namespace, hard in self.quotas.items():
            body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpu"}, "spec": {"hard": hard}}
            yield "resourcequotas", namespace, body


def read(path: Path) -> Scenario:
    """A scenario from a JSON file. Raises msgspec.ValidationError, which names the field."""
    return msgspec.json.decode(path.read_bytes(), type=Scenario)


def seeded(seed: int, *, nodes: int = 6, cards: int = 40, namespaces: int = 8, pods: int = 60) -> Scenario:
    """A scenario from a number: cards spread over nodes of mixed models, one of them broken, pods of mixed sizes."""
    dice = random.Random(f"scenario {seed}")  # noqa: S311 - the same cluster in every run
    names = tuple(f"team-{number}" for number in range(namespaces))
    made = tuple(_node(dice, number, cards // nodes + (number < cards % nodes)) for number in range(nodes))
    asks = tuple(_ask(dice, names, f"resident-{number}", None) for number in range(pods))
    hard = {name: {f"limits.{RESOURCE}mem": str(dice.randrange(100, 1000) * 1024)} for name in names[::2]}
    return Scenario(seed, made, names, hard, asks)


def _node(dice: random.Random, number: int, cards: int) -> Node:
    model, memory_mib = dice.choice(MODELS)
    return Node(f"gpu-{number}", model, cards, memory_mib, unhealthy=(0,) if number == 1 and cards > 1 else ())


def _ask(dice: random.Random, namespaces: tuple[str, ...], name: str, run_s: int | None) -> Ask:
    memory_mib = dice.choice((1024, 2048, 4096, 8192))
    return Ask(
        namespace=dice.choice(namespaces),
        name=name,
        devices=dice.choice((1, 1, 1, 1, 1, 2, 2, 4)),
        memory_mib=memory_mib,
        core_percent=dice.choice((5, 10, 20)),
        init_memory_mib=2 * memory_mib if dice.random() < 0.2 else None,
        run_s=run_s,
    )


def agent_environment(node: Node, *, home: Path, sockets: Path, kubeconfig: Path) -> Mapping[str, str]:
    """Settings of a real agent for a node; writes its inventory file into `home`."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    inventory = home / "inventory.json"
    inventory.write_bytes(msgspec.json.encode(node.inventory()))
    return {
        "HAMI_ROLE": "agent",
        "HAMI_NODE_NAME": node.name,
        "HAMI_INVENTORY_FILE": str(inventory),
        "HAMI_KUBELET_DIR": str(sockets / node.name),
        "HAMI_STATE_DIR": str(home),
        "HAMI_HOOK_PATH": str(home),
        "HAMI_KUBECONFIG": str(kubeconfig),
    }
