"""The latest picture of the node's cards, and a way to wait for the next one.

One thread publishes, many read: a reader gets an immutable picture with its version and can wait
until there is a newer one. Must not know: where cards come from, or who reads.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from deviceplugin import inventory


@dataclass(frozen=True, slots=True)
class Picture:
    """All cards at one moment. `version` grows with every difference."""

    version: int
    cards: tuple[inventory.Card, ...]

    def card(self, uuid: str) -> inventory.Card | None:
        """The card with this uuid, or None."""
        return next((card for card in self.cards if card.uuid == uuid), None)


class Board:
    """Holds the current Picture. Closing it wakes every waiter for good."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._picture = Picture(0, ())
        self._closed = False

    @property
    def picture(self) -> Picture:
        """The current picture."""
        return self._picture

    def publish(self, cards: tuple[inventory.Card, ...]) -> bool:
        """Show these cards. False: nothing differs, so nobody is woken."""
        with self._changed:
            if cards == self._picture.cards and self._picture.version:
                return False
            self._picture = Picture(self._picture.version + 1, cards)
            self._changed.notify_all()
            return True

    def newer(self, version: int, timeout_s: float) -> Picture | None:
        """A picture newer than `version`; None after `timeout_s` or once closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._picture.version > version, timeout_s)
            if self._closed or self._picture.version <= version:
                return None
            return self._picture

    def close(self) -> None:
        """No more pictures."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
