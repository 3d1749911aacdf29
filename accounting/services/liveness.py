"""Which vendors' plugins are gone from which nodes (D10): nothing allocatable, and no sign of life for the liveness
time-out.

Signs of life lie outside the ledger: they are stamps, not decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from accounting import ledger
from accounting.models import Node, NodeLiveness
from accounting.services.node_seen import NodeSeen
from hami_platform import env
from hami_platform.domain.vendors.base import DeviceConfig


def gone_vendors(seen: Sequence[NodeSeen], config: DeviceConfig) -> dict[str, tuple[str, ...]]:
    """Node → vendors with devices registered whose plugin is gone. Also renews what is stored of each node's
    allocatable."""
    stored = {
        row.node.name: row
        for row in NodeLiveness.objects.filter(node__cluster=ledger.cluster_id()).select_related("node")
    }
    now = ledger.database_time()
    found = {}
    for one in seen:
        row = stored.get(one.name)
        if row is not None and row.allocatable != one.allocatable:
            NodeLiveness.objects.filter(pk=row.pk).update(allocatable=dict(one.allocatable))
        registered = {device.vendor for device in one.devices}
        silent = row is not None and _silent(row, now)
        found[one.name] = tuple(sorted(word for word in registered if silent and not one.allocatable.get(word)))
    return found


def first_seen(names: Sequence[str]) -> None:
    """Give these nodes their liveness row; the first sight counts as a sign of life."""
    now = ledger.database_time()
    for node in Node.objects.filter(cluster=ledger.cluster_id(), name__in=list(names), liveness=None):
        NodeLiveness.objects.get_or_create(node=node, defaults={"first_seen_at": now})


def sign_of_life(*, node: str, lease_at: datetime | None = None, report_at: datetime | None = None) -> None:
    """An agent's Lease was renewed, or it reported over REST."""
    stamps = {name: at for name, at in (("lease_at", lease_at), ("report_at", report_at)) if at is not None}
    NodeLiveness.objects.filter(node__cluster=ledger.cluster_id(), node__name=node).update(**stamps)


def _silent(row: NodeLiveness, now: datetime) -> bool:
    signs = [at for at in (row.handshake_at, row.lease_at, row.report_at, row.first_seen_at) if at is not None]
    return bool(signs) and now - max(signs) > timedelta(seconds=env.current().liveness_timeout_s)
