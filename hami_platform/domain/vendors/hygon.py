"""Hygon DCU, declared. Names, defaults and meanings: HAMi v2.10.0, chart and device-config.yaml, section `hygon`."""

from __future__ import annotations

from typing import Any

from hami_platform.domain import units
from hami_platform.domain.vendors import base, section

WORD = "DCU"
CONFIG_KEY = "hygon"


def declare_all(values: Any) -> tuple[base.Vendor, ...]:
    """The vendor of the configuration's section. Raises ConfigError."""
    config = section.section(CONFIG_KEY, values)
    vendor = base.Vendor(
        word=WORD,
        resources=base.Resources(
            count=config.text("resourceCountName", "hygon.com/dcunum"),
            memory=config.text("resourceMemoryName", "hygon.com/dcumem"),
            cores=config.text("resourceCoreName", "hygon.com/dcucores"),
        ),
        allocated_key="hami.io/dcu-devices-allocated",
        to_allocate_key="hami.io/dcu-devices-to-allocate",
        register_key="hami.io/node-dcu-register",
        handshake_key="hami.io/node-handshake-dcu",
        unit_mib=max(1, config.number("memoryFactor", 1, most=units.MIB_CEILING)),
        defaults=base.Defaults(count=0, core_percent=100),
        selection=base.Selection(
            use_models="hygon.com/use-dcutype",
            nouse_models="hygon.com/nouse-dcutype",
            use_uuids="hygon.com/use-gpuuuid",
            nouse_uuids="hygon.com/nouse-gpuuuid",
        ),
    )
    return (vendor,)
