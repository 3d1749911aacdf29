"""What a View of 5,000 × 8 devices and 20,000 pods costs each process: memory, and the time until it can decide."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.perf import serving

pytestmark = [pytest.mark.perf, pytest.mark.timeout(600)]

MIB, CPU_S, GROWTH = 250, 10.0, 1.2


def test_a_view_takes_as_much_memory_for_each_node_at_any_size(
    large: serving.Ground, small_postgres: serving.Ground
) -> None:
    found = [per_node_kib(ground) for ground in (small_postgres, large)]
    serving.report(f"View: {found[0]:.1f} KiB a node of 8 devices and 4 pods at 1,000, {found[1]:.1f} KiB at 5,000")
    assert found[1] < found[0] * GROWTH


def per_node_kib(ground: serving.Ground) -> float:
    """What a View adds to its process, for each node."""
    found = cost(ground)
    return (found["mib"] - found["before_mib"]) * 1024 / ground.size.nodes


def cost(ground: serving.Ground) -> dict[str, float]:
    """What loading one costs, in a process of its own."""
    command = [sys.executable, "-m", "tests.perf.view_cost"]
    done = subprocess.run(command, cwd=serving.ROOT, env=ground.environment, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def test_a_view_keeps_its_budget(large: serving.Ground) -> None:
    found = cost(large)
    serving.report(
        f"View, {large.size}: loads in {found['took_s']:.1f} s ({found['cpu_s']:.1f} s of processor); process "
        f"{found['before_mib']:.0f} MiB before, {found['mib']:.0f} MiB after, {found['most_mib']:.0f} MiB at most"
    )
    assert found["mib"] < MIB
    assert found["cpu_s"] < CPU_S
