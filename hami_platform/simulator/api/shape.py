"""The outer form of stored objects: key order, dropped nulls, names. Knows nothing of single kinds."""

from __future__ import annotations

import random
import re
import uuid
from typing import Any

from hami_platform.simulator.api import errors
from hami_platform.simulator.api.types import Obj, Resource, now_text

_TOP = ("kind", "apiVersion", "metadata", "spec", "status")
_META = (
    "name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers",
    "managedFields",
)  # fmt: skip
_OMIT_EMPTY = ("labels", "annotations", "ownerReferences", "finalizers", "managedFields")
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # source: apimachinery pkg/util/rand, no vowels
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_KEY_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_ANNOTATIONS_LIMIT = 256 * 1024  # source: apimachinery pkg/api/validation, TotalAnnotationSizeLimitB
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character"
)
_KEY_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character"
)


def without_nulls(value: Any) -> Any:
    """Drop null map entries everywhere, as decoding into typed objects does."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
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


def metadata_causes(resource: Resource, meta: Obj) -> list[errors.Cause]:
    """What is wrong with names, labels and annotations."""
    causes = _name_causes(resource, str(meta.get("name") or ""))
    for kind in ("labels", "annotations"):
        found = meta.get(kind) or {}
        if not all(isinstance(value, str) for value in found.values()):
            raise errors.bad_request(
                f"{resource.kind} in version {resource.version!r} cannot be handled as a {resource.kind}: "
                f"json: cannot unmarshal into Go struct field ObjectMeta.metadata.{kind} of type string"
            )
        for key in found:
            causes.extend(_key_causes(f"metadata.{kind}", str(key)))
    for value in (meta.get("labels") or {}).values():
        causes.extend(label_value_causes("metadata.labels", value))
    size = sum(len(key) + len(value.encode()) for key, value in (meta.get("annotations") or {}).items())
    if size > _ANNOTATIONS_LIMIT:
        causes.append(
            errors.Cause(
                "metadata.annotations", "FieldValueInvalid", f"may not be more than {_ANNOTATIONS_LIMIT} bytes"
            )
        )
    return causes


def _name_causes(resource: Resource, name: str) -> list[errors.Cause]:
    if not name:
        return [errors.required("metadata.name", "name or generateName is required")]
    if resource.plural == "namespaces":
        if len(name) > 63 or not _LABEL_NAME.fullmatch(name):
            return [
                errors.bad_value(
                    "metadata.name",
                    name,
                    _LABEL_TEXT,
                )
            ]
    elif len(name) > 253:
        return [errors.bad_value("metadata.name", name, "must be no more than 253 bytes")]
    elif resource.plural != "events" and not _SUBDOMAIN.fullmatch(name):
        return [errors.bad_value("metadata.name", name, _SUBDOMAIN_TEXT)]
    return []


def is_label(name: str) -> bool:
    """True for an RFC 1123 label: container names, for example."""
    return len(name) <= 63 and _LABEL_NAME.fullmatch(name) is not None


def _key_causes(field: str, key: str) -> list[errors.Cause]:
    start, slash, name = key.rpartition("/")
    if slash and (len(start) > 253 or not _SUBDOMAIN.fullmatch(start.lower())):
        return [errors.bad_value(field, key, f"prefix part {_SUBDOMAIN_TEXT}")]
    if not name:
        return [errors.bad_value(field, key, "name part must be non-empty")]
    if len(name) > 63:
        return [errors.bad_value(field, key, "name part must be no more than 63 bytes")]
    if not _KEY_NAME.fullmatch(name):
        return [
            errors.bad_value(
                field,
                key,
                f"name part {_KEY_TEXT}",
            )
        ]
    return []


def is_qualified_name(key: str) -> bool:
    """True for `name` or `prefix/name` as resource names and gates must be."""
    return not _key_causes("", key)


def label_value_causes(field: str, value: str) -> list[errors.Cause]:
    """What is wrong with a label's value."""
    if len(value) > 63:
        return [errors.bad_value(field, value, "must be no more than 63 bytes")]
    if not _LABEL_VALUE.fullmatch(value):
        return [
            errors.bad_value(
                field,
                value,
                f"a valid label must be an empty string or {_KEY_TEXT[5:]}",
            )
        ]
    return []
