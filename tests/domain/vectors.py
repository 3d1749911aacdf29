"""Reads golden vectors (decisions recorded from HAMi v2.10.0) into our values, by hand and without our codecs.

The format: nodes, pods and quotas are Kubernetes objects; `expect.steps[0]` is what HAMi answered, `corrected.steps[0]`
what it answers with known faults repaired. Only what a placement needs is read.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hami_platform.domain.devices import ContainerKind, Device, DeviceKey, Held, MigPlacement, MigProfile, MigUse, Share
from hami_platform.domain.nodes import DeviceState, NodeState
from hami_platform.domain.place import Decision, Defaults, place
from hami_platform.domain.quota import Amounts, Headroom, Limits, Rule, Selector
from hami_platform.domain.requests import Constraints, ContainerRequest, DeviceRequest, PodRequest, Weights
from hami_platform.domain.trial import Sequence

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "nvidia"
Json = dict[str, Any]
KINDS = ContainerKind


@dataclass(frozen=True)
class Outcome:
    """A decision in comparable form: node and rows (uuid, MiB, core %) per container, or the refusal text per node."""

    node: str | None
    rows: tuple[tuple[tuple[str, int, int], ...], ...] = ()
    refusals: tuple[tuple[str, str], ...] = ()


def load(name: str) -> list[Json]:
    """The vectors of one file."""
    return json.loads((GOLDEN / name).read_text())["vectors"]  # type: ignore[no-any-return]


def recorded(vector: Json) -> list[Outcome]:
    """HAMi's answer (the repaired one where there is one) and the others it was seen to give."""
    steps = (vector.get("corrected") or vector["expect"])["steps"]
    others = [other["steps"] for other in vector["expect"].get("alternatives", ())] if "corrected" not in vector else []
    return [_outcome(answer[0]) for answer in (steps, *others)]


def decide(vector: Json) -> Decision:
    """Our decision on the vector's first filter step; every fitting node is tried."""
    step = vector["new"][0]
    nodes = {n["metadata"]["name"]: n for n in vector["nodes"]}
    held = _held([p for p in vector["pods"] if p["metadata"]["uid"] != step["pod"]["metadata"]["uid"]])
    known = {name: state for name, n in nodes.items() if (state := _node(name, n, held)) is not None}
    pod, factor = step["pod"], 2 if vector["config"]["devices"] == "nv-factor2" else 1
    flags = vector["config"]["flags"]
    return place(
        known,
        step.get("nodeNames", list(nodes)),
        request_of(pod, vector["config"]["devices"], factor),
        headroom=_headroom(vector, pod["metadata"], factor),
        defaults=Defaults(flags.get("nodePolicy", "binpack"), flags.get("gpuPolicy", "spread")),
        fit_all=True,
    )


def outcome_of(decision: Decision, containers: int) -> Outcome:
    """Our decision in comparable form."""
    if decision.placement is None:
        texts = {name: rejection.text() for name, rejection in decision.rejections.items()}
        return Outcome(None, (), tuple(sorted(texts.items())))
    rows: list[list[tuple[str, int, int]]] = [[] for _ in range(containers)]
    for share in decision.placement.shares:
        rows[share.container_index].append((share.uuid, share.memory_mib, share.core_percent))
    return Outcome(decision.placement.node, tuple(tuple(row) for row in rows))


def container_count(vector: Json) -> int:
    """Containers of the asking pod, init containers included."""
    return len(list(_containers(vector["new"][0]["pod"])))


def request_of(pod: Json, config: str = "chart", factor: int = 1) -> PodRequest:
    """A pod's request; quantities in the vectors used here are plain integers."""
    containers = tuple(
        ContainerRequest(c["name"], kind, _asks(c.get("resources", {}), config, factor)) for c, kind in _containers(pod)
    )
    return PodRequest(containers, _constraints(pod["metadata"].get("annotations", {})))


def _outcome(step: Json) -> Outcome:
    if "failedNodes" in step:
        return Outcome(None, (), tuple(sorted(step["failedNodes"].items())))
    if not step.get("annotations"):
        return Outcome(None)
    text = step["annotations"].get("hami.io/vgpu-devices-allocated", "")
    rows = tuple(tuple((u, int(m), int(c)) for u, _, m, c in _entries(part)) for part in text.split(";")[:-1])
    return Outcome(step["nodeNames"][0], rows)


def _entries(row: str) -> list[list[str]]:
    return [entry.split(",") for entry in row.split(":") if entry]


def _node(name: str, node: Json, held: dict[tuple[str, str], Held]) -> NodeState | None:
    annotations = node["metadata"].get("annotations", {})
    try:
        raw = json.loads(annotations["hami.io/node-nvidia-register"])
    except (KeyError, ValueError):
        return None
    cordoned = {part.strip() for part in annotations.get("hami.io/device-cordon", "").split(",")}
    states = [DeviceState(_device(d, cordoned=d["id"] in cordoned), held.get((name, d["id"]), Held())) for d in raw]
    return NodeState.of(name, states, pair_scores=_pairs(annotations.get("hami.io/node-nvidia-score", "[]")))


def _device(raw: Json, *, cordoned: bool) -> Device:
    return Device(
        raw["id"], raw.get("index", 0), "NVIDIA", raw["type"], raw.get("devmem", 0), raw.get("devcore", 0),
        raw.get("count", 0), raw.get("numa", 0), raw.get("mode", ""), raw.get("health", False),
        tuple(_profile(p) for p in raw.get("migProfiles") or ()), cordoned,
    )  # fmt: skip


