"""The protobuf bodies that kubectl's typed commands send (`create namespace`, `drain`), read as JSON objects.

The server answers JSON, which clients accept; only requests need reading, and only of the few kinds that kubectl
builds from Go types. Source of field numbers: the generated.proto files of k8s.io/api and k8s.io/apimachinery.
Knows nothing of what the objects mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hami_platform.simulator.api import errors
from hami_platform.simulator.api.types import Obj

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"


@dataclass(frozen=True, slots=True)
class Field:
    """One field: `kind` is text, int, bool, a map of one of them, or a message's fields; lists are repeated."""

    name: str
    kind: Any = "text"
    repeated: bool = False


Message = dict[int, Field]

_META: Message = {
    1: Field("name"),
    2: Field("generateName"),
    3: Field("namespace"),
    5: Field("uid"),
    6: Field("resourceVersion"),
    11: Field("labels", ("map", "text")),
    12: Field("annotations", ("map", "text")),
    14: Field("finalizers", repeated=True),
}
_QUANTITY: Message = {1: Field("string")}
_ATTRIBUTES: Message = {
    number: Field(name)
    for number, name in enumerate(("namespace", "verb", "group", "version", "resource", "subresource", "name"), 1)
}
_PRECONDITIONS: Message = {1: Field("uid"), 2: Field("resourceVersion")}
_DELETE: Message = {
    1: Field("gracePeriodSeconds", "int"),
    2: Field("preconditions", _PRECONDITIONS),
    4: Field("propagationPolicy"),
    5: Field("dryRun", repeated=True),
}
_ACCESS: Message = {1: Field("resourceAttributes", _ATTRIBUTES)}
_KINDS: dict[str, Message] = {
    "Namespace": {1: Field("metadata", _META)},
    "ServiceAccount": {1: Field("metadata", _META)},
    "ConfigMap": {1: Field("metadata", _META), 2: Field("data", ("map", "text"))},
    "ResourceQuota": {1: Field("metadata", _META), 2: Field("spec", {1: Field("hard", ("map", _QUANTITY))})},
    "PriorityClass": {
        1: Field("metadata", _META),
        2: Field("value", "int"),
        3: Field("globalDefault", "bool"),
        4: Field("description"),
        5: Field("preemptionPolicy"),
    },
    "TokenRequest": {2: Field("spec", {1: Field("audiences", repeated=True), 4: Field("expirationSeconds", "int")})},
    "SelfSubjectReview": {1: Field("metadata", _META)},
    "SelfSubjectAccessReview": {2: Field("spec", _ACCESS)},
    "DeleteOptions": _DELETE,
    "Eviction": {1: Field("metadata", _META), 2: Field("deleteOptions", _DELETE)},
}


def decode(body: bytes) -> Obj:
    """The object in a body. Raises ApiError 415 for a kind that is not read here."""
    if not body:
        return {}
    if not body.startswith(_MAGIC):
        raise errors.bad_request("provided data does not appear to be a protobuf message, expected prefix 6b387300")
    unknown = dict(_fields(body[len(_MAGIC) :]))
    meta = {number: value.decode() for number, value in _fields(unknown.get(1, b""))}
    version, kind = meta.get(1, ""), meta.get(2, "")
    if kind not in _KINDS:
        raise errors.unsupported_media(f"{MEDIA_TYPE} of {kind}", ("application/json",))
    return {"kind": kind, "apiVersion": version, **_message(_KINDS[kind], unknown.get(2, b""))}


def _message(fields: Message, data: bytes) -> Obj:
    obj: Obj = {}
    for number, raw in _fields(data):
        field = fields.get(number)
        if field is None:
            continue
        if isinstance(field.kind, tuple):
            entry = dict(_fields(raw))
            obj.setdefault(field.name, {})[entry.get(1, b"").decode()] = _value(field.kind[1], entry.get(2, b""))
        elif field.repeated:
            obj.setdefault(field.name, []).append(_value(field.kind, raw))
        elif field.kind != "text" or raw:
            obj[field.name] = _value(field.kind, raw)
    return obj


def _value(kind: Any, raw: Any) -> Any:
    if kind is _QUANTITY:
        return _message(kind, raw).get("string", "0")
    if isinstance(kind, dict):
        return _message(kind, raw)
    if kind == "text":
        return raw.decode()
    return bool(raw) if kind == "bool" else raw


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers with their raw values: an int for a varint, bytes for anything with a length."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
        elif tag & 7 == 2:
            size, at = _varint(data, at)
            yield tag >> 3, data[at : at + size]
            at += size
        else:
            raise errors.bad_request(f"protobuf wire type {tag & 7} is not used by these kinds")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return value, at
    raise errors.bad_request("unexpected EOF in a protobuf body")
