"""What the formats share: numbers, bools and JSON as Go's strconv and encoding/json read and write them.

Must not know: any one format. Every reader names the field in the WireError that it raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from hami_platform.domain import errors, units

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
# Source: Go encoding/json, which escapes these so that JSON may stand inside HTML.
_HTML = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


def integer(text: str, field: str, *, least: int = -(2**31), most: int = units.INT32_MAX) -> int:
    """A base-10 integer as Go's ParseInt reads it: a sign is allowed; blanks, underscores and dots are not."""
    if _INTEGER.fullmatch(text) is None or not least <= int(text) <= most:
        raise errors.WireError(f"{text[:40]!r} is not an integer from {least} to {most}", field=field)
    return int(text)


def boolean(text: str | None) -> bool | None:
    """A bool as Go's ParseBool reads it; None where the text is none of its twelve words."""
    return True if text in _TRUE else False if text in _FALSE else None


def loads(text: str) -> Any:
    """The JSON value. Raises WireError, also for NaN and for nesting that Python cannot follow.

    An escape of half a character reads as U+FFFD, as in Go: no database and no other program takes it as it is.
    """
    try:
        value = json.loads(text, parse_constant=_refuse)
        return _whole_characters(value) if "\\u" in text or not text.isascii() else value
    except (ValueError, RecursionError) as error:
        raise errors.WireError(f"not JSON: {error}") from error


def _whole_characters(value: Any) -> Any:
    plain = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass")
    return json.loads(plain.decode("utf-16", "replace"))


def dumps(value: object) -> str:
    """JSON without blanks, keys in the order given, non-ASCII as it is and HTML characters escaped, as Go writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_HTML)


def items(value: Any, field: str = "") -> list[dict[str, Any]]:
    """A JSON array of objects with keys in lower case; null reads as empty."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise errors.WireError("an array is expected", field=field)
    return [members(item, f"{field} {i}".strip()) for i, item in enumerate(value)]


def members(value: Any, field: str) -> dict[str, Any]:
    """The members of a JSON object by lower-case key, without those that are null (Go leaves those at zero)."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise errors.WireError("an object is expected", field=field)
    return {key.lower(): member for key, member in value.items() if member is not None}


def number(
    value: Mapping[str, Any], key: str, field: str, *, least: int = -(2**31), most: int = units.INT32_MAX
) -> int:
    """An integer member; absent reads as 0. 1.0 and 1e3 are no integers (as in Go)."""
    found = value.get(key.lower(), 0)
    if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
        raise errors.WireError(f"an integer from {least} to {most} is expected", field=f"{field}: {key}")
    return found


def text(value: Mapping[str, Any], key: str, field: str) -> str:
    """A text member; absent reads as ""."""
    found = value.get(key.lower(), "")
    if not isinstance(found, str):
        raise errors.WireError("a text is expected", field=f"{field}: {key}")
    return found


def flag(value: Mapping[str, Any], key: str, field: str) -> bool:
    """A bool member; absent reads as false."""
    found = value.get(key.lower(), False)
    if not isinstance(found, bool):
        raise errors.WireError("true or false is expected", field=f"{field}: {key}")
    return found


def storable(text: str, most: int, field: str) -> str:
    """The text, if the ledger can keep it: at most so many characters, none of them NUL. Raises WireError.

    Annotations may hold both, and nobody else refuses them.
    """
    if len(text) > most or "\0" in text:
        raise errors.WireError(f"{text[:40]!r} is longer than {most} characters or holds a NUL", field=field)
    return text


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")