def _profile(raw: Json) -> MigProfile:
    places = tuple(MigPlacement(p.get("start", 0), p["size"]) for p in raw.get("placements", ()))
    return MigProfile(raw["name"], raw["memoryMB"], raw.get("core", 0), raw.get("sliceCount", 0), places)


def _pairs(text: str) -> dict[tuple[str, str], int]:
    try:
        return {(row["uuid"], other): value for row in json.loads(text) for other, value in row["score"].items()}
    except ValueError:
        return {}


def _held(pods: list[Json]) -> dict[tuple[str, str], Held]:
    """What the live pods hold, by (node, uuid)."""
    sums: dict[tuple[str, str], Held] = {}
    for pod in pods:
        for (_, uuid), amount in _holding(pod).items():
            where = (pod["metadata"]["annotations"]["hami.io/vgpu-node"], uuid)
            sums[where] = sums.get(where, Held()) + amount
    return sums


def _holding(pod: Json) -> dict[DeviceKey, Held]:
    annotations = pod["metadata"].get("annotations", {})
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed") or "hami.io/vgpu-node" not in annotations:
        return {}
    sequence = Sequence()
    rows = annotations.get("hami.io/vgpu-devices-allocated", "").split(";")[:-1]
    for (i, row), (c, kind) in zip(enumerate(rows), _containers(pod), strict=False):
        sequence.add(kind, [Share(i, c["name"], kind, "NVIDIA", u, int(m), int(p)) for u, _, m, p in _entries(row)])
    holding = dict(sequence.held())
    for mig in json.loads(annotations.get("hami.io/vgpu-mig-allocations") or "[]"):
        key = ("NVIDIA", mig["gpuUUID"])
        use = MigUse(mig["profile"], MigPlacement(mig["placement"]["start"], mig["placement"]["size"]))
        holding[key] = holding.get(key, Held()) + Held(mig=(use,))
    return holding


def _containers(pod: Json) -> Iterator[tuple[Json, ContainerKind]]:
    for c in pod["spec"].get("initContainers", ()):
        yield c, KINDS.SIDECAR if c.get("restartPolicy") == "Always" else KINDS.INIT
    for c in pod["spec"]["containers"]:
        yield c, KINDS.APP


def _asks(resources: Json, config: str, factor: int) -> tuple[DeviceRequest, ...]:
    values = {**resources.get("requests", {}), **resources.get("limits", {})}
    count = int(values.get("nvidia.com/gpu", 0))
    memory = int(values.get("nvidia.com/gpumem", 0)) * factor
    percent = min(int(values.get("nvidia.com/gpumem-percentage", 0)), 100)
    defaults = (5000, 30) if config == "nv-defaults" else (0, 0)
    if memory == 0 and percent <= 0:
        memory, percent = defaults[0], 0 if defaults[0] else 100
    cores = int(values.get("nvidia.com/gpucores", defaults[1]))
    return (DeviceRequest("NVIDIA", count, memory, percent if percent > 0 else None, cores),) if count else ()


def _constraints(annotations: dict[str, str]) -> Constraints:
    return Constraints(
        node_policy=annotations.get("hami.io/node-scheduler-policy"),
        device_policy=annotations.get("hami.io/gpu-scheduler-policy"),
        use_models=_list(annotations.get("nvidia.com/use-gputype")),
        nouse_models=_list(annotations.get("nvidia.com/nouse-gputype")),
        use_uuids=_list(annotations.get("nvidia.com/use-gpuuuid")),
        nouse_uuids=_list(annotations.get("nvidia.com/nouse-gpuuuid")),
        numa_bind=annotations.get("nvidia.com/numa-bind") in ("1", "t", "T", "TRUE", "true", "True"),
        vgpu_mode=annotations.get("nvidia.com/vgpu-mode"),
        weights=_weights(annotations.get("hami.io/device-scoring-weights")),
    )


def _list(text: str | None) -> tuple[str, ...] | None:
    if text is None or not text.strip():
        return None
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _weights(text: str | None) -> Weights:
    if text is None:
        return Weights()
    return Weights(**{key.strip(): int(value) for key, value in (part.split("=") for part in text.split(","))})


def _headroom(vector: Json, asking: Json, factor: int) -> Headroom:
    namespace = asking.get("namespace", "default")
    used = Amounts()
    for pod in vector["pods"]:
        meta = pod["metadata"]
        if meta.get("namespace", "default") == namespace and meta["uid"] != asking["uid"]:
            for amount in _holding(pod).values():
                used += Amounts(amount.slots, amount.memory_mib, amount.core_percent)
    rules = tuple(
        (Rule(q["name"], Selector("NVIDIA"), _limits(q["hard"], factor)), used)
        for q in vector["quotas"]
        if q["namespace"] == namespace
    )
    return Headroom(rules)


def _limits(hard: dict[str, str], factor: int) -> Limits:
    memory, cores = hard.get("limits.nvidia.com/gpumem"), hard.get("limits.nvidia.com/gpucores")
    return Limits(
        memory_mib=None if memory is None else int(memory) * factor, core_percent=None if cores is None else int(cores)
    )
