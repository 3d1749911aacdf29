"""The port between Allocate and the two ways of remembering what has been handed out.

With our scheduler the record is a local file and the platform is told; with HAMi's it is the
pod's annotations and the node lock. Must not know: gRPC, environment, mounts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from deviceplugin import checkpoint, inventory, patience
from deviceplugin.refusals import Refusal
from deviceplugin.rows import Row
from hami_platform.domain import devices
from hami_platform.kube import objects

Instances = Mapping[tuple[int, int], tuple[devices.MigUse, inventory.MigInstance]]
"""MIG instances made for a call, by (container index, device index)."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where handing over happens: the node and its resource, and what both ways of remembering work with."""

    node: str
    resource: str
    reader: patience.PatientReader
    record: checkpoint.Checkpoint
    cards: inventory.Inventory


class Handover(Protocol):
    """How a pod is found, and how it is remembered. Calls come one at a time."""

    def find(self, counts: Sequence[int]) -> tuple[Row, ...] | Refusal:
        """The rows this call is for, one for each count. Raises kube errors."""
        ...

    def commit(self, rows: Sequence[Row], instances: Instances, asked: Sequence[Sequence[str]]) -> Refusal | None:
        """Remember durably that these rows are consumed, by calls with these replica ids. Only then answer them."""
        ...

    def abandon(self, pod: objects.Pod, message: str) -> None:
        """The pod cannot be served: whatever blocks others is let go."""
        ...
