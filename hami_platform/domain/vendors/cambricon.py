"""Cambricon MLU, declared. Names, defaults and meanings: HAMi v2.10.0, device-config.yaml, section `cambricon`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hami_platform.domain import devices
from hami_platform.domain.vendors import base, capacity, section

WORD = "MLU"
CONFIG_KEY = "cambricon"

UNIT_MIB = 256
CARD_CORES = 100
SLOTS = 100
ASSIGNED = "CAMBRICON_DSMLU_ASSIGNED"
PROFILE = "CAMBRICON_DSMLU_PROFILE"


def declare_all(values: Any) -> tuple[base.Vendor, ...]:
    """The vendor of the configuration's section. Raises ConfigError."""
    config = section.section(CONFIG_KEY, values)
    vendor = base.Vendor(
        word=WORD,
        resources=base.Resources(
            count=config.text("resourceCountName", "cambricon.com/vmlu"),
            memory=config.text("resourceMemoryName", "cambricon.com/mlu.smlu.vmemory"),
            cores=config.text("resourceCoreName", "cambricon.com/mlu.smlu.vcore"),
        ),
        allocated_key="hami.io/cambricon-mlu-devices-allocated",
        to_allocate_key="hami.io/cambricon-mlu-devices-to-allocate",
        unit_mib=UNIT_MIB,
        defaults=base.Defaults(count=0, core_percent=CARD_CORES),
        selection=base.Selection(use_uuids="cambricon.com/use-gpuuuid", nouse_uuids="cambricon.com/nouse-gpuuuid"),
        decode=_decode,
        texts=_texts,
        owned_too=(ASSIGNED, PROFILE),
        lock="cambricon.com/dsmlu.lock",
    )
    return (vendor,)


def _decode(vendor: base.Vendor, node: base.NodeSource) -> tuple[devices.Device, ...]:
    """Cards made up from the node's capacity: one for every 100 cores, the memory divided evenly."""
    return capacity.cards_by_cores(vendor, node, name="cambricon-mlu", card_cores=CARD_CORES, slots=SLOTS)


def _texts(vendor: base.Vendor, placed: base.Placed) -> Mapping[str, str]:
    """What the vendor's plugin looks for: `<index>_<cores>_<memory units>` of the first share; it knows one only."""
    del vendor
    first = next((share for container in placed.shares for share in container), None)
    if first is None or first.uuid not in placed.devices:
        return {ASSIGNED: "false"}
    index = placed.devices[first.uuid].index
    return {ASSIGNED: "false", PROFILE: f"{index}_{first.core_percent}_{first.memory_mib // UNIT_MIB}"}
