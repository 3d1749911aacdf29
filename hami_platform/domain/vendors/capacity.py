"""Cards of vendors whose plugin registers none: made up from a node's capacity. Must not know: any one vendor."""

from __future__ import annotations

from hami_platform.domain import devices, units
from hami_platform.domain.vendors import base

MOST_CARDS = 1024
"""More than any node has. A capacity is whatever somebody wrote, and each card made up of it takes memory."""


def cards_by_cores(
    vendor: base.Vendor, node: base.NodeSource, *, name: str, card_cores: int, slots: int
) -> tuple[devices.Device, ...]:
    """One card for every `card_cores` cores, the memory divided evenly; uuids are `<node>-<name>-<index>`.

    MOST_CARDS at most, each with no more memory than any device may have.
    """
    cores = node.capacity.get(vendor.resources.cores, 0)
    if cores <= 0:
        return ()
    memory_mib = node.capacity.get(vendor.resources.memory, 0) * vendor.unit_mib * card_cores // cores
    return tuple(
        devices.Device(
            uuid=f"{node.name}-{name}-{i}", index=i, vendor=vendor.word, model=vendor.word,
            memory_mib=max(0, min(memory_mib, units.MIB_CEILING)), core_percent=card_cores, slots=slots,
        )
        for i in range(min(-(-cores // card_cores), MOST_CARDS))
    )  # fmt: skip
