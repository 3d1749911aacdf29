"""How well two devices of a node are connected: annotation `hami.io/node-nvidia-score`, JSON.

`[{"uuid":"GPU-0","score":{"GPU-1":50}}]`. A pair that is missing scores 0. Must not know: what a score means.
Source: HAMi v2.10.0.
"""

from __future__ import annotations

from typing import Any

from hami_platform.domain import nodes
from hami_platform.domain.wire import fields

UUID_MAX = 128


def encode(scores: nodes.PairScores) -> str:
    """The JSON form, sorted by uuid. Devices without any score are left out."""
    table: dict[str, dict[str, int]] = {}
    for (a, b), score in sorted(scores.items()):
        table.setdefault(a, {})[b] = score
    return fields.dumps([{"uuid": uuid, "score": row} for uuid, row in table.items()])


def decode(text: str) -> dict[tuple[str, str], int]:
    """(uuid, uuid) -> score, both directions as written. Raises WireError naming the entry."""
    scores: dict[tuple[str, str], int] = {}
    for i, entry in enumerate(fields.items(fields.loads(text), "device")):
        scores.update(_row(entry, f"device {i}"))
    return scores


def _row(entry: dict[str, Any], field: str) -> dict[tuple[str, str], int]:
    uuid, score = fields.storable(fields.text(entry, "uuid", field), UUID_MAX, field), entry.get("score") or {}
    # The other side is a uuid, not a key: its case counts.
    fields.members(score, f"{field}: score")
    return {
        (uuid, fields.storable(other, UUID_MAX, field)): fields.number({"score": value}, "score", f"{field}: {other}")
        for other, value in score.items()
    }
