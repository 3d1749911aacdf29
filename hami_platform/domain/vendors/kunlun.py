"""Kunlun XPUs, declared: whole cards (kunlun) and shares of them (XPU), both of section `kunlun`.

Names, sizes and meanings: HAMi v2.10.0, chart and device-config.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hami_platform.domain import devices, requests, units
from hami_platform.domain.vendors import base, capacity, container, parse, section
from hami_platform.domain.vendors.strategies import kunlun

CONFIG_KEY = "kunlun"
WHOLE = "kunlun"
SHARED = "XPU"

MEMORY_MIB = 98_304
SIZES_MIB = (24_576, 49_152, 98_304)
"""The parts that a card can be shared in."""
SLOTS = 100
INDEXES = "BAIDU_COM_DEVICE_IDX"
"""Pod annotation that Kunlun's own plugin reads: the indexes of the cards."""

_SELECTION = base.Selection(
    use_uuids="hami.io/use-xpu-uuid",
    nouse_uuids="hami.io/no-use-xpu-uuid",
    use_uuids_too="baidu.com/use-gpuuuid",
    nouse_uuids_too="baidu.com/nouse-gpuuuid",
)


def declare_all(values: Any) -> tuple[base.Vendor, ...]:
    """Both vendors of the configuration's section. Raises ConfigError."""
    config = section.section(CONFIG_KEY, values)
    return _whole(config), _shared(config)


def _whole(config: section.Section) -> base.Vendor:
    return base.Vendor(
        word=WHOLE,
        resources=base.Resources(count=config.text("resourceCountName", "kunlunxin.com/xpu")),
        allocated_key="hami.io/kunlun-allocated",
        defaults=base.Defaults(count=0),
        selection=_SELECTION,
        strategy=kunlun.whole_cards(),
        decode=_decode,
        texts=_texts,
        owned_too=(INDEXES,),
        lock="",
    )


def _shared(config: section.Section) -> base.Vendor:
    return base.Vendor(
        word=SHARED,
        resources=base.Resources(
            count=config.text("resourceVCountName", "kunlunxin.com/vxpu"),
            memory=config.text("resourceVMemoryName", "kunlunxin.com/vxpu-memory"),
        ),
        allocated_key="hami.io/xpu-devices-allocated",
        to_allocate_key="hami.io/xpu-devices-to-allocate",
        register_key="hami.io/node-register-xpu",
        handshake_key="hami.io/node-handshake-xpu",
        defaults=base.Defaults(count=0),
        selection=_SELECTION,
        strategy=kunlun.equal_shares(),
        rules=_rules,
        read=_read,
    )


def _decode(vendor: base.Vendor, node: base.NodeSource) -> Sequence[devices.Device]:
    """As many cards as the node has capacity for; the second half of them on the second NUMA node."""
    count = min(node.capacity.get(vendor.resources.count, 0), capacity.MOST_CARDS)
    return tuple(
        devices.Device(
            uuid=f"{node.name}-kunlun-{i}",
            index=i,
            vendor=WHOLE,
            model=WHOLE,
            memory_mib=MEMORY_MIB,
            core_percent=100,
            slots=SLOTS,
            numa=int(i >= count // 2),
        )
        for i in range(count)
    )


def _texts(_vendor: base.Vendor, placed: base.Placed) -> Mapping[str, str]:
    """The cards of the last container that has any, as HAMi writes them: the plugin reads no more."""
    shares = next((shares for shares in reversed(placed.shares) if shares), ())
    return {INDEXES: ",".join(str(placed.devices[one.uuid].index) for one in shares)}


def _rules(vendor: base.Vendor, declared: container.Declared, _notes: Mapping[str, str]) -> container.Additions:
    """Memory that is a part a card can be shared in."""
    name = vendor.resources.memory
    if declared.amount(name) is None:
        return container.Additions()
    size = str(rounded(parse.integer(declared, name, most=units.MIB_CEILING, unit_mib=1)))
    return container.Additions({name: size} if name in declared.limits else {}, {name: size})


def _read(
    vendor: base.Vendor, declared: container.Declared, _notes: Mapping[str, str]
) -> requests.DeviceRequest | None:
    """A whole card where no memory is named; cores in proportion to it."""
    ask = parse.ask(vendor, declared)
    if ask is None:
        return None
    named = declared.amount(vendor.resources.memory) is not None
    memory_mib = rounded(ask.memory_mib) if named else MEMORY_MIB
    percent = None if named else 100
    return replace(ask, memory_mib=memory_mib, memory_percent=percent, core_percent=memory_mib * 100 // MEMORY_MIB)


def rounded(memory_mib: int) -> int:
    """The least part that has so much memory; a whole card for more than there is, as in HAMi."""
    return next((size for size in SIZES_MIB if memory_mib <= size), MEMORY_MIB)
