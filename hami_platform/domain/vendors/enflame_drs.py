"""Enflame cards in hard parts (DRS), declared. Names and meanings: HAMi v2.10.0, section `enflame`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hami_platform.domain import devices, errors, requests, units
from hami_platform.domain.vendors import base, container, parse, section
from hami_platform.domain.vendors.strategies import drs
from hami_platform.domain.wire import fields

WORD = "Enflame"
CAPACITY = "enflame.com/gcu-drs-capacity"
MINOR = "minor"

DONE, TIME = "enflame.com/gcu-assigned", "enflame.com/gcu-assigned-time"
INDEX, IDENT = "enflame.com/gcu-assigned-index", "enflame.com/gcu-assigned-id"
MINOR_KEY, SIZE = "enflame.com/gcu-assigned-minor", "enflame.com/gcu-request-size"
CONTAINERS = "assigned-containers"


def declare(config: section.Section) -> base.Vendor:
    """The vendor as the operator configured it. Raises ConfigError."""
    return base.Vendor(
        word=WORD,
        resources=base.Resources(
            count=config.text("resourceNameDRSGCU", config.text("resourceNameVGCU", "enflame.com/drs-gcu")),
            memory=config.text("resourceNameGCUMemory", "enflame.com/gcu-memory"),
            cores=config.text("resourceNameGCUCore", config.text("resourceNameVGCUPercentage", "enflame.com/gcu-core")),
        ),
        allocated_key="hami.io/enflame-vgpu-devices-allocated",
        register_key=CAPACITY,
        defaults=base.Defaults(count=0, whole=False),
        selection=base.Selection(use_uuids="enflame.com/use-gpuuuid", nouse_uuids="enflame.com/nouse-gpuuuid"),
        strategy=drs.DRS,
        decode=_decode,
        rules=_rules,
        read=_read,
        texts=_texts,
        owned_too=(DONE, TIME, INDEX, IDENT, MINOR_KEY, SIZE, CONTAINERS),
        lock="",
    )


def _decode(_vendor: base.Vendor, node: base.NodeSource) -> Sequence[devices.Device]:
    """The cards and profiles of the node's annotation. Raises WireError."""
    text = node.annotations.get(CAPACITY, "")
    if not text:
        return ()
    value = fields.members(fields.loads(text), CAPACITY)
    names = value.get("profiles") or {}
    if not isinstance(names, dict):
        raise errors.WireError("an object is expected", field="profiles")
    named = {str(name): str(ident) for name, ident in names.items()}
    offered = drs.profiles(named)
    most_slices = max((one.slices for one in offered), default=1)
    gib = max((one.gib for one in offered), default=most_slices)
    cards = fields.items(value.get("devices"), "devices")
    found = []
    for place, card in enumerate(cards):
        index = _index(card, place)
        custom: dict[str, devices.Fact] = {
            "index": str(card.get("index", index)),
            MINOR: str(card.get(MINOR) or card.get("index", index)),
            drs.PROFILES: fields.dumps(dict(sorted(named.items()))),
            drs.MOST_SLICES: most_slices,
        }
        found.append(
            devices.Device(
                uuid=f"{node.name}-enflame-drs-{index}",
                index=index,
                vendor=WORD,
                model=WORD,
                memory_mib=gib * drs.GIB,
                core_percent=100,
                slots=_slots(card, place),
                custom=tuple(sorted(custom.items())),
            )
        )
    if len({one.uuid for one in found}) < len(found):
        raise errors.WireError("an index appears twice", field="devices")
    return tuple(found)


def _index(card: Mapping[str, Any], place: int) -> int:
    text = str(card.get("index", ""))
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 6 else place


def _slots(card: Mapping[str, Any], place: int) -> int:
    """A number or a numeric text above 0, rounded down."""
    try:
        value = float(str(card.get("capacity")))
    except ValueError:
        value = 0.0
    if not 1 <= value < float("inf"):
        raise errors.WireError(f"{str(card.get('capacity'))[:40]!r} is not a number above 0", field=f"device {place}")
    return min(int(value), units.INT32_MAX)


def _rules(vendor: base.Vendor, declared: container.Declared, notes: Mapping[str, str]) -> container.Additions:
    """Each amount on both sides, limits and requests. Raises RequestError."""
    _read(vendor, declared, notes)
    names = vendor.resources
    by_slices = declared.amount(names.count) is not None
    kept = (names.count,) if by_slices else (names.memory, names.cores)
    amounts = {name: str(amount) for name in kept if (amount := declared.amount(name)) is not None}
    return container.Additions(
        {name: text for name, text in amounts.items() if name not in declared.limits},
        {name: text for name, text in amounts.items() if name not in declared.requests},
    )


def _read(
    vendor: base.Vendor, declared: container.Declared, _notes: Mapping[str, str]
) -> requests.DeviceRequest | None:
    """One part of a card: by its number of slices, or by memory and cores. Raises RequestError."""
    names = vendor.resources
    memory = parse.integer(declared, names.memory, most=units.MIB_CEILING, unit_mib=1)
    cores = parse.integer(declared, names.cores, most=100)
    if declared.amount(names.count) is not None:
        slices = parse.integer(declared, names.count, most=units.INT32_MAX)
        if not slices:
            raise parse.refusal(declared, names.count, "must be greater than 0")
        return requests.DeviceRequest(WORD, 1, slices)
    for name, amount in ((names.memory, memory), (names.cores, cores)):
        if declared.amount(name) is not None and not amount:
            raise parse.refusal(declared, name, "must be greater than 0")
    return requests.DeviceRequest(WORD, 1, memory, drs.BY_AMOUNT, cores) if memory else None


def _texts(_vendor: base.Vendor, placed: base.Placed) -> Mapping[str, str]:
    """What Enflame's plugin reads: the part of every container, and the card of the first."""
    found = {DONE: "false", TIME: str(placed.at_ns)}
    parts: dict[str, Mapping[str, str | int | bool]] = {}
    for asked, shares in zip(placed.request.containers, placed.shares, strict=True):
        ask = next((one for one in asked.devices if one.vendor == WORD), None)
        device = placed.devices.get(shares[0].uuid) if shares else None
        profile = drs.profile_for(device, ask) if device is not None and ask is not None else None
        if device is None or profile is None:
            continue
        if not parts:
            index, minor = str(device.fact("index")), str(device.fact(MINOR))
            found |= {INDEX: index, IDENT: index, MINOR_KEY: minor, SIZE: str(profile.slices)}
        part = {"profileID": profile.id, "profileName": profile.name}
        parts[asked.name] = {
            "allocated": False,
            "request": profile.slices,
            **{key: text for key, text in part.items() if text},
        }
    return found | {CONTAINERS: fields.dumps(dict(sorted(parts.items())))}
