"""Which vendors' plugins are gone from which nodes (D10): nothing allocatable, and no sign of life for the liveness
time-out.

A sign of life is something that only a plugin or an agent does: a handshake answered, a registration that changed, a
Lease renewed, a report over REST. Our own handshake request is none, so a plugin that died stays out until it is back.
Signs lie outside the ledger: they are stamps, not decisions. Their times are the database's, whatever the texts say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from accounting import ledger
from accounting.models import Node, NodeLiveness
from accounting.services.node_seen import NodeSeen
from hami_platform import env
from hami_platform.domain.vendors.base import DeviceConfig
from hami_platform.domain.wire import handshake

BATCH = 500


def gone_vendors(seen: Sequence[NodeSeen], config: DeviceConfig) -> dict[str, tuple[str, ...]]:
    """Node → vendors with devices registered whose plugin is gone. Also notes the signs of life that the nodes show."""
    stored = _stored()
    now = ledger.database_time()
    _note(seen, stored, now)
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
    unknown = Node.objects.filter(cluster=ledger.cluster_id(), name__in=list(by_name), liveness=None)
    NodeLiveness.objects.bulk_create(
        (_first_sight(node, by_name[node.name], now) for node in unknown), batch_size=500, ignore_conflicts=True
    )


def _first_sight(node: Node, one: NodeSeen, now: datetime) -> NodeLiveness:
    return NodeLiveness(node=node, first_seen_at=now, marks=_marks(one), allocatable=dict(one.allocatable))


def leases_heard(renewed: Mapping[str, str]) -> int:
    """Node → renewTime of its agent's Lease. A text that changed is a renewal, now; the number of those."""
    now = ledger.database_time()
    fresh = [
        NodeLiveness(node_id=row.node_id, lease_renewed=renewed[name][:40], lease_at=now)
        for name, row in _stored().items()
        if renewed.get(name) and renewed[name][:40] != row.lease_renewed
    ]
    _write(fresh, "lease_renewed", "lease_at")
    return len(fresh)


def report_heard(*, node: str) -> None:
    """The node's agent reported over REST."""
    rows = NodeLiveness.objects.filter(node__cluster=ledger.cluster_id(), node__name=node)
    rows.update(report_at=ledger.database_time())


def _stored() -> dict[str, NodeLiveness]:
    rows = NodeLiveness.objects.filter(node__cluster=ledger.cluster_id()).select_related("node")
    return {row.node.name: row for row in rows}


def _note(seen: Sequence[NodeSeen], stored: Mapping[str, NodeLiveness], now: datetime) -> None:
    changed = []
    for one in seen:
        row = stored.get(one.name)
        marks = _marks(one)
        if row is None or (row.marks == marks and row.allocatable == one.allocatable):
            continue
        if any(row.marks.get(key) != text and _tells(key, text) for key, text in marks.items()):
            row.handshake_at = now
        row.marks, row.allocatable = marks, dict(one.allocatable)
        kept = {"marks": row.marks, "allocatable": row.allocatable, "handshake_at": row.handshake_at}
        changed.append(NodeLiveness(node_id=row.node_id, **kept))
    _write(changed, "marks", "allocatable", "handshake_at")


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


def _silent(row: NodeLiveness, now: datetime) -> bool:
    signs = [at for at in (row.handshake_at, row.lease_at, row.report_at, row.first_seen_at) if at is not None]
    return bool(signs) and now - max(signs) > timedelta(seconds=env.current().liveness_timeout_s)
