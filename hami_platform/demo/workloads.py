"""The pods of the demonstration: those that stay, seven that wait for seven reasons, and a stream that comes and goes.

Values only. What they ask for is chosen so that the seven cannot be placed while the others run.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from hami_platform.demo import fleet

Obj = dict[str, Any]
TYPE: Final = "nvidia.com/use-gputype"
MODE: Final = "nvidia.com/vgpu-mode"
UUID: Final = "nvidia.com/use-gpuuuid"
STREAM_LABEL: Final = "demo/stream"
IMAGE: Final = "registry.example/workload:1"


@dataclass(frozen=True, slots=True)
class Ask:
    """A pod in short. memory_mib and cores are for each device; minutes are the cluster's; None: it stays."""

    namespace: str
    name: str
    memory_mib: int
    cores: int
    devices: int = 1
    model: str = ""
    notes: dict[str, str] = field(default_factory=dict)
    node: str = ""
    init_memory_mib: int = 0
    minutes: float | None = None
    owner: str = ""

    def pod(self) -> Obj:
        """As a manifest."""
        notes = dict(self.notes) | ({TYPE: self.model} if self.model else {})
        if self.minutes is not None:
            notes |= {"simulator/run-for": str(round(self.minutes * 60)), "simulator/stop-for": "120"}
        if self.init_memory_mib:
            notes["simulator/init-for"] = "600"
        labels = {"app": self.name.rpartition("-")[0] or self.name}
        if self.minutes is not None:
            labels[STREAM_LABEL] = "true"
        meta: Obj = {"name": self.name, "namespace": self.namespace, "labels": labels, "annotations": notes}
        if self.owner:
            meta["ownerReferences"] = [_owner(self.owner)]
        spec: Obj = {"containers": [_container("main", self.devices, self.memory_mib, self.cores)]}
        if self.minutes is not None:
            spec["restartPolicy"] = "Never"
        if self.init_memory_mib:
            spec["initContainers"] = [_container("fetch-weights", self.devices, self.init_memory_mib, self.cores)]
        if self.node:
            spec["nodeSelector"] = {"kubernetes.io/hostname": self.node}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _container(name: str, devices: int, memory_mib: int, cores: int) -> Obj:
    limits = {"nvidia.com/gpu": str(devices), "nvidia.com/gpumem": str(memory_mib), "nvidia.com/gpucores": str(cores)}
    return {"name": name, "image": IMAGE, "resources": {"limits": limits, "requests": {"cpu": "100m"}}}


def _owner(name: str) -> Obj:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": name,
        "uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.demo")),
        "controller": True,
    }


_SHARED: Final = {MODE: "hami-core"}
_SLICED: Final = {MODE: "mig"}

# Together they put a share on every usable card, and two instances on every card in MIG mode.
FOUNDATION: Final = (
    Ask("llm-train", "pretrain-7b-0", 40960, 60, devices=8, model="H100"),
    Ask("imaging", "segmentation-0", 45056, 40, devices=8, model="A100", notes=_SHARED),
    Ask("nlp", "distill-0", 45056, 40, devices=7, model="A100", notes=_SHARED),
    Ask("recsys", "ranker-0", 20480, 40, devices=7, model="L40S"),
    *(Ask("search", f"embedder-{n}", 9216, 30, model="T4") for n in range(4)),
    *(Ask("batch", f"slice-large-{n}", 18432, 0, model="A100", notes=_SLICED) for n in range(4)),
    *(Ask("notebooks", f"slice-small-{n}", 9216, 0, model="A100", notes=_SLICED) for n in range(4)),
)
RESIDENTS: Final = (
    *(Ask("nlp", f"qa-api-{n}", 6144, 5, model="A100,H100", notes=_SHARED) for n in range(6)),
    *(Ask("imaging", f"viewer-{n}", 4096, 5, model="A100", notes=_SHARED) for n in range(4)),
    *(Ask("robotics", f"sim-{n}", 8192, 10, model="L40S", init_memory_mib=10240) for n in range(8)),
    *(Ask("recsys", f"candidates-{n}", 6144, 5, model="L40S,H100") for n in range(4)),
    *(Ask("search", f"reranker-{n}", 8192, 5, model="L40S,H100") for n in range(4)),
    *(Ask("batch", f"etl-{n}", 4096, 5, notes=_SHARED) for n in range(4)),
)
WAITING: Final = (
    Ask("batch", "whole-card-0", 73728, 10),
    Ask("batch", "busy-cores-0", 2048, 80),
    Ask("batch", "half-slice-0", 40000, 0, notes=_SLICED, node=fleet.MIG_NODE),
    Ask("batch", "sixteen-way-0", 4096, 5, devices=16, notes=_SHARED),
    Ask("imaging", "newer-model-0", 4096, 5, model="H200"),
    Ask("llm-train", "evaluate-0", 8192, 10, devices=8, model="H100"),
    Ask(
        "robotics",
        "same-card-0",
        4096,
        5,
        notes={UUID: fleet.BY_NAME[fleet.CORDONED[0]].uuid(fleet.CORDONED[1])},
    ),
)
"""Memory, cores, MIG geometry, never fits, model, quota with a gate, cordoned card."""

DENIED: Final = Ask("recsys", "ranker-canary-0", 20480, 40, devices=7, model="L40S", owner="ranker-canary")
"""Over its namespace's quota, which is enforced: it asks again and again, as a controller would."""

_GUESTS: Final[tuple[tuple[str, str, int, tuple[int, ...], int, str, dict[str, str]], ...]] = (
    # namespace, name, most at a time, MiB, cores, model, notes
    ("nlp", "batch-score", 5, (2048, 4096), 5, "A100,H100", _SHARED),
    ("imaging", "thumbnail", 3, (2048,), 5, "A100", _SHARED),
    ("recsys", "backfill", 4, (2048, 4096), 5, "H100,L40S", {}),
    ("batch", "report", 5, (2048, 4096, 6144), 5, "", _SHARED),
    ("notebooks", "jupyter", 4, (2048, 4096), 5, "H100,L40S", {}),
)
GUESTS_AT_ONCE: Final = 16


def stream(seed: int) -> Iterator[Ask]:
    """Without end: the next pod that somebody would like to run."""
    dice = random.Random(f"stream {seed}")  # noqa: S311 - the same pods in every run
    number = 0
    while True:
        namespace, name, _, sizes, cores, model, notes = dice.choice(_GUESTS)
        number += 1
        yield Ask(
            namespace,
            f"{name}-{number}",
            dice.choice(sizes),
            cores,
            model=model,
            notes=dict(notes),
            init_memory_mib=8192 if dice.random() < 0.25 and namespace != "notebooks" else 0,
            minutes=dice.uniform(20, 90),
        )


def most_at_once(namespace: str) -> int:
    """How many pods of the stream a namespace runs at a time, so that its quota holds them."""
    return next(most for name, _, most, *_ in _GUESTS if name == namespace)
