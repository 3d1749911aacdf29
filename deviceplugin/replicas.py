"""Replica ids: how a card that several containers share looks to kubelet.

kubelet can only hand out whole devices, so each card is advertised `slots` times. Which replica
it picks means nothing: the reservation says which card a container gets.
Must not know: gRPC, or what is reserved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

_UUID_DASHES = 5
"""Dashes in `GPU-` and a UUID; a replica id has one more (HAMi v2.10.0)."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What kubelet leaves open for one container: `size` of the available ids, those in `must` among them."""

    available: tuple[str, ...]
    must: tuple[str, ...]
    size: int


def replica_ids(uuid: str, slots: int) -> tuple[str, ...]:
    """`<uuid>-0` … `<uuid>-<slots-1>`."""
    return tuple(f"{uuid}-{n}" for n in range(slots))


def physical(replica: str, cards: Collection[str] = ()) -> str:
    """The card that a replica id belongs to.

    `cards`, when given, decides for uuids of unusual shape. Otherwise: text before `::` (NVIDIA's
    time slicing), or a sixth dash and a number cut off, or the text itself (HAMi v2.10.0).
    """
    head, separator, tail = replica.rpartition("-")
    if separator and head in cards and tail.isdecimal():
        return head
    if "::" in replica:
        return replica.partition("::")[0]
    if replica.count("-") == _UUID_DASHES + 1 and tail.isdecimal():
        return head
    return replica


def preferred(
    wanted: Sequence[str], available: Iterable[str], must: Sequence[str], size: int, cards: Collection[str] = ()
) -> tuple[str, ...]:
    """`size` of the available replicas that lie on the wanted cards, those in `must` first.

    Empty when that is impossible: kubelet then picks freely.
    """
    chosen = list(must)
    covered = Counter(physical(replica, cards) for replica in must)
    free: dict[str, list[str]] = {}
    for replica in sorted(set(available) - set(must), key=_natural):
        free.setdefault(physical(replica, cards), []).append(replica)
    for uuid in wanted:
        if len(chosen) >= size:
            break
        if covered[uuid] > 0:
            covered[uuid] -= 1
        elif free.get(uuid):
            chosen.append(free[uuid].pop(0))
    return tuple(chosen) if len(chosen) == size else ()


def _natural(replica: str) -> tuple[str, int]:
    """Order by card, then by number: 2 before 10."""
    head, _, tail = replica.rpartition("-")
    return (head, int(tail)) if tail.isdecimal() else (replica, 0)
