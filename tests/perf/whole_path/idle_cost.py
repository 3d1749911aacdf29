"""Compares every pod and node with the API server when nothing differs, in a process of its own, as the worker does:
`python -m tests.perf.whole_path.idle_cost`. Says as JSON what it costs."""

from __future__ import annotations

import json
import sys
import time

import django


def main() -> None:
    """Seconds of processor time for the second comparison of pods and of nodes; revisions that they made."""
    django.setup()
    from accounting import live_view
    from accounting.services import reconcile
    from accounting.services.cluster_api import cluster_api
    from accounting.services.device_config import device_config

    api, config = cluster_api(), device_config()
    ticks = {"pods": reconcile.pods_reconcile, "nodes": reconcile.nodes_reconcile}
    cost: dict[str, float] = {}
    for tick in ticks.values():
        tick(api, config=config)
    before = live_view.live().refresh().clock.revision
    for name, tick in ticks.items():
        began = time.process_time()
        tick(api, config=config)
        cost[f"{name}_s"] = time.process_time() - began
    cost["revisions"] = live_view.live().refresh().clock.revision - before
    sys.stdout.write(json.dumps(cost))


if __name__ == "__main__":
    main()
