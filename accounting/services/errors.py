"""Input of people that a service refuses. It must not know who asked: pages, admin and REST show it each in its way."""

from __future__ import annotations


class InvalidInput(ValueError):
    """What a person entered cannot be done. `field` names the entry; empty: the change as a whole."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message


class Outdated(InvalidInput):
    """Somebody else changed the row after this person read it. Read it again, then decide."""
