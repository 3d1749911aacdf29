"""Runs `./manage.py conformance` as people do: a process of its own."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "conformance"


def conformance(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """The finished command; variables are added to its environment."""
    return subprocess.run(
        [sys.executable, "manage.py", "conformance", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )


def lines(found: subprocess.CompletedProcess[str]) -> list[str]:
    """What it printed."""
    return found.stdout.splitlines()


def vector(**changes: Any) -> dict[str, Any]:
    """The least that the schema asks for: one step that asks what a pod of one card asks for."""
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]}}
    asked = {"nums": 1, "type": "NVIDIA", "mem": 1000, "pct": 101, "cores": 0}
    found = {
        "id": "made-1",
        "area": "made",
        "title": "made here",
        "new": [{"op": "requests", "pod": pod}],
        "expect": {"steps": [{"requests": [{"NVIDIA": asked}]}]},
    }
    return found | changes
