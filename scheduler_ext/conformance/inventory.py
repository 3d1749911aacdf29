"""Registered devices in the vectors' terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accounting.models import Node
from hami_platform.domain.devices import Device
from hami_platform.domain.vendors.base import Vendor
from hami_platform.domain.view import View
from hami_platform.domain.wire import node_register

Json = dict[str, Any]


def nodes(view: View) -> Json:
    """Node → vendor → device rows, of every node that offers devices."""
    found: Json = {}
    for name, state in sorted(view.states.items()):
        for one in state.devices:
            pairs = {other: score for (uuid, other), score in state.pair_scores.items() if uuid == one.device.uuid}
            entry = row(one.device) | {"vendor": one.device.vendor} | ({"pairs": pairs} if pairs else {})
            found.setdefault(name, {}).setdefault(one.device.vendor, []).append(entry)
    return found


def row(device: Device) -> Json:
    """One device."""
    found: Json = {
        "id": device.uuid, "index": device.index, "count": device.slots, "devmem": device.memory_mib,
        "devcore": device.core_percent, "type": device.model, "numa": device.numa, "health": device.healthy,
    }  # fmt: skip
    found |= {"mode": device.mode} if device.mode else {}
    found |= {"custom": dict(device.custom)} if device.custom else {}
    return found | ({"migProfiles": len(device.mig_profiles)} if device.mig_profiles else {})


def registered(node: Mapping[str, Any], vendor: Vendor) -> Json:
    """The node with a device of the vendor registered, if its plugin registers by annotation and has not."""
    meta = dict(node["metadata"])
    notes = dict(meta.get("annotations") or {})
    if vendor.register_key and vendor.register_key not in notes:
        made = Device(f"{meta['name']}-0", 0, vendor.word, vendor.word, 1024, 100, 1, mode="hami-core")
        notes[vendor.register_key] = node_register.encode([made])
    return {**node, "metadata": {**meta, "annotations": notes}}


def gone_vendors(node: str) -> list[str]:
    """Vendors whose plugin counts as gone from a node."""
    found = Node.objects.filter(name=node).first()
    return list(found.gone_vendors) if found is not None else []
