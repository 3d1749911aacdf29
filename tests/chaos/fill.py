"""Makes a small cluster in the database that the settings name: `python -m tests.chaos.fill NODES DEVICES [LIMIT_MIB]`.

Every device has 24 GiB and ten slots; LIMIT_MIB is the limit of namespace nlp.
"""

from __future__ import annotations

import sys

import django


def main(nodes: int, devices: int, limit_mib: int | None) -> None:
    """Write it by the services, as the watcher would."""
    from tests import builders
    from tests.accounting import flow, kube_objects

    names = [f"n{number:02}" for number in range(nodes)]
    flow.cluster(
        *(kube_objects.node(n, *(builders.device(f"GPU-{n}-{i}", index=i) for i in range(devices))) for n in names)
    )
    if limit_mib is not None:
        flow.limit(memory_mib=limit_mib)


if __name__ == "__main__":
    django.setup()
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)
