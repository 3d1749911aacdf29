"""What the scheduler remembers of nodes and of pods on them, assumed ones included. Knows nothing of the network."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hami_platform.simulator.scheduling import predicates

Obj = dict[str, Any]


@dataclass(slots=True)
class _Place:
    """One node name: its object when there is one, and what its pods use."""

    node: Obj | None = None
    used: dict[str, int] = field(default_factory=dict)
    pods: int = 0


@dataclass(frozen=True, slots=True)
class Seen:
    """One node as a scheduling cycle sees it."""

    name: str
    node: Obj
    used: Mapping[str, int]
    pods: int


class Cache:
    """Nodes, and pods that sit on them or are about to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: dict[str, _Place] = {}
        self._held: dict[str, tuple[str, dict[str, int]]] = {}  # pod uid -> node, amounts
        self._assumed: set[str] = set()

    def set_node(self, name: str, node: Obj | None) -> None:
        """A node came, changed or went."""
        with self._lock:
            self._places.setdefault(name, _Place()).node = node

    def set_pod(self, pod: Obj | None, uid: str) -> None:
        """A bound pod as the API server shows it; None when it is gone or has ended."""
        with self._lock:
            self._drop(uid)
            self._assumed.discard(uid)
            if pod is not None:
                self._take(uid, pod["spec"]["nodeName"], predicates.requests(pod))

    def assume(self, uid: str, node: str, wanted: dict[str, int]) -> None:
        """Count a pod that is being bound."""
        with self._lock:
            self._drop(uid)
            self._assumed.add(uid)
            self._take(uid, node, wanted)

    def forget(self, uid: str) -> None:
        """The binding failed: count the pod no more, unless the API server shows it bound."""
        with self._lock:
            if uid in self._assumed:
                self._assumed.discard(uid)
                self._drop(uid)

    def nodes(self) -> list[Seen]:
        """All nodes in name order, with a copy of what is used on them."""
        with self._lock:
            return [
                Seen(name, place.node, dict(place.used), place.pods)
                for name, place in sorted(self._places.items())
                if place.node is not None
            ]

    def _take(self, uid: str, node: str, wanted: dict[str, int]) -> None:
        place = self._places.setdefault(node, _Place())
        place.pods += 1
        for name, value in wanted.items():
            place.used[name] = place.used.get(name, 0) + value
        self._held[uid] = (node, wanted)

    def _drop(self, uid: str) -> None:
        held = self._held.pop(uid, None)
        if held is None:
            return
        place = self._places[held[0]]
        place.pods -= 1
        for name, value in held[1].items():
            place.used[name] -= value
