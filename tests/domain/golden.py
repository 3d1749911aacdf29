"""Steps of golden vectors: what HAMi v2.10.0 answered to inputs of ours. One step of one vector is one case."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

NVIDIA = Path(__file__).parent.parent / "golden" / "nvidia"

Case = tuple[str, dict[str, Any], dict[str, Any]]
"""(id of the vector, step, expected result)."""


@cache
def load(name: str) -> tuple[dict[str, Any], ...]:
    """All vectors of one file, for example `codec-pod`."""
    return tuple(json.loads((NVIDIA / f"{name}.json").read_text())["vectors"])


def steps(name: str, **wanted: str) -> list[Case]:
    """Every step whose members are as wanted."""
    return [
        (vector["id"], step, expected)
        for vector in load(name)
        for step, expected in zip(vector["new"], vector["expect"]["steps"], strict=True)
        if all(step.get(key) == value for key, value in wanted.items())
    ]


def config(vector: dict[str, Any]) -> dict[str, Any]:
    """The device configuration of a vector, parsed; the chart's where it names none."""
    name = vector.get("config", {}).get("devices", "chart")
    path = NVIDIA / "configs" / f"{name}.json"
    return dict(json.loads(path.read_text())) if path.exists() else {"nvidia": {}}
