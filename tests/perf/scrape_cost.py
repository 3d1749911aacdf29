"""Scrapes the metrics of a cluster in a process of its own and says what it costs, as JSON."""

from __future__ import annotations

import json
import sys
import time

import django


def main() -> None:
    """Processor seconds of one scrape with the View loaded, its lines and MB."""
    django.setup()
    from accounting import live_view, meters
    from hami_platform import metrics

    meters.register()
    live_view.live().refresh()
    metrics.render()
    began, cpu = time.perf_counter(), time.process_time()
    body = metrics.render()
    cost = {"took_s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}
    sys.stdout.write(json.dumps(cost | {"lines": body.count(b"\n"), "mb": len(body) / 1e6}))


if __name__ == "__main__":
    main()
