"""Devices that belong together (one card, one network): taken from as few groups as possible, and scored by it.

Source: HAMi v2.10.0; where it leaves ties open, the group that comes first by name is taken.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence

from hami_platform.domain.devices import Device
from hami_platform.domain.strategy import Outcome


def largest_first(count: int, groups: Sequence[object]) -> tuple[int, ...] | None:
    """Positions of `count` devices, given the group of each in order of preference. None: no group, never taken.

    The largest group is emptied first, then the next; within a group the order of preference stays.
    """
    sizes = Counter(group for group in groups if group is not None)
    order = sorted(sizes, key=lambda group: (-sizes[group], _by_name(group)))
    positions = [i for wanted in order for i, group in enumerate(groups) if group == wanted]
    return tuple(positions[:count]) if len(positions) >= count else None


def together(outcome: Outcome, group_of: Callable[[Device], object]) -> float:
    """Σ over containers of the largest group's part of the container's devices; 0 where a device has no group."""
    total = 0.0
    for _, shares in itertools.groupby(outcome.shares, key=lambda share: share.container_index):
        devices = [outcome.device(share.uuid) for share in shares]
        groups = [group_of(device) if device is not None else None for device in devices]
        if any(group is None for group in groups):
            return 0.0
        total += max(Counter(groups).values()) / len(groups)
    return total


def _by_name(group: object) -> tuple[bool, float, str]:
    """Numbers by value, then texts."""
    number = isinstance(group, (int, float))
    return (not number, float(group) if isinstance(group, (int, float)) else 0.0, str(group))
