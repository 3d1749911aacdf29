"""The annotations that a placement means on the wire, and the placement that annotations of a bound pod mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from hami_platform.domain import devices, errors
from hami_platform.domain.requests import ContainerRequest, PodRequest
from hami_platform.domain.vendors.base import DeviceConfig, Placed, Vendor
from hami_platform.domain.wire import mig_allocations, pod_devices

NODE = "hami.io/vgpu-node"
TIME = "hami.io/vgpu-time"
BIND_PHASE = "hami.io/bind-phase"
BIND_TIME = "hami.io/bind-time"
MIG = "hami.io/vgpu-mig-allocations"
LABEL_MAX = 63


def texts(
    shares: Sequence[devices.Share],
    request: PodRequest,
    config: DeviceConfig,
    *,
    node: str = "",
    known: Iterable[devices.Device] = (),
    at: datetime | None = None,
) -> dict[str, str]:
    """Device annotations of a placement: per vendor asked the to-allocate and allocated text and what the vendor adds,
    and the MIG reservation. known: the node's devices."""
    found: dict[str, str] = {}
    known = tuple(known)
    for word in request.vendors:
        vendor = config.vendor(word)
        text = pod_devices.encode(rows_of(shares, vendor, len(request.containers)))
        found.update(dict.fromkeys(filter(None, (vendor.to_allocate_key, vendor.allocated_key)), text))
        if vendor.texts is not None:
            own = tuple(
                tuple(one for one in shares if one.vendor == word and one.container_index == index)
                for index in range(len(request.containers))
            )
            mine = {one.uuid: one for one in known if one.vendor == word}
            at_ns = int(at.timestamp()) * 10**9 + at.microsecond * 1000 if at else 0
            found.update(vendor.texts(vendor, Placed(node, request, own, mine, at_ns)))
    reserved = _mig(shares)
    return found | ({MIG: mig_allocations.encode(reserved)} if reserved else {})


def rows_of(shares: Sequence[devices.Share], vendor: Vendor, containers: int) -> pod_devices.Rows:
    """One row per container, in order, of this vendor's shares."""
    rows: list[list[pod_devices.Row]] = [[] for _ in range(containers)]
    for one in shares:
        if one.vendor == vendor.word:
            row = pod_devices.Row(one.uuid, vendor.type_on_wire(one), one.memory_mib, one.core_percent)
            rows[one.container_index].append(row)
    return tuple(map(tuple, rows))


def _mig(shares: Sequence[devices.Share]) -> list[mig_allocations.Allocation]:
    found, position = [], dict[int, int]()
    for one in shares:
        index = position.get(one.container_index, 0)
        position[one.container_index] = index + 1
        if one.mig is not None:
            found.append(
                mig_allocations.Allocation(one.container_index, index, one.uuid, one.mig.profile, one.mig.placement)
            )
    return found


def mig_made(stored: Mapping[str, Any], seen: Mapping[str, str]) -> str | None:
    """The MIG reservation as its plugin completed it with ids, if that is news; None also where it names other places
    than were reserved here, or cannot be read."""
    before, now = stored.get(MIG), seen.get(MIG)
    if not now or before == now:
        return None
    try:
        reserved, made = mig_allocations.decode(before or ""), mig_allocations.decode(now)
    except errors.WireError:
        return None
    bare = {replace(one, runtime=None) for one in made}
    known = any(one.runtime for one in made) and (
        not before or bare == {replace(one, runtime=None) for one in reserved}
    )
    return mig_allocations.encode(made) if known else None


def shares_from(
    annotations: Mapping[str, str],
    containers: Sequence[ContainerRequest],
    models: Mapping[devices.DeviceKey, str],
    config: DeviceConfig,
) -> tuple[tuple[devices.Share, ...], bool]:
    """(shares, aligned) that a pod's allocated annotations state. Unaligned rows all count as app containers'. Raises
    WireError."""
    shares: list[devices.Share] = []
    aligned = True
    mig = {(a.container_index, a.device_index): a for a in mig_allocations.decode(annotations.get(MIG, ""))}
    for vendor in config.vendors:
        text = annotations.get(vendor.allocated_key)
        if text is None:
            continue
        rows = pod_devices.decode(text)
        if pod_devices.align(rows, len(containers)) is None:
            aligned = False
        if vendor.model_on_wire:  # the key says whose rows they are
            rows = tuple(tuple(row._replace(vendor=vendor.word) for row in container) for container in rows)
        shares += _shares(rows, containers, mig, models)
    return (*shares, *_unlisted(mig, shares, models)), aligned


def _unlisted(
    mig: Mapping[tuple[int, int], mig_allocations.Allocation],
    shares: Sequence[devices.Share],
    models: Mapping[devices.DeviceKey, str],
) -> Iterator[devices.Share]:
    """Instances that are reserved but stand in no row: they hold no amounts that we know of, but their place."""
    listed = Counter((one.uuid, one.mig) for one in shares)
    for one in mig.values():
        listed[one.gpu_uuid, one.use] -= 1
        if listed[one.gpu_uuid, one.use] < 0:
            for vendor, uuid in [key for key in models if key[1] == one.gpu_uuid]:
                model = models[vendor, uuid]
                yield devices.Share(
                    one.container_index, "", devices.ContainerKind.APP, vendor, uuid, 0, 0, one.use, model
                )


def _shares(
    rows: pod_devices.Rows,
    containers: Sequence[ContainerRequest],
    mig: Mapping[tuple[int, int], mig_allocations.Allocation],
    models: Mapping[devices.DeviceKey, str],
) -> list[devices.Share]:
    found = []
    for index, row in enumerate(rows):
        for position, one in enumerate(row):
            name, kind = (
                (containers[index].name, containers[index].kind)
                if index < len(containers)
                else ("", devices.ContainerKind.APP)
            )
            reserved = mig.get((index, position))
            use = devices.MigUse(reserved.profile, reserved.placement) if reserved else None
            uuid = pod_devices.card(one.uuid)
            found.append(
                devices.Share(
                    index,
                    name,
                    kind,
                    one.vendor,
                    uuid,
                    one.memory_mib,
                    one.core_percent,
                    use,
                    models.get((one.vendor, uuid), ""),
                )
            )
    return found
