"""Fake nodes and pods as the API takes them.

A node carries the register annotation of its devices, advertises what a device plugin would, and by
default our agent's mark, so that node locks are ledger rows.
Must not know: how they are placed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Object = dict[str, Any]

REGISTER = "hami.io/node-nvidia-register"
AGENT = "platform.hami.io/agent"
MODEL = "NVIDIA A100-SXM4-80GB"
MEMORY_MIB = 81920
SLOTS = 10


def device_uuid(node: str, index: int) -> str:
    """The uuid of a fake node's card: readable, and never the same on two nodes."""
    return f"GPU-{node}-{index}"


def register(node: str, count: int) -> str:
    """The register annotation of `count` whole cards, in the JSON that HAMi v2.10 writes.

    Zero values are absent on the wire: no index means 0. Written by hand and not by the product's
    codec, so that a codec that misreads what it writes itself does not pass.
    """
    cards = [
        {
            "id": device_uuid(node, index),
            **({"index": index} if index else {}),
            "count": SLOTS,
            "devmem": MEMORY_MIB,
            "devcore": 100,
            "type": MODEL,
            "mode": "hami-core",
            "health": True,
        }
        for index in range(count)
    ]
    return json.dumps(cards, separators=(",", ":"))


def gpu_node(name: str, *, gpus: int = 8, agent: bool = True, labels: Mapping[str, str] | None = None) -> Object:
    """A node with `gpus` cards; agent=False leaves the mark out, as where HAMi's plugin runs."""
    marks = {AGENT: "0.1.0"} if agent else {}
    resources = {"nvidia.com/gpu": str(gpus * SLOTS)}
    node = plain_node(name, labels={"gpu": "on", **marks, **(labels or {})}, resources=resources)
    node["metadata"]["annotations"][REGISTER] = register(name, gpus)
    return node


def plain_node(
    name: str, *, labels: Mapping[str, str] | None = None, resources: Mapping[str, str] | None = None
) -> Object:
    """A kwok node. Its POST takes the status too, so its resources need no second request."""
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "500", "ephemeral-storage": "1Ti", **(resources or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {
                "type": "kwok",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                **(labels or {}),
            },
        },
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "nodeInfo": {"architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": "fake"},
        },
    }


def ready(node: Object) -> Object:
    """The same node, Ready already in its POST: for a large control plane, where nobody else says so."""
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "fake"}
    return {**node, "status": {**node["status"], "conditions": [condition]}}


def container(name: str = "main", **limits: int | str) -> Object:
    """A container; keywords are limits: gpu, gpumem, gpucores, gpumem_percentage become nvidia.com/…."""
    named = {f"nvidia.com/{key.replace('_', '-')}": str(value) for key, value in limits.items()}
    return {"name": name, "image": "example/fake", "resources": {"limits": named} if named else {}}


def pod(
    name: str,
    *containers: Object,
    init: Sequence[Object] = (),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A pod that ends without grace, since no kubelet would use it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels or {}), "annotations": dict(annotations or {})},
        "spec": {
            "containers": list(containers) or [container()],
            **({"initContainers": list(init)} if init else {}),
            "terminationGracePeriodSeconds": 0,
            **spec,
        },
    }


MANUAL = {"e2e/manual": "true"}
"""Labels of a pod whose statuses the test writes; stages.yaml leaves it alone."""

BEHIND_PLUGIN = {"e2e/plugin": "true"}
"""Labels of a pod that starts once its bind-phase says success."""


def is_ready(node: Object) -> bool:
    """Ready, and without the taint that every new node gets and the node controller takes off."""
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and not node["spec"].get("taints")
