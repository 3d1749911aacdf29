"""Names, label values and annotation keys: what the API server lets pass, and its words for what it does not.

Source: Kubernetes apimachinery pkg/util/validation and pkg/api/validation, v1.36. Knows nothing of single kinds.
"""

from __future__ import annotations

import re

from hami_platform.simulator.api import errors
from hami_platform.simulator.api.types import Obj, Resource

_ENDS = "and must start and end with an alphanumeric character"
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_KEY = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_LABEL_TEXT = (
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS} "
    f"(e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_SUBDOMAIN_TEXT = (
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ENDS} "
    f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_KEY_TEXT = (
    f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS} "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_KEY}')"
)
_VALUE_TEXT = (
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ENDS} "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')"
)
_ANNOTATIONS_LIMIT = 256 * 1024  # TotalAnnotationSizeLimitB


def metadata_causes(resource: Resource, meta: Obj) -> list[errors.Cause]:
    """What is wrong with names, labels and annotations. Raises ApiError 400 for values that are not text."""
    causes = _name_causes(resource, str(meta.get("name") or ""))
    for kind in ("labels", "annotations"):
        found = meta.get(kind) or {}
        if not all(isinstance(value, str) for value in found.values()):
            said = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
            raise errors.bad_request(f"{said}: json: cannot unmarshal into Go struct field ObjectMeta.metadata.{kind}")
        for key in found:
            causes += [errors.bad_value(f"metadata.{kind}", key, text) for text in key_faults(key)]
    for value in (meta.get("labels") or {}).values():
        causes += label_value_causes("metadata.labels", value)
    size = sum(len(key) + len(value.encode()) for key, value in (meta.get("annotations") or {}).items())
    if size > _ANNOTATIONS_LIMIT:
        text = f"may not be more than {_ANNOTATIONS_LIMIT} bytes"
        causes.append(errors.Cause("metadata.annotations", "FieldValueTooLong", text))
    return causes


def _name_causes(resource: Resource, name: str) -> list[errors.Cause]:
    field = "metadata.name"
    if not name:
        return [errors.required(field, "name or generateName is required")]
    if resource.plural == "namespaces":
        return [] if is_label(name) else [errors.bad_value(field, name, _LABEL_TEXT)]
    if len(name) > 253:
        return [errors.bad_value(field, name, "must be no more than 253 bytes")]
    if resource.plural != "events" and not re.fullmatch(_SUBDOMAIN, name):
        return [errors.bad_value(field, name, _SUBDOMAIN_TEXT)]
    return []


def is_label(name: str) -> bool:
    """True for an RFC 1123 label: namespaces, container names."""
    return len(name) <= 63 and re.fullmatch(_LABEL, name) is not None


def label_causes(field: str, name: str) -> list[errors.Cause]:
    """What is wrong with a name that must be an RFC 1123 label."""
    return [] if is_label(name) else [errors.bad_value(field, name, _LABEL_TEXT)]


def key_faults(key: str) -> list[str]:
    """What is wrong with `name` or `prefix/name`: labels, annotations, resources, gates."""
    if key.count("/") > 1:
        return [
            f"a valid label key {_KEY_TEXT} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    start, slash, name = key.rpartition("/")
    if slash and not start:
        return ["prefix part must be non-empty"]
    if slash and (len(start) > 253 or not re.fullmatch(_SUBDOMAIN, start.lower())):
        return [f"prefix part {_SUBDOMAIN_TEXT}"]
    if not name:
        return ["name part must be non-empty", f"name part {_KEY_TEXT}"]
    if len(name) > 63:
        return ["name part must be no more than 63 bytes"]
    return [] if re.fullmatch(_KEY, name) else [f"name part {_KEY_TEXT}"]


def label_value_causes(field: str, value: str) -> list[errors.Cause]:
    """What is wrong with a label's value."""
    if len(value) > 63:
        return [errors.bad_value(field, value, "must be no more than 63 bytes")]
    return [] if re.fullmatch(_VALUE, value) else [errors.bad_value(field, value, _VALUE_TEXT)]
