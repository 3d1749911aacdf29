"""The driver's part: says in each node's inventory file how busy, warm and thirsty its made-up cards are.

Figures follow from what the containers on a card do. Only what a driver tells is written; the rest of the file, which
people may edit to break a card, stays as it is. Must not know: the agent, the platform.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hami_platform.demo import fleet

IDLE_C, BUSY_C, LIMIT_C = 33, 45, 90
FAN_BROKEN: Final = ("gpu-a100-2", 2)
BROKEN_C: Final = 53
"""How much warmer a card is whose fan is broken; slowed down, it stays below a bit more than its limit."""
WATTS: Final = {"A100": 400, "H100": 700, "L40S": 350, "T4": 70}
"""What each model is allowed. Source: NVIDIA's data sheets."""
IDLE_PART: Final = 0.15
XID: Final = 79
"""Of the card that fell off the bus."""
DRIVER_MIB: Final = 420


@dataclass(frozen=True, slots=True)
class Work:
    """What containers do on a card: 0 to 1 of its cores, and memory in use."""

    busy: float = 0.0
    memory_mib: int = 0


def write(nodes: pathlib.Path, work: Mapping[str, Work]) -> None:
    """Of every node, from what is done on each card by uuid. Raises OSError, or ValueError while a file is edited."""
    for node in fleet.NODES:
        path = nodes / node.name / "inventory.json"
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for index, card in enumerate(content["devices"]):
            card.update(told(node, index, work.get(card["uuid"], Work())))
        fresh = path.with_name(".inventory.new")
        fresh.write_text(json.dumps(content, indent=1), encoding="utf-8")
        fresh.replace(path)


def told(node: fleet.GpuNode, index: int, work: Work) -> dict[str, Any]:
    """What the driver tells of one card: a card in MIG mode has no use, one that fell off the bus nothing at all."""
    if (node.name, index) == fleet.UNHEALTHY:
        return {"reading": {"xid": XID}}
    busy = min(1.0, work.busy)
    allowed_w = next(watts for model, watts in WATTS.items() if model in node.model)
    celsius = round(IDLE_C + BUSY_C * busy)
    if (node.name, index) == FAN_BROKEN:
        celsius = min(celsius + BROKEN_C, LIMIT_C + 2)
    reading: dict[str, Any] = {
        "temperature_c": celsius,
        "temperature_limit_c": LIMIT_C,
        "power_w": round(allowed_w * (IDLE_PART + (1 - IDLE_PART) * busy)),
        "power_limit_w": allowed_w,
        "slowed": _slowed(celsius, busy),
    }
    used = {"memory_used_mib": work.memory_mib + DRIVER_MIB, "reading": reading}
    return used if node.mig else used | {"core_used_percent": round(100 * busy)}


def _slowed(celsius: int, busy: float) -> list[str]:
    return [*(["power_cap"] if busy > 0.9 else []), *(["heat_software"] if celsius >= LIMIT_C - 5 else [])]
