"""Builders with defaults: each test shows only what matters to it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deviceplugin import inventory
from hami_platform.domain import devices
from hami_platform.kube import objects

GPU_A = "GPU-aaaaaaaa-0000-0000-0000-000000000001"
GPU_B = "GPU-bbbbbbbb-0000-0000-0000-000000000002"
NODE = "n1"


def card(uuid: str = GPU_A, **facts: Any) -> inventory.Card:
    """A healthy card of 24576 MiB."""
    return inventory.Card(**dict[str, Any](uuid=uuid, index=0, model="NVIDIA A10", memory_mib=24576) | facts)


def profile(name: str = "1g.5gb", instances: int = 7, starts: Sequence[int] = range(7)) -> inventory.CardProfile:
    """A MIG profile of one slice."""
    places = tuple(devices.MigPlacement(start, 1) for start in starts)
    return inventory.CardProfile(devices.MigProfile(name, 4864, 15, 1, places), instances)


def device_record(uuid: str = GPU_A, **facts: Any) -> dict[str, Any]:
    """One device of an inventory file."""
    return {"uuid": uuid, "model": "NVIDIA A10", "memory_mib": 24576} | facts


def inventory_file(folder: Path, *records: dict[str, Any]) -> Path:
    """Write an inventory file; again to change it."""
    path = folder / "inventory.json"
    path.write_text(json.dumps({"devices": list(records or (device_record(),))}))
    return path


def row(*parts: tuple[str, int, int]) -> str:
    """One container's row: (uuid, MiB, percent) each."""
    return "".join(f"{uuid},NVIDIA,{memory},{cores}:" for uuid, memory, cores in parts) + ";"


def pod(
    name: str = "train",
    rows: str | None = row((GPU_A, 3000, 30)),
    *,
    containers: Sequence[str] = ("main",),
    inits: Sequence[str] = (),
    annotations: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    asks: int = 1,
    **changes: Any,
) -> dict[str, Any]:
    """A pod as the API server shows it, bound to NODE by the platform and waiting for its devices."""
    bound = {"hami.io/bind-phase": "allocating", "hami.io/vgpu-node": NODE, "hami.io/bind-time": "1790000000"}
    notes = bound | {"hami.io/vgpu-devices-to-allocate": rows} if rows is not None else {}
    variables = [{"name": key, "value": value} for key, value in (env or {}).items()]
    limits = {"limits": {"nvidia.com/gpu": str(asks)}}
    return {
        "metadata": {
            "name": name,
            "namespace": "nlp",
            "uid": f"uid-{name}",
            "annotations": {**notes, **(annotations or {})},
            **changes.pop("metadata", {}),
        },
        "spec": {
            "nodeName": NODE,
            "initContainers": [{"name": one, "resources": limits} for one in inits],
            "containers": [{"name": one, "env": variables, "resources": limits} for one in containers],
        },
        "status": {"phase": "Pending", **changes.pop("status", {})},
    }


def typed(value: dict[str, Any]) -> objects.Pod:
    """The same pod as the client decodes it."""
    return objects.decode(json.dumps(value).encode(), objects.Pod)


def running(name: str = "main") -> dict[str, Any]:
    """A status in which this container has started."""
    return {"containerStatuses": [{"name": name, "state": {"running": {}}}]}


def node(**metadata: Any) -> dict[str, Any]:
    """The node of these tests."""
    return {"metadata": {"name": NODE, "annotations": {}, "labels": {}} | metadata}
