"""Looks at the cards again and again, and shows what it sees.

Must not know: who is told. A card that recovers is healthy again; HAMi's stays out until restart.
"""

from __future__ import annotations

import dataclasses

from deviceplugin import board, inventory, meters
from hami_platform import logs

BLIND_AFTER = 3
"""Scans that may fail in a row before the cards count as unhealthy: one hiccup is not a dead card."""

UNREADABLE = "the driver cannot be asked"

log = logs.get(__name__)


class HealthWatch:
    """A step for a Loop. `changed` is called after every difference."""

    def __init__(self, cards: inventory.Inventory, shown: board.Board, period_s: float) -> None:
        self._cards = cards
        self._shown = shown
        self._period_s = period_s
        self._failures = 0

    def step(self) -> float:
        """One scan; after some failed ones every card is shown as unhealthy."""
        try:
            seen = self._cards.scan()
        except inventory.InventoryError as error:
            self._failures += 1
            meters.SCAN_FAILURES.inc()
            log.error("inventory_unreadable", failures=self._failures, error=str(error))
            if self._failures < BLIND_AFTER:
                return self._period_s
            seen = tuple(
                dataclasses.replace(card, healthy=False, ailment=UNREADABLE) for card in self._shown.picture.cards
            )
        else:
            self._failures = 0
        if self._shown.publish(seen):
            sick = [f"{card.uuid} ({card.ailment})" for card in seen if not card.healthy]
            meters.CARDS.labels("unhealthy").set(len(sick))
            meters.CARDS.labels("healthy").set(len(seen) - len(sick))
            log.info("cards_changed", cards=len(seen), unhealthy=",".join(sick))
        return self._period_s
