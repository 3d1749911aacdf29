"""Biren, declared. Names, defaults and meanings: HAMi v2.10.0, chart and device-config.yaml, section `biren`.

A card is shared by slots alone: a share names no memory and no cores.
"""

from __future__ import annotations

from typing import Any

from hami_platform.domain.vendors import base, section
from hami_platform.domain.vendors.strategies import slots

WORD = "Biren"
CONFIG_KEY = "biren"


def declare_all(values: Any) -> tuple[base.Vendor, ...]:
    """The vendor of the configuration's section. Raises ConfigError."""
    config = section.section(CONFIG_KEY, values)
    vendor = base.Vendor(
        word=WORD,
        resources=base.Resources(count=config.text("resourceCountName", "birentech.com/gpu")),
        allocated_key="hami.io/Biren-devices-allocated",
        to_allocate_key="hami.io/Biren-devices-to-allocate",
        register_key="hami.io/node-biren-register",
        handshake_key="hami.io/node-handshake-biren",
        defaults=base.Defaults(count=0, whole=False, spelled_percent=100),
        selection=base.Selection(use_uuids="birentech.com/use-gpuuuid", nouse_uuids="birentech.com/nouse-gpuuuid"),
        registered_cores=100,
        strategy=slots.SLOTS,
    )
    return (vendor,)
