"""Compares a result with a recorded one: exactly, but for times, and for texts whose wording is each product's own.

Must not know: how results are made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TIMES = {
    "<unix>": r"\d{9,11}",
    "<unixnano>": r"\d{18,20}",
    "<now>": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d",
    "<old>": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d",
    "<rfc3339-now>": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d)",
    "<rfc3339-old>": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d)",
}
"""Placeholder → the form of what stands there."""
_PLACE = re.compile("|".join(map(re.escape, TIMES)))
_PATCH = re.compile(r"base64 of \d+ bytes")

SCORE = 0.011  # scores are written with two decimals
WORDED = frozenset(("error", "Error", "message", "skipped"))
"""Keys whose text is for people: they are compared by whether there is one. Reason words stand elsewhere."""
WORDS = ("exceeding resource quota", "is privileged")
"""Words that clients look for in a message: they must be in ours if they are in the recorded one."""
DEFAULTS = frozenset(("code", "message"))
"""What an admission answer may say beside yes, and nobody reads."""
UNCOMPARED = frozenset(("patchPaths", "why"))


@dataclass(frozen=True, slots=True)
class Difference:
    """In which step and where in its result (`usage.n1.GPU-a.mem`), what was recorded and what we got."""

    step: int
    inside: str
    expected: Any
    got: Any

    def text(self) -> str:
        """One line."""
        return f"step {self.step} {self.inside}: expected {_short(self.expected)}, got {_short(self.got)}"


ABSENT = "(absent)"


def steps(expected: Sequence[Any], got: Sequence[Any]) -> list[Difference]:
    """Every difference between the results of a vector's steps."""
    return [
        Difference(index, path, there, here)
        for index, (one, other) in enumerate(zip(expected, got, strict=True))
        for path, there, here in differences(one, other, "")
    ]


Found = tuple[str, Any, Any]
"""(path, recorded, got)"""


def differences(expected: Any, got: Any, path: str) -> Iterator[Found]:
    """Where two JSON values differ."""
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        yield from _of_mappings(expected, got, path)
    elif isinstance(expected, (list, tuple)) and isinstance(got, (list, tuple)):
        if len(expected) != len(got):
            yield path, expected, got
            return
        for index, (one, other) in enumerate(zip(expected, got, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif not _same(expected, got, path):
        yield path, expected, got


def _of_mappings(expected: Mapping[str, Any], got: Mapping[str, Any], path: str) -> Iterator[Found]:
    for key in sorted({*expected, *got} - UNCOMPARED):
        if key in DEFAULTS and expected.get("allowed") is True and got.get("allowed") is True:
            continue
        one, other = expected.get(key, ABSENT), got.get(key, ABSENT)
        if {} in (one, other) and ABSENT in (one, other):
            continue  # an empty object of Go's is nothing
        where = f"{path}.{key}" if path else key
        if key == "events":
            yield from _events(one, other, where)
        elif key in WORDED and isinstance(one, str) and isinstance(other, str):
            if not _means(one, other):
                yield where, one, other
        elif key == "error" and one is True and isinstance(other, str) and other:
            continue  # recorded without its words
        else:
            yield from differences(one, other, where)


def _means(expected: str, got: str) -> bool:
    """Whether both texts say something, or nothing, with the words that clients look for."""
    if ABSENT in (expected, got) or not expected or not got:
        return (expected or ABSENT) == (got or ABSENT)
    return all(word in got for word in WORDS if word in expected)


def _events(expected: Any, got: Any, path: str) -> Iterator[Found]:
    """Without regard to order. An event that repeats an error has that error's wording."""
    one = [] if expected == ABSENT else sorted(map(_event, expected))
    other = [] if got == ABSENT else sorted(map(_event, got))
    if one != other:
        yield path, expected, got


_SAID = re.compile(r"Warning FilteringFailed (?:no available node, \d+ nodes do not meet|\d+ nodes \S+\(.*\))")


def _event(text: str) -> str:
    if text.startswith("Warning BindingFailed "):
        return "Warning BindingFailed *"
    if text.startswith("Warning FilteringFailed ") and not _SAID.fullmatch(text):
        return "Warning FilteringFailed *"
    return text


def _same(expected: Any, got: Any, path: str) -> bool:
    if isinstance(expected, str) and isinstance(got, str):
        if _PATCH.fullmatch(expected) and _PATCH.fullmatch(got):
            return True  # operations are each product's own (K29); what they make of the pod is compared
        return expected == got or _timed(expected, got)
    if path.startswith("scores."):
        numbers = isinstance(expected, (int, float)) and isinstance(got, (int, float))
        return numbers and abs(expected - got) <= SCORE
    return type(expected) is type(got) and bool(expected == got)


def _timed(expected: str, got: str) -> bool:
    parts = _PLACE.split(expected)
    places = _PLACE.findall(expected)
    if not places:
        return False
    pattern = "".join(re.escape(part) + TIMES.get(place, "") for part, place in zip(parts, [*places, ""], strict=True))
    return re.fullmatch(pattern, got) is not None


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 300 else f"{text[:300]}…"


_FORMS = (
    (re.compile(r"^\d{9,11}$"), "<unix>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d)"), "<rfc3339-now>"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "<now>"),
)


def with_forms(text: str) -> str:
    """The text with times in it replaced by placeholders."""
    for pattern, place in _FORMS:
        text = pattern.sub(place, text)
    return text
