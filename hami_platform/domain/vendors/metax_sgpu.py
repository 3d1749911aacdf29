"""Shares of Metax GPUs, declared. Names and meanings: HAMi v2.10.0, section `metax` of device-config.yaml.

A pod may name its application class: online pods (which take no cores) and offline ones share cards with each other
only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hami_platform.domain import devices, errors, requests, units
from hami_platform.domain.vendors import base, container, parse, section
from hami_platform.domain.vendors.strategies import metax_sgpu
from hami_platform.domain.wire import fields

WORD = "Metax-SGPU"
REGISTER = "metax-tech.com/node-gpu-devices"
ALLOCATED = "metax-tech.com/gpu-devices-allocated"
TIME = "metax-tech.com/predicate-time"
POLICIES = ("best-effort", "fixed-share", "burst-share")
CLASSES = (metax_sgpu.ONLINE, metax_sgpu.OFFLINE)
UNIT_MIB = 1024

_LETTER = re.compile("[A-Za-z]")


def declare(config: section.Section) -> base.Vendor:
    """The vendor as the operator configured it. Raises ConfigError."""
    return base.Vendor(
        word=WORD,
        resources=base.Resources(
            count=config.text("resourceVCountName", "metax-tech.com/sgpu"),
            memory=config.text("resourceVMemoryName", "metax-tech.com/vmemory"),
            cores=config.text("resourceVCoreName", "metax-tech.com/vcore"),
        ),
        allocated_key="hami.io/metax-sgpu-devices-allocated",
        to_allocate_key="hami.io/metax-sgpu-devices-to-allocate",
        register_key=REGISTER,
        unit_mib=UNIT_MIB,
        defaults=base.Defaults(count=0, core_percent=100),
        selection=base.Selection(
            use_uuids="metax-tech.com/use-gpuuuid",
            nouse_uuids="metax-tech.com/nouse-gpuuuid",
            notes=(metax_sgpu.QOS_KEY, metax_sgpu.TOPOLOGY_KEY, metax_sgpu.CLASS_KEY),
        ),
        most_cores=units.INT32_MAX,
        strategy=metax_sgpu.of(topology=config.flag("sgpuTopologyAware")),
        decode=_decode,
        rules=_rules,
        read=_read,
        texts=_texts,
        owned_too=(ALLOCATED, TIME),
    )


def _decode(_vendor: base.Vendor, node: base.NodeSource) -> Sequence[devices.Device]:
    """The cards of the node's annotation. Raises WireError."""
    text = node.annotations.get(REGISTER, "")
    if not text:
        return ()
    found = [_card(value, index) for index, value in enumerate(fields.items(fields.loads(text), "device"))]
    if not found:
        raise errors.WireError("no device is registered", field=REGISTER)
    if len({one.uuid for one in found}) < len(found) or not all(one.uuid for one in found):
        raise errors.WireError("a uuid is empty or appears twice", field=REGISTER)
    return tuple(found)


def _card(value: Mapping[str, Any], index: int) -> devices.Device:
    field = f"device {index}"
    custom: dict[str, devices.Fact] = {
        metax_sgpu.QOS: fields.text(value, "qosPolicy", field),
        "Model": fields.text(value, "model", field),
        metax_sgpu.ZONE: fields.number(value, "linkZone", field),
    }
    return devices.Device(
        uuid=fields.storable(fields.text(value, "uuid", field), 128, f"{field}: uuid"),
        index=index,
        vendor=WORD,
        model=WORD,
        memory_mib=fields.number(value, "totalVRam", field, least=0),
        core_percent=fields.number(value, "totalCompute", field, least=0),
        slots=fields.number(value, "totalDevCount", field, least=0),
        numa=fields.number(value, "numa", field),
        healthy=fields.flag(value, "healthy", field),
        custom=tuple(sorted(custom.items())),
    )


def _rules(vendor: base.Vendor, declared: container.Declared, notes: Mapping[str, str]) -> container.Additions:
    """The sharing policy, which every pod but an online one has. Raises RequestError."""
    app_class = _one_of(CLASSES, metax_sgpu.CLASS_KEY, declared, notes)
    count = parse.integer(declared, vendor.resources.count, most=units.INT32_MAX)
    if app_class is not None and count > 1:
        raise parse.refusal(declared, metax_sgpu.CLASS_KEY, "app-class pod must request single device")
    if app_class == metax_sgpu.ONLINE:
        return container.Additions()
    policy = _one_of(POLICIES, metax_sgpu.QOS_KEY, declared, notes)
    return container.Additions(annotations={metax_sgpu.QOS_KEY: POLICIES[0]} if count and policy is None else {})


def _one_of(words: Sequence[str], key: str, declared: container.Declared, notes: Mapping[str, str]) -> str | None:
    said = notes.get(key)
    if said is not None and said not in words:
        raise parse.refusal(declared, key, f"must be set one of [{', '.join(words)}]")
    return said


def _read(vendor: base.Vendor, declared: container.Declared, notes: Mapping[str, str]) -> requests.DeviceRequest | None:
    """What the container asks for; an online pod takes no cores, whatever it says. Raises RequestError."""
    ask = _amounts(vendor, declared)
    if ask is None or notes.get(metax_sgpu.CLASS_KEY) != metax_sgpu.ONLINE:
        return ask
    return replace(ask, core_percent=0)


def _amounts(vendor: base.Vendor, declared: container.Declared) -> requests.DeviceRequest | None:
    """As always; memory with a unit is in bytes, and what is below a MiB counts as not given. Raises RequestError."""
    name = vendor.resources.memory
    amount = declared.amount(name)
    if amount is None or not _LETTER.search(str(amount)):
        return parse.ask(vendor, declared)
    try:
        memory_mib = units.whole(amount) // 2**20
    except errors.InvalidQuantity as error:
        raise parse.refusal(declared, name, str(error)) from error
    if not 0 <= memory_mib <= units.MIB_CEILING:
        raise parse.refusal(declared, name, f"{amount} must be an integer between 0 and {units.MIB_CEILING} MiB")
    plain = {part: {k: v for k, v in amounts.items() if k != name} for part, amounts in _parts(declared).items()}
    ask = parse.ask(vendor, replace(declared, limits=plain["limits"], requests=plain["requests"]))
    if ask is None or not memory_mib:
        return ask
    return replace(ask, memory_mib=memory_mib, memory_percent=None)


def _parts(declared: container.Declared) -> Mapping[str, container.Amounts]:
    return {"limits": declared.limits, "requests": declared.requests}


def _texts(_vendor: base.Vendor, placed: base.Placed) -> Mapping[str, str]:
    """What Metax's plugin reads: the shares of every container."""
    rows = [
        [
            {k: v for k, v in (("uuid", one.uuid), ("compute", one.core_percent), ("vRam", one.memory_mib)) if v}
            for one in shares
        ]
        for shares in placed.shares
    ]
    return {ALLOCATED: fields.dumps(rows), TIME: str(placed.at_ns)}
