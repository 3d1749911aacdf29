"""Moore Threads, declared. Names, defaults and meanings: HAMi v2.10.0, device-config.yaml, section `mthreads`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hami_platform.domain import devices, requests, units
from hami_platform.domain.strategy import Strategy
from hami_platform.domain.vendors import base, capacity, parse, section
from hami_platform.domain.vendors.container import Additions, Declared
from hami_platform.domain.vendors.strategies import same_devices

WORD = "Mthreads"
CONFIG_KEY = "mthreads"

UNIT_MIB = 512
CARD_CORES = 16
CARD_UNITS = 96
SLOTS = 100
SLICES = (2, 4, 8, 16, 32, 64, 96)
"""The amounts of memory, in units, that a card can be cut into."""

INDEX = "mthreads.com/gpu-index"
NODE = "mthreads.com/predicate-node"
TIME = "mthreads.com/predicate-time"
COUNT = "mthreads.com/request-gpu-num"


def declare_all(values: Any) -> tuple[base.Vendor, ...]:
    """The vendor of the configuration's section. Raises ConfigError."""
    config = section.section(CONFIG_KEY, values)
    vendor = base.Vendor(
        word=WORD,
        resources=base.Resources(
            count=config.text("resourceCountName", "mthreads.com/vgpu"),
            memory=config.text("resourceMemoryName", "mthreads.com/sgpu-memory"),
            cores=config.text("resourceCoreName", "mthreads.com/sgpu-core"),
        ),
        allocated_key="hami.io/mthreads-vgpu-devices-allocated",
        unit_mib=UNIT_MIB,
        defaults=base.Defaults(count=0),
        selection=base.Selection(use_uuids="mthreads.ai/use-gpuuuid", nouse_uuids="mthreads.ai/nouse-gpuuuid"),
        most_cores=units.INT32_MAX,
        strategy=Strategy(refuses=same_devices.refuses),
        decode=_decode,
        rules=_rules,
        read=_read,
        texts=_texts,
        owned_too=(INDEX, NODE, TIME),
        lock="",
    )
    return (vendor,)


def _decode(vendor: base.Vendor, node: base.NodeSource) -> tuple[devices.Device, ...]:
    """Cards made up from the node's capacity: one for every 16 cores, the memory divided evenly."""
    return capacity.cards_by_cores(vendor, node, name="mthreads", card_cores=CARD_CORES, slots=SLOTS)


def _rules(vendor: base.Vendor, container: Declared, notes: Mapping[str, str]) -> Additions:
    """Several cards are whole cards; one without memory is one, too; its memory must be a slice that exists."""
    del notes
    names = vendor.resources
    if container.amount(names.count) is None:
        return Additions()
    count = parse.integer(container, names.count, most=units.INT32_MAX)
    if count == 0:
        raise parse.refusal(container, names.count, "must be greater than 0")
    if count > 1:
        return Additions(_whole(names, count), annotations={COUNT: str(count)})
    if names.memory not in container.limits:
        return Additions(_whole(names, 1))
    if parse.integer(container, names.memory, most=units.INT32_MAX) not in SLICES:
        raise parse.refusal(container, names.memory, f"must be one of {', '.join(map(str, SLICES))}")
    return Additions()


def _whole(names: base.Resources, count: int) -> dict[str, str]:
    wanted = {names.cores: count * CARD_CORES, names.memory: count * CARD_UNITS}
    return {name: str(amount) for name, amount in wanted.items() if name}


def _read(vendor: base.Vendor, container: Declared, notes: Mapping[str, str]) -> requests.DeviceRequest | None:
    """Memory and cores name the sum over the cards; a request names what is taken of each."""
    del notes
    found = parse.ask(vendor, container)
    if found is None:
        return None
    return replace(found, memory_mib=found.memory_mib // found.count, core_percent=found.core_percent // found.count)


def _texts(vendor: base.Vendor, placed: base.Placed) -> Mapping[str, str]:
    """What the vendor's plugin looks for: the cards' indexes (of the last container that has some), node and time."""
    del vendor
    last = [container for container in placed.shares if container][-1:]
    indexes = [str(placed.devices[one.uuid].index) for shares in last for one in shares if one.uuid in placed.devices]
    return {INDEX: ",".join(indexes), NODE: placed.node, TIME: str(placed.at_ns)}
