"""Builders of API objects, as the API server shows them, with defaults so that each test says only what matters."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from hami_platform.domain.devices import Device
from hami_platform.domain.vendors import registry
from hami_platform.domain.wire import node_register
from tests import builders

CONFIG = registry.default_config()
_versions = itertools.count(1000)


def container(
    name: str = "main",
    *,
    sidecar: bool = False,
    gpu: int | None = 1,
    mem: int | None = None,
    cores: int | None = None,
    pct: int | None = None,
) -> dict[str, Any]:
    """A container with NVIDIA limits; gpu None asks for no count."""
    amounts = {"gpu": gpu, "gpumem": mem, "gpucores": cores, "gpumem-percentage": pct}
    limits = {f"nvidia.com/{key}": str(value) for key, value in amounts.items() if value is not None}
    one: dict[str, Any] = {"name": name, "image": "busybox", "resources": {"limits": limits}}
    return one | ({"restartPolicy": "Always"} if sidecar else {})


def pod(
    name: str = "p1",
    *containers: dict[str, Any],
    namespace: str = "nlp",
    inits: Sequence[dict[str, Any]] = (),
    uid: str = "",
    node: str = "",
    annotations: Mapping[str, str] | None = None,
    claim: str = "",
    phase: str = "Pending",
    statuses: Mapping[str, Mapping[str, Any]] | None = None,
    deleting: bool = False,
    gated: bool = False,
    version: int | None = None,
    **mem: Any,
) -> dict[str, Any]:
    """A pod; statuses maps container name to its state, as `running()` and `terminated()` make it."""
    notes = dict(annotations or {}) | ({"platform.hami.io/claim": claim} if claim else {})
    meta: dict[str, Any] = {
        "name": name, "namespace": namespace, "uid": uid or f"uid-{name}", "annotations": notes,
        "resourceVersion": str(version if version is not None else next(_versions)),
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T01:00:00Z"
    spec: dict[str, Any] = {
        "containers": list(containers) or [container(**mem)],
        "initContainers": list(inits),
        "schedulerName": "hami-scheduler",
    }
    if node:
        spec["nodeName"] = node
    if gated:
        spec["schedulingGates"] = [{"name": "platform.hami.io/quota"}]
    names = {one["name"] for one in inits}
    shown = [{"name": who, **state} for who, state in (statuses or {}).items()]
    status = {
        "phase": phase,
        "initContainerStatuses": [one for one in shown if one["name"] in names],
        "containerStatuses": [one for one in shown if one["name"] not in names],
    }
    return {"metadata": meta, "spec": spec, "status": status}


def running() -> dict[str, Any]:
    """The status of a container that runs."""
    return {"started": True, "state": {"running": {"startedAt": "2026-01-01T00:00:01Z"}}}


def terminated(code: int = 0) -> dict[str, Any]:
    """The status of a container that ended."""
    return {"started": False, "state": {"terminated": {"exitCode": code}}}


def node(
    name: str = "n1",
    *devices: Device,
    agent: str = "1.0",
    allocatable: int = 10,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A node that registers these devices (default one of 24 GiB)."""
    registered = devices or (builders.device(f"GPU-{name}"),)
    notes = {"hami.io/node-nvidia-register": node_register.encode(registered)} | dict(annotations or {})
    labels = {"platform.hami.io/agent": agent} if agent else {}
    return {
        "metadata": {
            "name": name,
            "uid": f"node-{name}",
            "annotations": notes,
            "labels": labels,
            "resourceVersion": "1",
        },
        "spec": {},
        "status": {"allocatable": {"nvidia.com/gpu": str(allocatable)}},
    }
