"""Remembers on disk which MIG instance is about to be made, so that a crash leaves none behind.

Must not know: NVML, pods. Whoever sweeps destroys what was begun and belongs to no container.
"""

from __future__ import annotations

from deviceplugin import checkpoint, inventory
from hami_platform.domain import devices


class Recorded:
    """See Inventory. An instance that is there already is used without a record: somebody else made it."""

    def __init__(self, cards: inventory.Inventory, record: checkpoint.Checkpoint) -> None:
        self._cards = cards
        self._record = record

    def scan(self) -> tuple[inventory.Card, ...]:
        """See Inventory."""
        return self._cards.scan()

    def realise(self, card: str, use: devices.MigUse) -> inventory.MigInstance:
        """See Inventory. What a pod still has, be it gone or ended, is no other pod's."""
        if holder := self._holder(card, use):
            raise inventory.InventoryError(f"card {card}, {use.profile}: the instance is still held by pod {holder}")
        if not self._there(card, use):
            try:
                self._record.begin(placed(card, use))
            except checkpoint.CheckpointError as error:
                raise inventory.InventoryError(f"card {card}, {use.profile}: {error}") from error
        return self._cards.realise(card, use)

    def dissolve(self, card: str, use: devices.MigUse) -> None:
        """See Inventory."""
        self._cards.dissolve(card, use)
        try:
            self._record.done_with(placed(card, use))
        except checkpoint.CheckpointError as error:
            raise inventory.InventoryError(f"card {card}, {use.profile}: {error}") from error

    def cut(self, card: str) -> None:
        """See Inventory."""
        self._cards.cut(card)

    def _holder(self, card: str, use: devices.MigUse) -> str:
        place = placed(card, use)
        for entry in self._record.pods.values():
            if any(place in given.mig for given in entry.given):
                return f"{entry.namespace}/{entry.name}"
        return ""

    def _there(self, card: str, use: devices.MigUse) -> bool:
        found = (one for each in self._cards.scan() if each.uuid == card for one in each.partitions)
        return any((one.profile, one.placement) == (use.profile, use.placement) for one in found)


def placed(card: str, use: devices.MigUse) -> checkpoint.Placed:
    """As the record has it."""
    return (card, use.profile, use.placement.start, use.placement.size)


def use_of(place: checkpoint.Placed) -> devices.MigUse:
    """The instance at this place."""
    _, profile, start, size = place
    return devices.MigUse(profile, devices.MigPlacement(start, size))
