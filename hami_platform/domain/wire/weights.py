"""How a pod weighs the terms of the device score: annotation `hami.io/device-scoring-weights`.

`slot=1,core=1,memory=3`: all three, in any order, each at least 0, not all 0. Must not know: the score.
Source: HAMi v2.10.0.
"""

from __future__ import annotations

from hami_platform.domain import errors, requests
from hami_platform.domain.wire import fields

KEY = "hami.io/device-scoring-weights"

_NAMES = ("slot", "core", "memory")
_INT64_MAX = 2**63 - 1


def encode(weights: requests.Weights) -> str:
    """The annotation's text."""
    return f"slot={weights.slot},core={weights.core},memory={weights.memory}"


def decode(text: str) -> requests.Weights:
    """The weights. Raises WireError saying what is wrong; an empty text is an error too."""
    parts = text.split(",")
    if len(parts) != len(_NAMES):
        raise errors.WireError(f"three weights are expected (slot, core, memory), found {len(parts)}")
    values = dict(_part(part) for part in parts)
    if len(values) < len(_NAMES):
        raise errors.WireError("a weight is given twice")
    if not any(values.values()):
        raise errors.WireError("at least one weight must be positive")
    return requests.Weights(**values)


def _part(part: str) -> tuple[str, int]:
    name, equals, value = part.partition("=")
    name = name.strip()
    if not equals:
        raise errors.WireError(f"key=value is expected, found {part.strip()[:40]!r}")
    if name not in _NAMES:
        raise errors.WireError(f"unknown weight {name[:40]!r}")
    return name, fields.integer(value.strip(), name, least=0, most=_INT64_MAX)
