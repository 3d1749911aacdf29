"""The made-up hardware: six nodes, forty cards. Values only; the agents read them as inventory files."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any, Final

UNHEALTHY: Final = ("gpu-a100-2", 5)
CORDONED: Final = ("gpu-l40s-1", 6)
HELD: Final = ("gpu-h100-1", 7)
MIG_NODE: Final = "gpu-mig-1"
PLATFORM_NAMESPACE: Final = "hami-platform"
TIMES: Final = 60
"""Simulated seconds in a real one, for pods."""

_A100_80GB_PROFILES: Final = (
    # name, MiB, cores, slices, instances, starts, memory slices. Source: NVIDIA's MIG user guide, A100-SXM4-80GB.
    ("1g.10gb", 9728, 14, 1, 7, (0, 1, 2, 3, 4, 5, 6), 1),
    ("2g.20gb", 19968, 28, 2, 3, (0, 2, 4), 2),
    ("3g.40gb", 40192, 42, 3, 2, (0, 4), 4),
    ("4g.40gb", 40192, 57, 4, 1, (0,), 4),
    ("7g.80gb", 80640, 100, 7, 1, (0,), 8),
)


@dataclass(frozen=True, slots=True)
class GpuNode:
    """A node with cards of one model."""

    name: str
    model: str
    cards: int
    memory_mib: int
    mig: bool = False

    def uuid(self, index: int) -> str:
        """The same in every run, so that links and screenshots stay true."""
        return f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{index}.{self.name}.demo')}"

    @property
    def registered_model(self) -> str:
        """As agents register it: with the vendor's name in front (HAMi v2.10.0)."""
        return self.model if self.model.startswith("NVIDIA") else f"NVIDIA-{self.model}"

    def inventory(self) -> dict[str, Any]:
        """As the agent's inventory file."""
        return {"devices": [self._card(index) for index in range(self.cards)]}

    def _card(self, index: int) -> dict[str, Any]:
        card: dict[str, Any] = {
            "uuid": self.uuid(index),
            "index": index,
            "model": self.model,
            "memory_mib": self.memory_mib,
            "numa": index * 2 // self.cards,
            "health": "unhealthy" if (self.name, index) == UNHEALTHY else "healthy",
        }
        if (self.name, index) == UNHEALTHY:
            card["ailment"] = "XID 79"
        if self.mig:
            card |= {"mode": "mig", "mig_profiles": [_profile(*one) for one in _A100_80GB_PROFILES]}
        return card


def _profile(
    name: str, memory_mib: int, cores: int, slices: int, instances: int, starts: tuple[int, ...], size: int
) -> dict[str, Any]:
    placements = [{"start": start, "size": size} for start in starts]
    return {
        "name": name,
        "memory_mib": memory_mib,
        "core_percent": cores,
        "slices": slices,
        "instances": instances,
        "placements": placements,
    }


NODES: Final = (
    GpuNode("gpu-a100-1", "NVIDIA A100-SXM4-80GB", 8, 81920),
    GpuNode("gpu-a100-2", "NVIDIA A100-SXM4-80GB", 8, 81920),
    GpuNode("gpu-h100-1", "NVIDIA H100 80GB HBM3", 8, 81559),
    GpuNode("gpu-l40s-1", "NVIDIA L40S", 8, 46068),
    GpuNode(MIG_NODE, "NVIDIA A100-SXM4-80GB", 4, 81920, mig=True),
    GpuNode("gpu-t4-1", "Tesla T4", 4, 15360),
)
BY_NAME: Final = {node.name: node for node in NODES}


def uuids() -> frozenset[str]:
    """Of all cards."""
    return frozenset(node.uuid(index) for node in NODES for index in range(node.cards))
