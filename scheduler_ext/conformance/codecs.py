"""The `codec` step: texts of the wire are read and written again. Must not know: a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hami_platform.domain import devices, lifecycle
from hami_platform.domain.errors import WireError
from hami_platform.domain.requests import ContainerRequest
from hami_platform.domain.vendors.base import DeviceConfig
from hami_platform.domain.wire import mig_allocations, node_lock, node_register, pod_devices, weights
from scheduler_ext.conformance import inventory
from scheduler_ext.conformance.world import World

Json = dict[str, Any]
NO_PERCENT = 101
"""How HAMi spells a percentage that is not given."""


def codec(world: World, step: Json) -> Json:
    """The decoded form, or `{"error": true}`."""
    try:
        if step["kind"] == "podDevices":
            return _pod_devices(step["annotations"], step.get("numInit", 0), world.config)
        return _KINDS[step["kind"]](step["in"])
    except WireError:
        return {"error": True}


def _node_json(text: str) -> Json:
    found = node_register.decode_json(text, vendor="")
    return {"devices": [inventory.row(one) for one in found], "encoded": node_register.encode(found)}


def _node_text(text: str) -> Json:
    found = node_register.decode_text(text, vendor="")
    return {"devices": [inventory.row(one) for one in found], "encoded": node_register.encode_text(found)}


def _mig(text: str) -> Json:
    found = mig_allocations.decode(text)
    return {"allocations": json.loads(mig_allocations.encode(found)) if found else None}


def _lock(text: str) -> Json:
    found = node_lock.decode(text)
    return {"unix": found.at_s, "namespace": found.namespace, "name": found.name}


def _weights(text: str) -> Json:
    found = weights.decode(text)
    return {"weights": [found.slot, found.core, found.memory]}


_KINDS: dict[str, Callable[[str], Json]] = {
    "nodeJSON": _node_json, "nodeText": _node_text, "mig": _mig, "lock": _lock, "weights": _weights,
}  # fmt: skip


def _pod_devices(notes: Mapping[str, str], inits: int, config: DeviceConfig) -> Json:
    """Rows per vendor, their use while all containers are ahead and when the inits are over, and the text again.

    HAMi reads the tail behind the last terminator as one more, empty container; so its rows are counted here.
    """
    found: Json = {"rows": {}, "effective": {}, "steady": {}, "encoded": {}}
    for vendor in config.vendors:
        text = notes.get(vendor.allocated_key)
        if text is None:
            continue
        rows = pod_devices.decode(text)
        tail = [()] if not text or text.endswith(";") else []
        found["rows"][vendor.word] = [[list(one) for one in row] for row in (*rows, *tail)]
        found["encoded"][vendor.allocated_key] = pod_devices.encode((*rows, *tail)) if text else ""
        shares = _shares(rows, inits)
        found["effective"][vendor.word] = _held(lifecycle.peak(shares))
        found["steady"][vendor.word] = _held(_after_inits(shares, inits))
    return found


def _shares(rows: pod_devices.Rows, inits: int) -> list[devices.Share]:
    return [
        devices.Share(index, str(index), _kind(index, inits), one.vendor, one.uuid, one.memory_mib, one.core_percent)
        for index, row in enumerate(rows)
        for one in row
    ]


def _kind(index: int, inits: int) -> devices.ContainerKind:
    return devices.ContainerKind.INIT if index < inits else devices.ContainerKind.APP


def _after_inits(shares: Sequence[devices.Share], inits: int) -> dict[devices.DeviceKey, devices.Held]:
    containers = [ContainerRequest(str(index), _kind(index, inits)) for index in range(inits)]
    over = {str(index): lifecycle.ContainerFact("terminated", 0, started=True) for index in range(inits)}
    return lifecycle.held(shares, containers, lifecycle.PodFacts("Running", bound=True, containers=over))


def _held(held: Mapping[devices.DeviceKey, devices.Held]) -> list[Json]:
    return [
        {"uuid": uuid, "mem": one.memory_mib, "cores": one.core_percent, "slots": one.slots}
        for (_, uuid), one in sorted(held.items())
    ]
