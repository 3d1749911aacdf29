"""What devices were there over some time, of what size, and who held what of them: rows as the domain's values.

It must not know hours, prices or who asks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db.models import Q, QuerySet

from accounting import ledger
from accounting.models import Device, Registration, UsageInterval
from hami_platform.domain.cost import Card, Use

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_US: Final = timedelta(microseconds=1)

Key = tuple[str, str, str]
"""Node, vendor, uuid."""
Kind = tuple[str, str]
"""Vendor and model."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """One device while its size stayed the same, and all that was held of it. A use's holder is (namespace, owner); its
    time may reach beyond the card's. slots, pods (uids), names: of each use, in their order."""

    key: Key
    kind: Kind
    card: Card
    uses: tuple[Use, ...] = ()
    slots: tuple[int, ...] = ()
    pods: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def namespace_and_owner(holder: Any) -> tuple[str, str]:
    """Of a use that stands in a stretch."""
    namespace, owner = holder
    return namespace, owner


def us_of(at: datetime) -> int:
    """Microseconds since 1970."""
    return (at - _EPOCH) // _US


def stretches(
    start: datetime, end: datetime, *, node: str = "", uuid: str = "", uuids: Collection[str] | None = None
) -> Iterator[Stretch]:
    """Every device that was there between the two times, registered or held; of one node, device or some devices only,
    if named."""
    chosen: dict[str, Any] = {name: text for name, text in (("node", node), ("uuid", uuid)) if text}
    chosen |= {} if uuids is None else {"uuid__in": uuids}
    held: dict[Key, list[UsageInterval]] = defaultdict(list)
    for use in _within(UsageInterval.objects.filter(simulated=False, **chosen), start, end):
        held[use.node, use.vendor, use.uuid].append(use)
    known: dict[Key, list[tuple[Kind, Card]]] = defaultdict(list)
    for row in _within(Registration.objects.filter(**chosen), start, end):
        span = _clipped(row, start, end)
        known[row.node, row.vendor, row.uuid].append(((row.vendor, row.model), _card(row, *span)))
    sizes = _sizes([key for key in held if key not in known])
    for key in sorted(known.keys() | held.keys()):
        cards = known.get(key, [])
        uses = held.get(key, [])
        yield from _of(key, [*cards, *_held_only(cards, uses, sizes.get(key), us_of(start), us_of(end))], uses, end)


def _within(rows: QuerySet[Any], start: datetime, end: datetime) -> Iterable[Any]:
    return (
        rows.filter(Q(ended_at=None) | Q(ended_at__gt=start), cluster=ledger.cluster_id(), started_at__lt=end)
        .order_by("pk")
        .iterator()
    )


def _clipped(row: Any, start: datetime, end: datetime) -> tuple[int, int]:
    return us_of(max(row.started_at, start)), us_of(min(row.ended_at or end, end))


def _card(row: Any, start_us: int, end_us: int) -> Card:
    return Card(row.memory_mib, row.core_percent, start_us, end_us)


def _of(key: Key, cards: Iterable[tuple[Kind, Card]], uses: list[UsageInterval], end: datetime) -> Iterator[Stretch]:
    values = tuple(
        Use(
            (one.namespace, one.owner),
            one.memory_mib,
            one.core_percent,
            us_of(one.started_at),
            us_of(one.ended_at or end),
        )
        for one in uses
    )
    for kind, card in cards:
        if card.start_us < card.end_us:
            yield Stretch(
                key,
                kind,
                card,
                values,
                slots=tuple(one.slots for one in uses),
                pods=tuple(one.pod_uid for one in uses),
                names=tuple(one.pod_name for one in uses),
            )


def _held_only(
    cards: list[tuple[Kind, Card]], uses: list[UsageInterval], size: Device | None, start_us: int, end_us: int
) -> Iterator[tuple[Kind, Card]]:
    """The times at which the device was held and not registered. Its size: as registered before or after, or last
    known."""
    taken = sorted((card.start_us, card.end_us) for _, card in cards)
    for one in sorted(uses, key=lambda use: use.started_at):
        begin, until = (
            max(us_of(one.started_at), start_us),
            min(us_of(one.ended_at) if one.ended_at else end_us, end_us),
        )
        for gap in _gaps(taken, begin, until):
            kind, like = cards[0] if cards else ((one.vendor, (size.model if size else "") or one.model), None)
            known: Any = like or size
            yield kind, _card(known, *gap) if known else Card(0, 0, *gap)
        taken = sorted([*taken, (begin, until)])


def _gaps(taken: list[tuple[int, int]], begin: int, until: int) -> Iterator[tuple[int, int]]:
    """What of begin…until lies in none of the sorted spans."""
    for start, end in taken:
        if start > begin and min(start, until) > begin:
            yield begin, min(start, until)
        begin = max(begin, end)
    if begin < until:
        yield begin, until


def _sizes(keys: list[Key]) -> dict[Key, Device]:
    """The devices as they are known now."""
    if not keys:
        return {}
    rows = Device.objects.filter(cluster=ledger.cluster_id(), uuid__in={key[2] for key in keys}).select_related("node")
    return {(row.node.name, row.vendor, row.uuid): row for row in rows}
