"""Who may launch kernels freely, who is held to its share, who waits: decided each round from what all regions say.

Pure. Two words of each region steer its library: `recent_kernel` below 0 blocks launches, `utilization_switch` 1
enforces the core limit. Numbers are as in HAMi: a lower priority number goes first.
Source: HAMi v2.10.0, cmd/vGPUmonitor feedback loop. Knowingly different: there a container counts as active only
through `recent_kernel`, which libraries since March 2026 no longer write while the switch is off; so the switch fell
and never rose again, and priority had no effect. Here a launch in the last two rounds counts as well, by the time that
every library writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from deviceplugin.region import Words

ENFORCED: Final = 1
FREE: Final = 0
BLOCKED: Final = -1

Active = Mapping[str, Mapping[int, int]]
"""How many containers of each priority are active on each device, by its uuid."""


@dataclass(frozen=True, slots=True)
class Member:
    """One container in the round. last_kernel_s: unix time, 0 where unknown."""

    uuids: tuple[str, ...]
    priority: int
    words: Words
    last_kernel_s: int = 0


def decide(members: Mapping[str, Member], now_s: float, period_s: float) -> dict[str, Words]:
    """What each container's words should be now, by the same keys."""
    recents = {key: _counted_down(member.words.recent) for key, member in members.items()}
    active = active_of(
        member for key, member in members.items() if recents[key] > 0 or _launched(member, now_s, period_s)
    )
    return {key: _words(member, recents[key], active) for key, member in members.items()}


def active_of(members: Iterable[Member]) -> dict[str, Counter[int]]:
    """Count these containers on their devices. A priority below 0 counts nowhere."""
    active: dict[str, Counter[int]] = {}
    for member in members:
        if member.priority >= 0:
            for uuid in member.uuids:
                active.setdefault(uuid, Counter())[member.priority] += 1
    return active


def blocked(priority: int, uuids: Iterable[str], active: Active) -> bool:
    """Whether somebody who goes first is active on one of the devices."""
    return any(
        count > 0 and other < priority for uuid in uuids for other, count in active.get(uuid, Counter[int]()).items()
    )


def contended(priority: int, uuids: Iterable[str], active: Active) -> bool:
    """Whether the core limit is to be enforced: somebody goes first, or several of the same priority are active."""
    uuids = tuple(uuids)
    shared = any(active.get(uuid, Counter[int]()).get(priority, 0) > 1 for uuid in uuids)
    return blocked(priority, uuids, active) or (priority >= 0 and shared)


def _counted_down(recent: int) -> int:
    return recent - 1 if recent > 0 else recent


def _launched(member: Member, now_s: float, period_s: float) -> bool:
    """A time in the future is nobody's launch."""
    return bool(member.last_kernel_s) and 0 <= now_s - member.last_kernel_s <= 2 * period_s


def _words(member: Member, recent: int, active: Active) -> Words:
    waits = blocked(member.priority, member.uuids, active)
    if waits and recent >= 0:
        recent = BLOCKED
    elif not waits and recent < 0:
        recent = FREE
    return Words(recent, ENFORCED if contended(member.priority, member.uuids, active) else FREE)
