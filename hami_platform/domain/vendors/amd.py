"""AMD, declared. Names, defaults and meanings: HAMi v2.10.0, device-config.yaml, section `amd`.

A card registers its compute units as cores; a request names a percentage of them, a share holds units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hami_platform.domain import conditions, requests
from hami_platform.domain.devices import Device
from hami_platform.domain.reasons import Reason
from hami_platform.domain.strategy import Strategy
from hami_platform.domain.vendors import base, parse, section
from hami_platform.domain.vendors.container import Declared

WORD = "AMD"
CONFIG_KEY = "amd"


def declare_all(values: Any) -> tuple[base.Vendor, ...]:
    """The vendor of the configuration's section. Raises ConfigError."""
    config = section.section(CONFIG_KEY, values)
    vendor = base.Vendor(
        word=WORD,
        resources=base.Resources(
            count=config.text("resourceCountName", "amd.com/gpu"),
            memory=config.text("resourceMemoryName", "amd.com/gpumem"),
            cores=config.text("resourceCoreName", "amd.com/gpucores"),
        ),
        allocated_key="hami.io/amd-devices-allocated",
        to_allocate_key="hami.io/amd-devices-to-allocate",
        register_key="hami.io/node-amd-register",
        defaults=base.Defaults(count=0, core_percent=100, spelled_percent=0),
        selection=base.Selection(
            use_models="amd.com/use-gputype",
            nouse_models="amd.com/nouse-gputype",
            use_uuids="amd.com/use-gpu-uuid",
            nouse_uuids="amd.com/nouse-gpu-uuid",
        ),
        core_units=True,
        strategy=Strategy(demand=_demand, room=_room, floor=_floor),
        read=_read,
        model_on_wire=True,
    )
    return (vendor,)


def _read(vendor: base.Vendor, container: Declared, notes: Mapping[str, str]) -> requests.DeviceRequest | None:
    """0 % is no request for cores, but none that a card could serve."""
    del notes
    cores = vendor.resources.cores
    if container.amount(cores) is not None and parse.integer(container, cores, most=100) == 0:
        raise parse.refusal(container, cores, "must be an integer between 1 and 100, a percentage of the card")
    return parse.ask(vendor, container)


def _demand(device: Device, ask: requests.DeviceRequest) -> tuple[int, int]:
    """The percentage of the card's compute units, rounded down, at least one."""
    total = device.core_percent
    return ask.memory_on(device.memory_mib), max(1, min(total, total * ask.core_percent // 100)) if total else 1


def _room(device: Device, used: conditions.Use, *, memory_mib: int, core_percent: int) -> Reason | None:
    """Memory, then units. Other than on other cards, all units do not mean that the card must be unused."""
    if device.memory_mib - device.reserved_mib - used.memory_mib < memory_mib:
        return Reason.CARD_INSUFFICIENT_MEMORY
    if device.core_percent - used.core_percent < core_percent:
        return Reason.CARD_INSUFFICIENT_CORE
    return None


def _floor(ask: requests.DeviceRequest) -> requests.DeviceRequest:
    """Only the card says how many units a percentage is."""
    return replace(ask, core_percent=min(1, ask.core_percent))
