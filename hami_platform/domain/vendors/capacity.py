"""Cards of vendors whose plugin registers none: made up from a node's capacity. Must not know: any one vendor."""

from __future__ import annotations

from hami_platform.domain import devices
from hami_platform.domain.vendors import base


def cards_by_cores(
    vendor: base.Vendor, node: base.NodeSource, *, name: str, card_cores: int, slots: int
) -> tuple[devices.Device, ...]:
    """One card for every `card_cores` cores, the memory divided evenly; uuids are `<node>-<name>-<index>`."""
    cores = node.capacity.get(vendor.resources.cores, 0)
    if cores <= 0:
        return ()
    memory_mib = node.capacity.get(vendor.resources.memory, 0) * vendor.unit_mib * card_cores // cores
    return tuple(
        devices.Device(
            uuid=f"{node.name}-{name}-{i}", index=i, vendor=vendor.word, model=vendor.word,
            memory_mib=memory_mib, core_percent=card_cores, slots=slots,
        )
        for i in range(-(-cores // card_cores))
    )  # fmt: skip
