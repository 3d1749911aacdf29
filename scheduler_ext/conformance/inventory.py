"""Registered devices in the vectors' terms."""

from __future__ import annotations

from typing import Any

from accounting.models import Node
from hami_platform.domain.devices import Device
from hami_platform.domain.view import View

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


def gone_vendors(node: str) -> list[str]:
    """Vendors whose plugin counts as gone from a node."""
    found = Node.objects.filter(name=node).first()
    return list(found.gone_vendors) if found is not None else []
