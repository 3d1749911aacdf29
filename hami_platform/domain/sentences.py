"""Sentences for people as values: a template and its numbers, so that one answer reads the same wherever it is shown.

Knows neither language nor page: whoever shows a sentence may translate the template and group the digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Value = int | str


@dataclass(frozen=True, slots=True)
class Sentence:
    """`template` has its values as `%(name)s`; numbers stay numbers until they are shown."""

    template: str
    values: tuple[tuple[str, Value], ...] = ()

    def text(self, translate: Callable[[str], str] = str, number: Callable[[int], str] = str) -> str:
        """The sentence in words. translate: of the template. number: how an integer is written."""
        shown = {name: number(value) if isinstance(value, int) else value for name, value in self.values}
        return translate(self.template) % shown

    def __str__(self) -> str:
        return self.text()


def phrase(template: str, **values: Value) -> Sentence:
    """A sentence. `make messages` collects the template, so it must be a literal."""
    return Sentence(template, tuple(values.items()))
