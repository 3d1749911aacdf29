"""Sentences as they lie in a row, so that whoever reads it later is told in her own language.

Must not know: who says them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hami_platform.domain.sentences import Sentence, Value


def kept(said: Value) -> Any:
    """As JSON: a number or text as it is, a sentence as [template, {name: value}]."""
    if isinstance(said, Sentence):
        return [said.template, {name: kept(value) for name, value in said.values}]
    return said


def told(row: Any, translate: Callable[[str], str], number: Callable[[int], str] = str) -> str:
    """What `kept` has kept, in words. Raises KeyError or ValueError for what it has not."""
    return str(_read(row)) if not isinstance(row, list) else _sentence(row).text(translate, number)


def _read(row: Any) -> Value:
    return _sentence(row) if isinstance(row, list) else row if isinstance(row, int) else str(row)


def _sentence(row: list[Any]) -> Sentence:
    template, values = row
    return Sentence(str(template), tuple((name, _read(value)) for name, value in values.items()))
