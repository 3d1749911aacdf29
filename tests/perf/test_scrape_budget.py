"""What a scrape of all figures of 1,000 × 8 devices costs a process that has decisions to take, too."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.perf import serving

pytestmark = [pytest.mark.perf, pytest.mark.timeout(600)]

CPU_S = 0.5


def test_a_scrape_keeps_its_budget(small: serving.Ground) -> None:
    command = [sys.executable, "-m", "tests.perf.scrape_cost"]
    environment = small.environment | {"HAMI_ROLE": "watcher"}
    done = subprocess.run(command, cwd=serving.ROOT, env=environment, check=True, capture_output=True, text=True)
    cost = json.loads(done.stdout)
    serving.report(
        f"Scrape, {small.size}: {cost['lines']} lines, {cost['mb']:.1f} MB in {cost['took_s'] * 1000:.0f} ms "
        f"({cost['cpu_s'] * 1000:.0f} ms of processor)"
    )
    assert cost["cpu_s"] < CPU_S
