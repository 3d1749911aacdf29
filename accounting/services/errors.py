"""Input of people that a service refuses. It must not know who asked: pages, admin and REST show it each in its way."""

from __future__ import annotations

from collections.abc import Callable

from hami_platform.domain import sentences
from hami_platform.domain.sentences import Sentence


class InvalidInput(ValueError):
    """What a person entered cannot be done. `field` names the entry; empty: the change as a whole.

    `message` is English, for scripts, commands and the log; pages show `told`.
    """

    def __init__(self, field: str, message: str | Sentence) -> None:
        self.sentence = sentences.plain(message) if isinstance(message, str) else message
        self.message = str(self.sentence)
        super().__init__(f"{field}: {self.message}" if field else self.message)
        self.field = field

    def told(self, translate: Callable[[str], str]) -> str:
        """The message in a reader's language."""
        return self.sentence.text(translate)


class Outdated(InvalidInput):
    """Somebody else changed the row after this person read it. Read it again, then decide."""
