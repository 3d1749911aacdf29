"""Keeps a node's cards in MIG mode, with no instance but those of pods: HAMi's operating mode `mig`.

Must not know: NVML, kubelet. Source: HAMi v2.10.0, dynamic MIG; unlike there, one card or instance that resists does
not keep the others from being cleared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from deviceplugin import checkpoint, inventory, mig_made, outfit, rows
from hami_platform import logs
from hami_platform.domain import devices, errors
from hami_platform.domain.vendors import nvidia
from hami_platform.domain.wire import mig_allocations, pod_devices
from hami_platform.kube import objects

ALLOCATED = nvidia.declare({}).allocated_key
NOT_CUT = "it is not in MIG mode yet"

log = logs.get(__name__)


class Owned:
    """An inventory that shows cards which are not in MIG mode as unhealthy: none of them may be shared."""

    def __init__(self, cards: inventory.Inventory) -> None:
        self._cards = cards

    def scan(self) -> tuple[inventory.Card, ...]:
        """See Inventory."""
        return tuple(
            card if card.mode == inventory.MIG else dataclasses.replace(card, healthy=False, ailment=NOT_CUT)
            for card in self._cards.scan()
        )

    def realise(self, card: str, use: devices.MigUse) -> inventory.MigInstance:
        """See Inventory."""
        return self._cards.realise(card, use)

    def dissolve(self, card: str, use: devices.MigUse) -> None:
        """See Inventory."""
        self._cards.dissolve(card, use)

    def cut(self, card: str) -> None:
        """See Inventory."""
        self._cards.cut(card)


class Owner:
    """Called with the turn and the pods of the node, after each list of them."""

    def __init__(self, cards: inventory.Inventory, record: checkpoint.Checkpoint) -> None:
        self._cards = cards
        self._record = record

    def clear(self, pods: Sequence[objects.Pod]) -> None:
        """Cut the cards that nobody uses, and destroy instances of nobody."""
        living = [pod for pod in pods if pod.status.phase not in ("Succeeded", "Failed")]
        try:
            cards = self._cards.scan()
        except inventory.InventoryError as error:
            log.error("cards_not_cleared", error=str(error))
            return
        used, held = self._cards_of(living), self._places_of(living)
        if held is None:
            return
        for card in cards:
            if card.mode != inventory.MIG and card.uuid not in used:
                self._cut(card)
            for one in card.partitions:
                use = devices.MigUse(one.profile, one.placement)
                if mig_made.placed(card.uuid, use) not in held:
                    self._dissolve(card, use)

    def _cut(self, card: inventory.Card) -> None:
        try:
            self._cards.cut(card.uuid)
            log.info("card_cut", card=card.uuid)
        except inventory.InventoryError as error:
            log.error("card_not_cut", card=card.uuid, error=str(error))

    def _dissolve(self, card: inventory.Card, use: devices.MigUse) -> None:
        try:
            self._cards.dissolve(card.uuid, use)
            log.info("instance_of_nobody_destroyed", card=card.uuid, profile=use.profile, start=use.placement.start)
        except inventory.InventoryError as error:
            log.warning("mig_instance_kept", card=card.uuid, profile=use.profile, error=str(error))

    def _cards_of(self, pods: Iterable[objects.Pod]) -> set[str]:
        """Cards that these pods hold by record or by annotation."""
        found: set[str] = set()
        for pod in pods:
            if entry := self._record.pods.get(pod.metadata.uid):
                found.update(uuid for given in entry.given for uuid in given.devices)
            for key in (ALLOCATED, rows.TO_ALLOCATE):
                found.update(_named(pod.metadata.annotations.get(key, "")))
        return found

    def _places_of(self, pods: Iterable[objects.Pod]) -> set[checkpoint.Placed] | None:
        """Places of instances that these pods hold; None where that cannot be told, and nothing may be destroyed."""
        found: set[checkpoint.Placed] = set()
        for pod in pods:
            if entry := self._record.pods.get(pod.metadata.uid):
                found.update(place for given in entry.given for place in given.mig)
            text = pod.metadata.annotations.get(outfit.MIG_ALLOCATIONS, "")
            try:
                reserved = mig_allocations.decode(text) if text else ()
            except errors.WireError as error:
                log.error("cards_not_cleared", pod=rows.named(pod), error=str(error))
                return None
            found.update(mig_made.placed(r.gpu_uuid, devices.MigUse(r.profile, r.placement)) for r in reserved)
        return found


def _named(text: str) -> set[str]:
    try:
        return {device.uuid for row in pod_devices.decode(text) for device in row}
    except errors.WireError:
        return set()  # such a pod is refused at Allocate, so it holds nothing
