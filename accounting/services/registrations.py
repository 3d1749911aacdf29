"""Since when a node has offered a device, and of what size: the capacity that bills divide into use and idle time.

A device counts while its node registers it: also unhealthy or cordoned, since its owner pays for it then, too. It does
not while its node or plugin is gone, or while its uuid is live on two nodes. What was registered before this was
recorded counts from the first look on. It must not know what a device costs.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db.models import QuerySet

from accounting import bulk, ledger
from accounting.ledger import Entry
from accounting.models import Device, Registration

Key = tuple[str, str, str]
"""Node, vendor, uuid."""
Amounts = tuple[str, int, int]
"""Model, MiB, core %."""


def registrations_follow(entry: Entry, *, nodes: Collection[str]) -> None:
    """Record what these nodes offer now, and end what they no longer offer."""
    offered = _offered(Device.objects.filter(node__name__among=nodes))
    for row in _open().filter(node__among=nodes):
        if offered.get(_key(row)) == _amounts(row):
            del offered[_key(row)]
        else:
            row.ended_at = entry.at
            row.save(update_fields=["ended_at"])
    cluster = entry.clock.cluster_id
    rows = ((cluster, *key, *amounts, entry.at) for key, amounts in offered.items())
    bulk.insert(Registration, _COLUMNS, rows)


def registrations_check() -> int:
    """The same for every node of which something differs; their number. Nothing is locked where all is well."""
    offered = _offered(Device.objects.all())
    known = {_key(row): _amounts(row) for row in _open()}
    nodes = {key[0] for key in offered.keys() | known.keys() if offered.get(key) != known.get(key)}
    if nodes:
        with ledger.transaction(cause="registrations_check") as entry:
            registrations_follow(entry, nodes=nodes)
    return len(nodes)


def _offered(rows: QuerySet[Any]) -> dict[Key, Amounts]:
    rows = rows.filter(cluster=ledger.cluster_id(), registered=True, conflict=False, node__retired=False)
    columns = ("node__name", "node__gone_vendors", "vendor", "uuid", "model", "memory_mib", "core_percent")
    return {
        (node, vendor, uuid): (model, memory_mib, core_percent)
        for node, gone, vendor, uuid, model, memory_mib, core_percent in rows.values_list(*columns)
        if vendor not in gone
    }


def _open() -> QuerySet[Any]:
    return Registration.objects.filter(cluster=ledger.cluster_id(), ended_at=None)


def _key(row: Registration) -> Key:
    return row.node, row.vendor, row.uuid


def _amounts(row: Registration) -> Amounts:
    return row.model, row.memory_mib, row.core_percent


_COLUMNS = ("cluster_id", "node", "vendor", "uuid", "model", "memory_mib", "core_percent", "started_at")
