"""Sentences for people as values: a template and its numbers, so that one answer reads the same wherever it is shown.

Knows neither language nor page: whoever shows a sentence may translate the template and group the digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Union

Value = Union[int, str, "Sentence"]
"""Numbers stay numbers until they are shown, and sentences within sentences stay sentences."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """`template` has its values as `%(name)s`, and `%` of its own as `%%`."""

    template: str
    values: tuple[tuple[str, Value], ...] = ()

    def text(self, translate: Callable[[str], str] = str, number: Callable[[int], str] = str) -> str:
        """The sentence in words. translate: of the template. number: how an integer is written."""
        return translate(self.template) % {name: _shown(value, translate, number) for name, value in self.values}

    def __str__(self) -> str:
        return self.text()


def phrase(template: str, **values: Value) -> Sentence:
    """A sentence. `make messages` collects the template, so it must be a literal."""
    return Sentence(template, tuple(values.items()))


def plain(text: str) -> Sentence:
    """A text as it is, in no language that we know of: a name, or what another program said."""
    return Sentence("%(text)s", (("text", text),))


def listed(parts: Sequence[Sentence]) -> Sentence:
    """The parts with commas between them."""
    names = [f"p{n}" for n in range(len(parts))]
    return Sentence(", ".join(f"%({name})s" for name in names), tuple(zip(names, parts, strict=True)))


def _shown(value: Value, translate: Callable[[str], str], number: Callable[[int], str]) -> str:
    if isinstance(value, Sentence):
        return value.text(translate, number)
    return number(value) if isinstance(value, int) else value
