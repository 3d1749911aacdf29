"""Makes a cluster in the database that the settings name: `python -m tests.chaos.fill SPEC`, SPEC being JSON.

`nodes`: prefix → [how many, devices on each]; a device has 24 GiB and ten slots. `limits`: namespace → MiB.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import django


def main(nodes: dict[str, list[int]], limits: dict[str, int]) -> None:
    """Write it by the services, as the watcher would."""
    from tests.accounting import flow

    flow.cluster(*(_node(name, many) for prefix, (count, many) in nodes.items() for name in names(prefix, count)))
    for namespace, memory_mib in limits.items():
        flow.limit(namespace, memory_mib=memory_mib)


def names(prefix: str, count: int, *, after: int = 0) -> list[str]:
    """The names of so many nodes, beginning with number `after`."""
    return [f"{prefix}{number:04}" for number in range(after, after + count)]


def _node(name: str, many: int) -> dict[str, Any]:
    from tests import builders
    from tests.accounting import kube_objects

    return kube_objects.node(name, *(builders.device(f"GPU-{name}-{index}", index=index) for index in range(many)))


if __name__ == "__main__":
    django.setup()
    main(**json.loads(sys.argv[1]))
