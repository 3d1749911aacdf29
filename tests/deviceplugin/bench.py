"""An Allocator over its parts, as the agent puts them together, for tests of one call at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from deviceplugin import align, allocate, board, checkpoint, grants, handover, inventory, outfit, reach, restore
from tests.deviceplugin.builders import GPU_A, NODE


def ids(counts: Sequence[int], uuid: str = GPU_A) -> list[list[str]]:
    """So many replica ids for each container, no two the same, all of one card."""
    numbers = iter(range(sum(counts)))
    return [[f"{uuid}-{next(numbers)}" for _ in range(count)] for count in counts]


def allocator(
    records: handover.Handover,
    cards: inventory.Inventory,
    record: checkpoint.Checkpoint,
    folder: Path,
    *,
    done: Callable[[], None] = lambda: None,
    check_library: bool = False,
    mover: align.Mover | None = None,
    reached: reach.Reach | None = None,
) -> allocate.Allocator:
    """With the cards as they are now, and `folder` above `vgpu`."""
    shown = board.Board()
    shown.publish(cards.scan())
    enforcement = grants.Enforcement(hook=str(folder))
    return allocate.Allocator(
        records,
        outfit.Outfitter(
            shown, cards, enforcement, check_library=check_library, reached=reached, unique=lambda: "c0ffee"
        ),
        threading.Lock(),
        done,
        shown=shown,
        aligner=align.Aligner(NODE, mover),
        restorer=restore.Restorer(record, cards, enforcement, shared=check_library),
    )
