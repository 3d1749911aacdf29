"""Which devices of which plugin each container holds, as the kubelet's device manager books them.

Knows nothing of gRPC: asking a plugin is passed in. Source: Kubernetes pkg/kubelet/cm/devicemanager/manager.go, v1.36
(one Allocate per container, init containers first; what an ordinary init container held is used again).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Prefer = Callable[[list[str], list[str], int], list[str]]
"""(available, must include, size) -> preferred ids."""


NONE_HEALTHY = "no healthy devices present; cannot allocate unhealthy devices {}"


class NotEnough(Exception):
    """Fewer healthy devices are free than the container asks for."""


@dataclass(slots=True)
class Book:
    """Devices of one resource: `health` by id, and who holds what by (pod uid, container)."""

    health: dict[str, bool] = field(default_factory=dict)
    held: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    reusable: dict[str, set[str]] = field(default_factory=dict)

    @property
    def healthy(self) -> int:
        """How many devices pods may use: allocatable."""
        return sum(self.health.values())

    def choose(self, resource: str, uid: str, container: str, size: int, prefer: Prefer | None) -> list[str] | None:
        """Ids for a container; None when it holds them already. Raises NotEnough."""
        if (uid, container) in self.held:
            return None
        again = sorted(self.reusable.get(uid, ()))[:size]
        if len(again) == size:
            return again
        if not self.healthy:
            raise NotEnough(NONE_HEALTHY.format(resource))
        used = frozenset().union(*self.held.values()) if self.held else frozenset()
        free = [name for name, healthy in self.health.items() if healthy and name not in used]
        needed = size - len(again)
        if len(free) < needed:
            raise NotEnough(
                f"requested number of devices unavailable for {resource}. Requested: {needed}, Available: {len(free)}"
            )
        preferred = prefer(again + free, again, size) if prefer else []
        chosen = list(again)
        for name in [*(item for item in preferred if item in free), *free]:
            if len(chosen) < size and name not in chosen:
                chosen.append(name)
        return chosen

    def hold(self, uid: str, container: str, ids: list[str], *, kind: str) -> None:
        """Book ids for a container of kind init, sidecar or app."""
        self.held[(uid, container)] = frozenset(ids)
        pool = self.reusable.setdefault(uid, set())
        if kind == "init":
            pool.update(ids)
        elif kind == "app":
            pool.difference_update(ids)

    def release(self, uid: str) -> None:
        """The pod is over."""
        self.reusable.pop(uid, None)
        for key in [key for key in self.held if key[0] == uid]:
            del self.held[key]


def extended(limits: Mapping[str, str]) -> dict[str, int]:
    """The whole-number resources among a container's limits."""
    return {name: int(amount) for name, amount in limits.items() if "/" in name and amount.isdigit()}
