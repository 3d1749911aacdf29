"""How objects leave the server: plain JSON, Table for kubectl get, PartialObjectMetadata. Knows nothing of storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from hami_platform.simulator.api import errors, registry, shape, tables
from hami_platform.simulator.api.types import Obj, Request, Resource

Encode = msgspec.json.encode


@dataclass(frozen=True, slots=True)
class Form:
    """What the client accepts: `object`, `table` or `partial`."""

    kind: str
    include: str = "Metadata"


def form_of(request: Request) -> Form:
    """Negotiate by the Accept header. Raises ApiError 406 when nothing on it can be served."""
    accept = request.headers.get("accept", "*/*")
    for offer in accept.split(","):
        media, *parameters = (part.strip() for part in offer.split(";"))
        if media not in ("application/json", "*/*", "application/*"):
            continue
        wanted = dict(part.partition("=")[::2] for part in parameters)
        if wanted.get("as") == "Table" and wanted.get("g") == "meta.k8s.io":
            return Form("table", request.query.get("includeObject", "Metadata"))
        if str(wanted.get("as", "")).startswith("PartialObjectMetadata"):
            return Form("partial")
        if "as" not in wanted:
            return Form("object")
    raise errors.not_acceptable()


@dataclass(frozen=True, slots=True)
class Item:
    """An object as one API shows it, with its JSON."""

    obj: Obj
    raw: bytes


def item(resource: Resource, obj: Obj, raw: bytes | None = None) -> Item:
    """Show a stored (core) object through a resource; only the second event API differs."""
    if resource is registry.EVENTS_V1:
        converted = event_v1(obj)
        return Item(converted, Encode(converted))
    return Item(obj, Encode(obj) if raw is None else raw)


def single(resource: Resource, form: Form, shown: Item) -> bytes:
    """One object."""
    if form.kind == "table":
        return Encode(_table(resource, form, [shown], shown.obj["metadata"].get("resourceVersion", ""), headed=True))
    if form.kind == "partial":
        return Encode(_partial(shown.obj))
    return shown.raw


def many(resource: Resource, form: Form, shown: Sequence[Item], meta: Obj) -> bytes:
    """A list; items of a plain list come without kind and apiVersion, as from the real server."""
    if form.kind == "table":
        table = _table(resource, form, shown, "", headed=True)
        table["metadata"] = meta
        return Encode(table)
    if form.kind == "partial":
        partial = [_partial(entry.obj) for entry in shown]
        return Encode(
            {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta, "items": partial}
        )
    skip = len(shape.prefix(resource))
    head = f'{{"kind":"{resource.kind}List","apiVersion":"{resource.api_version}","metadata":'.encode() + Encode(meta)
    return head + b',"items":[' + b",".join(b"{" + entry.raw[skip:] for entry in shown) + b"]}"


def frame(resource: Resource, form: Form, kind: str, shown: Item, *, first: bool) -> bytes:
    """One line of a watch."""
    body = shown.raw
    if form.kind == "table":
        body = Encode(_table(resource, form, [shown], shown.obj["metadata"].get("resourceVersion", ""), headed=first))
    elif form.kind == "partial":
        body = Encode(_partial(shown.obj))
    return b'{"type":"' + kind.encode() + b'","object":' + body + b"}\n"


def bookmark(resource: Resource, form: Form, revision: int, *, initial_end: bool = False) -> bytes:
    """A bookmark event: an empty object of the kind that carries only a revision."""
    meta: Obj = {"resourceVersion": str(revision)}
    if initial_end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    obj: Obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
    if form.kind == "table":
        obj = {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": str(revision)},
            "columnDefinitions": [],
            "rows": [],
        }
    elif form.kind == "partial":
        obj |= {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    elif resource is registry.PODS:
        obj |= {"spec": {"containers": None}, "status": {}}
    elif resource is registry.NODES:
        obj |= {"spec": {}, "status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": {}}}
    return b'{"type":"BOOKMARK","object":' + Encode(obj) + b"}\n"


def _partial(obj: Obj) -> Obj:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def _table(resource: Resource, form: Form, shown: Sequence[Item], revision: str, *, headed: bool) -> Obj:
    now = datetime.now(UTC)
    columns = tables.columns(resource)
    rows = [
        {"cells": [column.read(entry.obj, now) for column in columns], "object": _row_object(form, entry.obj)}
        for entry in shown
    ]
    heads = [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": "",
            "priority": column.priority,
        }
        for column in columns
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": revision},
        "columnDefinitions": heads if headed else None,
        "rows": rows,
    }


def _row_object(form: Form, obj: Obj) -> Any:
    if form.include == "None":
        return None
    return obj if form.include == "Object" else _partial(obj)


_TO_V1 = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_TO_CORE = {new: old for old, new in _TO_V1.items()}


def event_v1(event: Obj) -> Obj:
    """A core event as events.k8s.io/v1 shows it."""
    renamed = {_TO_V1.get(key, key): value for key, value in event.items()}
    return {**renamed, "apiVersion": "events.k8s.io/v1"}


def event_core(event: Obj) -> Obj:
    """An events.k8s.io/v1 event as it is stored."""
    renamed = {_TO_CORE.get(key, key): value for key, value in event.items()}
    renamed["apiVersion"] = "v1"
    return renamed
