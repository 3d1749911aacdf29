"""Which replicas or instances go well together, for containers whose cards nobody has reserved.

Pure. Must not know: gRPC, reservations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from deviceplugin import inventory, replicas

SAME_NUMA = 5
"""Worth of a common NUMA node: it decides between pairs of one score, and never against a better link."""


def closest(choice: replicas.Choice, cards: Sequence[inventory.Card]) -> tuple[str, ...]:
    """One replica of each of `size` cards that reach each other best. Empty when there are not so many cards."""
    free: dict[str, list[str]] = {}
    for replica in sorted(set(choice.available) - set(choice.must)):
        free.setdefault(replicas.physical(replica, {card.uuid for card in cards}), []).append(replica)
    begun = tuple(replicas.physical(replica, {card.uuid for card in cards}) for replica in choice.must)
    known = {card.uuid: card for card in cards}
    missing = choice.size - len(choice.must)
    sets = [grown for start in _starts(begun, free) if (grown := _grow(start, free, known, len(begun) + missing))]
    if missing < 0 or not sets:
        return ()
    best = max(sets, key=lambda uuids: (_worth(uuids, known), [-_index(one, known) for one in uuids]))
    return (*choice.must, *(free[uuid][0] for uuid in best[len(begun) :]))


def compact(choice: replicas.Choice, card_of: Mapping[str, str]) -> tuple[str, ...]:
    """Instances of as few cards as possible, so that whole cards stay free. Empty when there are not enough."""
    chosen = list(choice.must)
    free = [one for one in sorted(choice.available) if one not in chosen and one in card_of]
    while len(chosen) < choice.size and free:
        used = {card_of.get(one) for one in chosen}
        missing = choice.size - len(chosen)
        best = min(free, key=lambda one: (card_of[one] not in used, *_room(one, free, card_of, missing), one))
        free.remove(best)
        chosen.append(best)
    return tuple(chosen) if len(chosen) == choice.size else ()


def _room(one: str, free: Sequence[str], card_of: Mapping[str, str], missing: int) -> tuple[bool, int]:
    """Cards that suffice first, the tightest of them; otherwise the one with most."""
    there = sum(card_of[other] == card_of[one] for other in free)
    return (True, -there) if there < missing else (False, there)


def _starts(begun: tuple[str, ...], free: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, ...]]:
    if begun:
        yield begun
    else:
        yield from ((uuid,) for uuid in sorted(free))


def _grow(
    start: tuple[str, ...], free: Collection[str], known: Mapping[str, inventory.Card], size: int
) -> tuple[str, ...]:
    """Add the card that reaches the others best until there are enough; empty when they run out."""
    chosen = start
    while len(chosen) < size:
        rest = [uuid for uuid in free if uuid not in chosen]
        if not rest:
            return ()
        chosen += (max(rest, key=lambda uuid: (_worth((*chosen, uuid), known), -_index(uuid, known))),)
    return chosen


def _worth(uuids: Sequence[str], known: Mapping[str, inventory.Card]) -> int:
    return sum(_pair(known.get(one), known.get(other)) for one in uuids for other in uuids if one != other)


def _pair(one: inventory.Card | None, other: inventory.Card | None) -> int:
    if one is None or other is None:
        return 0
    near = one.numa is not None and one.numa == other.numa
    return sum(peer.score for peer in one.peers if peer.uuid == other.uuid) + SAME_NUMA * near


def _index(uuid: str, known: Mapping[str, inventory.Card]) -> int:
    return known[uuid].index if uuid in known else -1
