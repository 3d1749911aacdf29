"""What was measured since the last report, by device and container: highest memory, mean of the cores.

Must not know: who reports. Adding and taking may be in different threads.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

from deviceplugin.monitor_use import Condition, Picture

MIB: Final = 1 << 20

Key = tuple[str, str, str]
"""Device uuid, pod uid, container; the last two are empty for the whole device."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One device's or share's figures over some rounds. None where nothing was measured. condition: of a whole device,
    in the last of them."""

    uuid: str
    pod_uid: str
    container: str
    memory_used_mib: int | None
    core_used_percent: int | None
    condition: Condition = Condition()

    @property
    def empty(self) -> bool:
        """Whether it says nothing."""
        return (self.memory_used_mib, self.core_used_percent, self.condition) == (None, None, Condition())


@dataclass(slots=True)
class _Sum:
    bytes_most: int | None = None
    cores: int = 0
    rounds: int = 0
    condition: Condition = Condition()

    def add(self, used_bytes: int | None, cores: int | None) -> None:
        if used_bytes is not None:
            self.bytes_most = max(self.bytes_most or 0, used_bytes)
        if cores is not None:
            self.cores += cores
            self.rounds += 1

    def sample(self, key: Key) -> Sample:
        memory = None if self.bytes_most is None else -(-self.bytes_most // MIB)
        return Sample(*key, memory, round(self.cores / self.rounds) if self.rounds else None, self.condition)


class Samples:
    """Sums by key, emptied by `take`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[Key, _Sum] = {}

    def add(self, picture: Picture) -> None:
        """One round."""
        with self._lock:
            for card in picture.cards:
                whole = self._sum((card.uuid, "", ""))
                whole.add(card.memory_used_bytes, card.core_percent)
                whole.condition = card.condition
            for one in picture.containers:
                for device in one.devices:
                    self._sum((device.uuid, one.uid, one.container)).add(device.total_bytes, device.core_percent)

    def take(self) -> tuple[Sample, ...]:
        """All since the last call, in order."""
        with self._lock:
            sums, self._sums = self._sums, {}
        found = (sums[key].sample(key) for key in sorted(sums))
        return tuple(one for one in found if not one.empty)

    def _sum(self, key: Key) -> _Sum:
        return self._sums.setdefault(key, _Sum())
