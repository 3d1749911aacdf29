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
    from accounting.models import Device, Node

    cluster = entry.clock.cluster_id
    rows = Node.objects.bulk_create(
        [Node(cluster_id=cluster, name=f"n{i}", agent="1") for i in range(node_count)], batch_size=500
    )
    Device.objects.bulk_create(
        [
            Device(
                cluster_id=cluster, node=row, vendor="NVIDIA", uuid=f"GPU-{row.name}-{k}", index=k, model="NVIDIA A100",
                memory_mib=40960, core_percent=100, slots=10, numa=k // 4, mode="hami-core",
            )
            for row in rows
            for k in range(device_count)
        ],
        batch_size=500,
    )  # fmt: skip
    entry.record("node", rows[0].name, filled=node_count)


def _pods(entry: Any, node_count: int, device_count: int, pod_count: int, draw: random.Random) -> None:
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
    pods = Pod.objects.bulk_create(
        [
            Pod(
                cluster_id=cluster, uid=f"held-{i}", namespace=names[i % 20], name=f"held-{i}", state=PodState.RUNNING,
                request=request, node=f"n{node}", facts=facts, state_at=entry.at,
            )
            for i, (node, _) in enumerate(where)
        ],
        batch_size=500,
    )  # fmt: skip
    Share.objects.bulk_create(
        [
            Share(
                pod=pod, container_index=0, container="main", kind="app", vendor="NVIDIA", uuid=f"GPU-n{node}-{k}",
                model="NVIDIA A100", memory_mib=draw.choice((4096, 8192)), core_percent=10,
            )
            for pod, (node, k) in zip(pods, where, strict=True)
        ],
        batch_size=500,
    )  # fmt: skip


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
