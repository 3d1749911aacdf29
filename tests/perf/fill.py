"""Fills an empty database with a cluster of a given size: `python -m tests.perf.fill NODES DEVICES PODS`.

A process of its own with the product's settings, so that what is measured starts from rows, not from this process's
memory.
"""

from __future__ import annotations

import os
import random
import sys
from typing import Any

import django


def main(node_count: int, device_count: int, pod_count: int, seed: int = 7) -> None:
    """Write nodes, their devices, and running pods of 4 GiB or 8 GiB spread over them; mark the ledger as compared."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hami_platform.settings")
    django.setup()
    from accounting import ledger

    draw = random.Random(seed)
    with ledger.transaction(cause="fill") as entry:
        _inventory(entry, node_count, device_count)
        _pods(entry, node_count, device_count, pod_count, draw)
        ledger.compared_set(entry)


def _inventory(entry: Any, node_count: int, device_count: int) -> None:
    from accounting import bulk
    from accounting.models import Device, Node

    cluster = entry.clock.cluster_id
    bulk.insert(Node, ("cluster_id", "name", "agent"), ((cluster, f"n{i}", "1") for i in range(node_count)))
    keys = Node.objects.filter(cluster=cluster).values_list("pk", "name")
    columns = ("cluster_id", "node_id", "vendor", "uuid", "index", "model", "memory_mib", "core_percent", "slots")
    rows = (
        (cluster, node, "NVIDIA", f"GPU-{name}-{k}", k, "NVIDIA A100", 40960, 100, 10, k // 4, "hami-core")
        for node, name in keys
        for k in range(device_count)
    )
    bulk.insert(Device, (*columns, "numa", "mode"), rows)
    entry.record("node", "n0", filled=node_count)


def _pods(entry: Any, node_count: int, device_count: int, pod_count: int, draw: random.Random) -> None:
    from accounting import bulk
    from accounting.models import Namespace, Pod, PodState, Share
    from hami_platform.domain import devices, requests
    from hami_platform.domain.wire import pod_request

    cluster = entry.clock.cluster_id
    names = [f"team{i}" for i in range(20)]
    for name in names:
        row = Namespace(cluster_id=cluster, name=name)
        row._change_reason = "fill"  # type: ignore[attr-defined]
        row.save()
    ask = requests.DeviceRequest("NVIDIA", 1, 4096, None, 10)
    request = pod_request.encode(
        requests.PodRequest((requests.ContainerRequest("main", devices.ContainerKind.APP, (ask,)),))
    )
    facts = {"phase": "Running", "deleting": False, "bound": True, "containers": {"main": ["running", None, True]}}
    where = [(draw.randrange(node_count), draw.randrange(device_count)) for _ in range(pod_count)]
    columns = ("cluster_id", "uid", "namespace", "name", "state", "request", "node", "facts", "state_at")
    pods = (
        (cluster, f"held-{i}", names[i % 20], f"held-{i}", PodState.RUNNING.value, request, f"n{node}", facts, entry.at)
        for i, (node, _) in enumerate(where)
    )
    bulk.insert(Pod, columns, pods)
    keys = dict(Pod.objects.filter(cluster=cluster).values_list("uid", "pk"))
    parts = ("pod_id", "container_index", "container", "kind", "vendor", "uuid", "model", "memory_mib")
    shares = (
        (
            keys[f"held-{i}"],
            0,
            "main",
            "app",
            "NVIDIA",
            f"GPU-n{node}-{k}",
            "NVIDIA A100",
            draw.choice((4096, 8192)),
            10,
        )
        for i, (node, k) in enumerate(where)
    )
    bulk.insert(Share, (*parts, "core_percent"), shares)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
