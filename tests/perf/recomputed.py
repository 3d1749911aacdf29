"""What a filled database says when all of it is worked out anew, slowly: `python -m tests.perf.recomputed MIB...`.

Prints JSON: the devices whose use, by plain SQL over the rows, is not what the View has; and for a pod of one device
and each of these amounts the answer of a brute force over all nodes, which shares no code with placement.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

import django

CORES = 10
USED = """
    SELECT p.node, s.uuid, count(*), sum(s.memory_mib), sum(s.core_percent)
    FROM accounting_share s JOIN accounting_pod p ON p.id = s.pod_id
    WHERE p.state NOT IN ('waiting', 'claimed', 'ended') GROUP BY p.node, s.uuid
"""


def main(amounts_mib: list[int]) -> None:
    """Recompute, compare, print."""
    django.setup()
    from accounting import live_view

    view = live_view.live().refresh()
    found = {"differences": differences(view), "answers": [answer(view, mib) for mib in amounts_mib]}
    sys.stdout.write(json.dumps(found))


def differences(view: Any) -> list[str]:
    """Devices on which the View and the rows do not agree."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(USED)
        rows = {(node, uuid): (slots, int(mib), int(cores)) for node, uuid, slots, mib, cores in cursor.fetchall()}
    seen = {
        (name, one.device.uuid): (one.held.slots, one.held.memory_mib, one.held.core_percent)
        for name, node in view.states.items()
        for one in node.devices
        if one.held
    }
    return [
        f"{key}: rows {rows.get(key)}, view {seen.get(key)}"
        for key in sorted(rows.keys() | seen.keys())
        if rows.get(key) != seen.get(key)
    ]


def answer(view: Any, memory_mib: int) -> dict[str, str]:
    """The node of a pod that asks for so much of one device, or the word for the whole refusal."""
    from hami_platform.domain import quota
    from tests import builders
    from tests.domain import oracle

    request = builders.pod(builders.ask(memory_mib=memory_mib, core_percent=CORES))
    found = oracle.place(view.states, sorted(view.states), request, quota.UNLIMITED, "binpack", "spread")
    if not isinstance(found, dict):
        return {"node": found[0], "reason": ""}
    words = Counter(dominant(text) for text in found.values())
    return {"node": "", "reason": min(words, key=lambda word: (-words[word], word))}


def dominant(text: str) -> str:
    """The most frequent word of HAMi's list `3/8 CardInsufficientMemory, 5/8 …`, ties by name."""
    parts = [part.split("/", 1) for part in text.split(", ") if "/" in part]
    counts = {rest.split(" ", 1)[1]: int(number) for number, rest in parts}
    return min(counts, key=lambda word: (-counts[word], word)) if counts else text


if __name__ == "__main__":
    main(list(map(int, sys.argv[1:])))
