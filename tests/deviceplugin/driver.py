"""The stub driver's cards as a test changes them, and the agent's inventory over the real bindings."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deviceplugin import inventory, nvml
from tests.deviceplugin import nvml_stub
from tests.deviceplugin.nvml_stub import Gpu


class Driver:
    """Cards by position. `more` lines are kept apart from what a card is, so that each can be changed alone."""

    def __init__(self, scenario: Path, *gpus: Gpu) -> None:
        self.scenario = scenario
        self._gpus = list(gpus)
        self._events: list[list[str]] = [[] for _ in gpus]
        self._written = 0
        self.show()

    def show(self, head: Sequence[str] = ()) -> None:
        """Write the scenario as it is now."""
        whole = [
            dataclasses.replace(gpu, more=[*gpu.more, *events])
            for gpu, events in zip(self._gpus, self._events, strict=True)
        ]
        nvml_stub.write(self.scenario, *whole, head=head)

    def say(self, position: int, *more: str) -> None:
        """The card's further lines from now on."""
        self._gpus[position] = dataclasses.replace(self._gpus[position], more=more)
        self.show()

    def xid(self, position: int, number: int, instance: str = "") -> None:
        """The card reports an XID, of one `<gpu instance> <compute instance>` or of itself."""
        self._written += 1
        self._events[position].append(f"event {self._written} {nvml_stub.XID} {number} {instance}")
        self.show()

    def take_out(self, position: int) -> None:
        """The card is gone, and the driver counts the others anew."""
        del self._gpus[position], self._events[position]
        self.show()

    def inventory(self, **options: Any) -> nvml.NvmlInventory:
        """What the agent sees; without the kernel's files unless `sysfs` names some."""
        return nvml.NvmlInventory(**{"sysfs": Path("/none"), **options})


def healths(cards: nvml.NvmlInventory) -> list[bool]:
    """Of a new scan, in order of the indexes."""
    return [card.healthy for card in cards.scan()]


def scans(cards: nvml.NvmlInventory, number: int) -> tuple[inventory.Card, ...]:
    """The last of so many scans."""
    for _ in range(number - 1):
        cards.scan()
    return cards.scan()
