"""The outer form of stored objects: key order, dropped nulls, names. Knows nothing of single kinds."""

from __future__ import annotations

import random
import uuid
from typing import Any

from hami_platform.simulator.api.types import Obj, Resource, now_text

_TOP = ("kind", "apiVersion", "metadata", "spec", "status")
_META = (
    "name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers",
    "managedFields",
)  # fmt: skip
_OMIT_EMPTY = ("labels", "annotations", "ownerReferences", "finalizers", "managedFields")
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # source: apimachinery pkg/util/rand, no vowels
_ALWAYS_THERE = (
    "containers",
    "resources",
    "securityContext",
    "affinity",
    "nodeAffinity",
    "podAffinity",
    "podAntiAffinity",
    "namespaceSelector",
    "objectSelector",
    "emptyDir",
    "spec",
    "status",
)


def without_nulls(value: Any) -> Any:
    """Drop null and empty map entries, as decoding into typed objects and encoding them again does.

    Empty strings and numbers stay: which of them Go leaves out depends on the field.
    """
    if isinstance(value, dict):
        cleaned = {
            key: item if key == "managedFields" else without_nulls(item)  # there an empty map means something
            for key, item in value.items()
            if item is not None
        }
        return {key: item for key, item in cleaned.items() if item not in ({}, []) or key in _ALWAYS_THERE}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def ordered(resource: Resource, obj: Obj) -> Obj:
    """The object with kind and apiVersion first and its known keys in the server's order."""
    result: Obj = {"kind": resource.kind, "apiVersion": resource.api_version}
    for key in (*_TOP[2:], *obj):
        if key in obj and key not in result:
            result[key] = obj[key]
    meta = obj["metadata"]
    result["metadata"] = {
        key: meta[key] for key in (*_META, *meta) if key in meta and (meta[key] or key not in _OMIT_EMPTY)
    }
    return result


def prefix(resource: Resource) -> bytes:
    """How the JSON of every stored object of the resource begins; list items come without it."""
    return f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'.encode()


def random_suffix() -> str:
    """Five characters, as names made from generateName end."""
    return "".join(random.choices(_SUFFIX_ALPHABET, k=5))  # noqa: S311 - a name, not a secret


def new_metadata(resource: Resource, meta: Obj, namespace: str) -> None:
    """Fill in what the server decides at creation."""
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "selfLink"):
        meta.pop(key, None)
    meta["uid"] = str(uuid.uuid4())
    meta["creationTimestamp"] = now_text()
    if resource.namespaced:
        meta["namespace"] = namespace
    if resource.plural in ("pods", "mutatingwebhookconfigurations"):
        meta["generation"] = 1
    if not meta.get("name"):
        meta["name"] = str(meta["generateName"])[:58] + random_suffix()
