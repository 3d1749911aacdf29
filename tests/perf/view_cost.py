"""Loads a View in a process of its own and says what it costs, as JSON: `python -m tests.perf.view_cost`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import django


def main() -> None:
    """Seconds waited and of processor time for the load, and MiB of the process before, at most, and after."""
    django.setup()
    from accounting import live_view

    before_mib = _mib("VmRSS")
    began, cpu = time.perf_counter(), time.process_time()
    live_view.live().refresh()
    took_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    sys.stdout.write(
        json.dumps(
            {
                "took_s": took_s,
                "cpu_s": cpu_s,
                "before_mib": before_mib,
                "most_mib": _mib("VmHWM"),
                "mib": _mib("VmRSS"),
            }
        )
    )


def _mib(line: str) -> float:
    return int(Path("/proc/self/status").read_text().split(f"{line}:")[1].split()[0]) / 1024


if __name__ == "__main__":
    main()
