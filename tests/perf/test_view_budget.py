"""What a View of 5,000 × 8 devices and 20,000 pods costs each process: memory, and the time until it can decide."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.perf import serving

pytestmark = [pytest.mark.perf, pytest.mark.timeout(600)]

MIB, CPU_S = 250, 10.0


def test_a_view_keeps_its_budget(large: serving.Ground) -> None:
    command = [sys.executable, "-m", "tests.perf.view_cost"]
    done = subprocess.run(command, cwd=serving.ROOT, env=large.environment, check=True, capture_output=True, text=True)
    cost = json.loads(done.stdout)
    serving.report(
        f"View, {large.size}: loads in {cost['took_s']:.1f} s ({cost['cpu_s']:.1f} s of processor); process "
        f"{cost['before_mib']:.0f} MiB before, {cost['mib']:.0f} MiB after, {cost['most_mib']:.0f} MiB at most"
    )
    assert cost["mib"] < MIB
    assert cost["cpu_s"] < CPU_S
