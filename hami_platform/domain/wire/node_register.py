"""The devices of a node: annotation `hami.io/node-…-register`, JSON or the older comma-separated text.

JSON omits what is zero, so an absent `health` means unhealthy. The text form has 7 or 9 fields and ends every device
with `:`. Must not know: which node. Source: HAMi v2.10.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hami_platform.domain import devices, errors
from hami_platform.domain.wire import fields

_LEGACY_MODE = "hami-core"


def encode(found: Iterable[devices.Device]) -> str:
    """The JSON form, sorted by uuid: the text changes only when the content does. People's columns stay out."""
    return fields.dumps([_object(device) for device in _sorted(found)])


def encode_text(found: Iterable[devices.Device]) -> str:
    """The 9-field text form, sorted by uuid. Raises WireError for a name with a separator in it."""
    return "".join(f"{','.join(_columns(device))}:" for device in _sorted(found))


def decode(text: str, *, vendor: str) -> tuple[devices.Device, ...]:
    """The devices, either form, in the order written. Raises WireError naming device and field.

    Stricter than HAMi: an empty or repeated uuid, or a negative amount, is an error: nothing could be booked on it.
    """
    return decode_text(text, vendor=vendor) if _is_text(text) else decode_json(text, vendor=vendor)


def decode_json(text: str, *, vendor: str) -> tuple[devices.Device, ...]:
    """The devices from the JSON form; keys in any case, unknown keys ignored."""
    values = fields.items(fields.loads(text), "device")
    return _distinct([_from_object(value, vendor, f"device {i}") for i, value in enumerate(values)])


def decode_text(text: str, *, vendor: str) -> tuple[devices.Device, ...]:
    """The devices from the text form."""
    if ":" not in text:
        raise errors.WireError("no device ends with a colon")
    parts = text.split(":")
    if parts.pop():
        raise errors.WireError("the last device does not end with a colon")
    return _distinct([_from_columns(part, vendor, f"device {i}") for i, part in enumerate(filter(None, parts))])


def _is_text(text: str) -> bool:
    """Only the text form ends with a colon; a uuid in it may begin with anything, a bracket too."""
    bare = text.strip()
    return bare.endswith(":") or not (bare.startswith("[") or bare == "null")


def _sorted(found: Iterable[devices.Device]) -> list[devices.Device]:
    return sorted(found, key=lambda device: device.uuid)


def _distinct(found: Sequence[devices.Device]) -> tuple[devices.Device, ...]:
    seen: set[str] = set()
    for i, device in enumerate(found):
        if not device.uuid or device.uuid in seen:
            raise errors.WireError(f"{device.uuid[:40]!r} is empty or appears twice", field=f"device {i}: id")
        for name, text, most in (("id", device.uuid, 128), ("type", device.model, 128), ("mode", device.mode, 32)):
            fields.storable(text, most, f"device {i}: {name}")
        seen.add(device.uuid)
    return tuple(found)


def _object(device: devices.Device) -> dict[str, Any]:
    """Keys in HAMi's order, zero values left out."""
    value = {
        "id": device.uuid,
        "index": device.index,
        "count": device.slots,
        "devmem": device.memory_mib,
        "devcore": device.core_percent,
        "type": device.model,
        "numa": device.numa,
        "mode": device.mode,
        "migProfiles": [_profile_object(profile) for profile in device.mig_profiles],
        "health": device.healthy,
    }
    return {key: member for key, member in value.items() if member}


def _profile_object(profile: devices.MigProfile) -> dict[str, Any]:
    """Inside a profile nothing is left out."""
    return {
        "name": profile.name,
        "memoryMB": profile.memory_mib,
        "core": profile.core_percent,
        "sliceCount": profile.slice_count,
        "placements": [{"start": place.start, "size": place.size} for place in profile.placements],
    }


def _from_object(value: Mapping[str, Any], vendor: str, field: str) -> devices.Device:
    profiles = fields.items(value.get("migprofiles"), f"{field}: migProfiles")
    return devices.Device(
        uuid=fields.text(value, "id", field),
        index=fields.number(value, "index", field, least=0),
        vendor=vendor,
        model=fields.text(value, "type", field),
        memory_mib=fields.number(value, "devmem", field, least=0),
        core_percent=fields.number(value, "devcore", field, least=0),
        slots=fields.number(value, "count", field, least=0),
        numa=fields.number(value, "numa", field),
        mode=fields.text(value, "mode", field),
        healthy=fields.flag(value, "health", field),
        mig_profiles=tuple(_from_profile(p, f"{field}: migProfiles {i}") for i, p in enumerate(profiles)),
        custom=_custom(value.get("custominfo"), field),
    )


def _custom(value: Any, field: str) -> devices.Custom:
    """The plain members of `custominfo`, sorted; objects and arrays in it are nobody's business here."""
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        raise errors.WireError("an object is expected", field=f"{field}: custominfo")
    plain = (str, int, float, bool)
    return tuple(sorted((str(key), member) for key, member in value.items() if isinstance(member, plain)))


def _from_profile(value: Mapping[str, Any], field: str) -> devices.MigProfile:
    placements = fields.items(value.get("placements"), f"{field}: placements")
    return devices.MigProfile(
        name=fields.storable(fields.text(value, "name", field), 64, f"{field}: name"),
        memory_mib=fields.number(value, "memoryMB", field, least=0),
        core_percent=fields.number(value, "core", field, least=0),
        slice_count=fields.number(value, "sliceCount", field, least=0),
        placements=tuple(_from_placement(p, f"{field}: placements {i}") for i, p in enumerate(placements)),
    )


def _from_placement(value: Mapping[str, Any], field: str) -> devices.MigPlacement:
    return devices.MigPlacement(
        fields.number(value, "start", field, least=0), fields.number(value, "size", field, least=0)
    )


def _columns(device: devices.Device) -> list[str]:
    names = (device.uuid, device.model, device.mode)
    if any(separator in name for name in names for separator in ",:"):
        raise errors.WireError(f"a separator in one of {names!r}", field=device.uuid)
    numbers = [str(n) for n in (device.slots, device.memory_mib, device.core_percent)]
    health = "true" if device.healthy else "false"
    return [device.uuid, *numbers, device.model, str(device.numa), health, str(device.index), device.mode]


def _from_columns(text: str, vendor: str, field: str) -> devices.Device:
    columns = text.split(",")
    if len(columns) not in (7, 9):
        raise errors.WireError(f"7 or 9 fields are expected, found {len(columns)}", field=field)
    healthy = fields.boolean(columns[6])
    if healthy is None:
        raise errors.WireError(f"{columns[6][:40]!r} is not a bool", field=f"{field}: health")
    index, mode = columns[7:] or ("0", _LEGACY_MODE)
    return devices.Device(
        uuid=columns[0],
        slots=fields.integer(columns[1], f"{field}: count", least=0),
        memory_mib=fields.integer(columns[2], f"{field}: devmem", least=0),
        core_percent=fields.integer(columns[3], f"{field}: devcore", least=0),
        vendor=vendor,
        model=columns[4],
        numa=fields.integer(columns[5], f"{field}: numa"),
        healthy=healthy,
        index=fields.integer(index, f"{field}: index", least=0),
        mode=mode,
    )
