"""Which vendors' plugins are gone from which nodes (D10): nothing allocatable, and no sign of life for the liveness
time-out.

A sign of life is something that only a plugin or an agent does: a handshake answered, a registration that changed, a
Lease renewed, a report over REST. Our own handshake request is none, so a plugin that died stays out until it is back.
Signs lie outside the ledger: they are stamps, not decisions. Their times are the database's, whatever the texts say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from accounting import ledger
from accounting.models import Node, NodeLiveness
from accounting.services.node_seen import NodeSeen
from hami_platform import env
from hami_platform.domain.vendors.base import DeviceConfig
from hami_platform.domain.wire import handshake

BATCH = 500


def gone_vendors(seen: Sequence[NodeSeen], config: DeviceConfig) -> dict[str, tuple[str, ...]]:
    """Node → vendors with devices registered whose plugin is gone. Also notes the signs of life that the nodes show."""
    now = ledger.database_time()
    stored = _note(seen, _stored([one.name for one in seen]), now)
    found = {}
    for one in seen:
        row = stored.get(one.name)
        registered = {device.vendor for device in one.devices}
        silent = row is not None and _silent(row, now)
        found[one.name] = tuple(sorted(word for word in registered if silent and not one.allocatable.get(word)))
    return found


def first_seen(seen: Sequence[NodeSeen]) -> None:
    """Give these nodes their liveness row; the first sight counts as a sign of life."""
    now = ledger.database_time()
    by_name = {one.name: one for one in seen}
    unknown = Node.objects.filter(cluster=ledger.cluster_id(), name__among=list(by_name), liveness=None)
    rows = (_first_sight(node, by_name[name], now) for node, name in unknown.order_by().values_list("pk", "name"))
    NodeLiveness.objects.bulk_create(rows, batch_size=BATCH, ignore_conflicts=True)


def _first_sight(node: int, one: NodeSeen, now: datetime) -> NodeLiveness:
    return NodeLiveness(node_id=node, first_seen_at=now, marks=_marks(one), allocatable=dict(one.allocatable))


def leases_heard(renewed: Mapping[str, str]) -> int:
    """Node → renewTime of its agent's Lease. A text that changed is a renewal, now; the number of those."""
    now = ledger.database_time()
    fresh = [
        NodeLiveness(node_id=row.node_id, lease_renewed=renewed[name][:40], lease_at=now)
        for name, row in _stored(list(renewed)).items()
        if renewed.get(name) and renewed[name][:40] != row.lease_renewed
    ]
    _write(fresh, "lease_renewed", "lease_at")
    return len(fresh)


def report_heard(*, node: str) -> None:
    """The node's agent reported over REST."""
    rows = NodeLiveness.objects.filter(node__cluster=ledger.cluster_id(), node__name=node)
    rows.update(report_at=ledger.database_time())


class _Stored(NamedTuple):
    """A row, as far as it is read here."""

    node_id: int
    marks: Mapping[str, str]
    allocatable: Mapping[str, int]
    lease_renewed: str
    handshake_at: datetime | None
    lease_at: datetime | None
    report_at: datetime | None
    first_seen_at: datetime | None


def _stored(names: list[str]) -> dict[str, _Stored]:
    """Of these nodes, those that have a row."""
    rows = NodeLiveness.objects.filter(node__cluster=ledger.cluster_id(), node__name__among=names).order_by()
    return {name: _Stored(*values) for name, *values in rows.values_list("node__name", *_Stored._fields)}


def _note(seen: Sequence[NodeSeen], stored: Mapping[str, _Stored], now: datetime) -> dict[str, _Stored]:
    """Write what the nodes show of life that is not stored; the rows as they are then."""
    known, changed = dict(stored), []
    for one in seen:
        row, marks = known.get(one.name), _marks(one)
        if row is None or (row.marks == marks and row.allocatable == one.allocatable):
            continue
        if any(row.marks.get(key) != text and _tells(key, text) for key, text in marks.items()):
            row = row._replace(handshake_at=now)
        known[one.name] = row = row._replace(marks=marks, allocatable=dict(one.allocatable))
        kept = {"marks": row.marks, "allocatable": row.allocatable, "handshake_at": row.handshake_at}
        changed.append(NodeLiveness(node_id=row.node_id, **kept))
    _write(changed, "marks", "allocatable", "handshake_at")
    return known


def _write(rows: Sequence[NodeLiveness], *columns: str) -> None:
    """One statement for each batch: thousands of Leases are renewed between two ticks."""
    NodeLiveness.objects.bulk_create(
        rows, batch_size=BATCH, update_conflicts=True, unique_fields=["node"], update_fields=columns
    )


def _marks(seen: NodeSeen) -> dict[str, str]:
    """What the plugins wrote on the node."""
    shakes = {f"handshake {word}": text for word, text in seen.handshakes.items()}
    return shakes | {f"register {word}": text for word, text in seen.registrations.items()}


def _tells(key: str, text: str) -> bool:
    """Whether only a living plugin writes this. A request is the scheduler's, and so is `Deleted_…`."""
    return key.startswith("register") or not (handshake.decode(text).requesting or text.startswith("Deleted"))


def _silent(row: _Stored, now: datetime) -> bool:
    signs = [at for at in (row.handshake_at, row.lease_at, row.report_at, row.first_seen_at) if at is not None]
    return bool(signs) and now - max(signs) > timedelta(seconds=env.current().liveness_timeout_s)
