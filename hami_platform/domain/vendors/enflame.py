"""Enflame, declared: whole cards (GCU), and parts of them (`enflame_drs`). Names and meanings: HAMi v2.10.0, section
`enflame` of device-config.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hami_platform.domain import devices, requests
from hami_platform.domain.vendors import base, container, enflame_drs, parse, section
from hami_platform.domain.vendors.strategies import idle

CONFIG_KEY = "enflame"
GCU = "GCU"
AMOUNT = 100
"""Memory and cores of a card: nothing smaller than a card is given."""
MOST_CARDS = 1024
"""More cards than this on one node is nonsense."""


def declare_all(values: Any) -> tuple[base.Vendor, ...]:
    """The vendors of the configuration's section. Raises ConfigError."""
    config = section.section(CONFIG_KEY, values)
    return _gcu(config), enflame_drs.declare(config)


def _gcu(config: section.Section) -> base.Vendor:
    return base.Vendor(
        word=GCU,
        resources=base.Resources(count=config.text("resourceNameGCU", "enflame.com/gcu")),
        allocated_key="hami.io/enflame-gcu-devices-allocated",
        to_allocate_key="hami.io/enflame-gcu-devices-to-allocate",
        defaults=base.Defaults(count=0),
        strategy=idle.IDLE,
        decode=_cards,
        read=_whole_cards,
        lock="",
    )


def _cards(vendor: base.Vendor, node: base.NodeSource) -> Sequence[devices.Device]:
    count = min(node.capacity.get(vendor.resources.count, 0), MOST_CARDS)
    return tuple(
        devices.Device(f"{node.name}-{GCU}-{i}", i, GCU, GCU, memory_mib=AMOUNT, core_percent=AMOUNT, slots=1)
        for i in range(count)
    )


def _whole_cards(
    vendor: base.Vendor, declared: container.Declared, _notes: Mapping[str, str]
) -> requests.DeviceRequest | None:
    ask = parse.ask(vendor, declared)
    return replace(ask, memory_mib=AMOUNT, memory_percent=100, core_percent=AMOUNT) if ask is not None else None
