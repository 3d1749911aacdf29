"""The three patch languages of the API server, as pure functions that never change what they are given.

Sources: RFC 6902 (JSON patch), RFC 7396 (merge patch), Kubernetes' strategic merge patch with the merge keys of the
kinds that are served here (patchMergeKey tags of k8s.io/api/core/v1).
"""

from __future__ import annotations

from typing import Any

from hami_platform.simulator.api import errors
from hami_platform.simulator.api.types import Obj, copied

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
MEDIA_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)

_MERGE_KEYS = {
    "containers": "name", "initContainers": "name", "ephemeralContainers": "name", "volumes": "name", "env": "name",
    "volumeMounts": "mountPath", "volumeDevices": "devicePath", "imagePullSecrets": "name", "conditions": "type",
    "addresses": "type", "ownerReferences": "uid", "hostAliases": "ip", "schedulingGates": "name", "podIPs": "ip",
    "hostIPs": "ip", "topologySpreadConstraints": "topologyKey", "resourceClaims": "name", "webhooks": "name",
    "matchConditions": "name", "secrets": "name",
}  # fmt: skip
_PRIMITIVE_SETS = frozenset(("finalizers", "podCIDRs"))


def merge(target: Any, patch: Any) -> Any:
    """RFC 7396: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def strategic(target: Any, patch: Any, field: str = "") -> Any:
    """Kubernetes' strategic merge: lists with a merge key are merged by it, others are replaced."""
    if isinstance(patch, list):
        return _strategic_list(target if isinstance(target, list) else [], patch, field)
    if not isinstance(patch, dict):
        return patch
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    return _strategic_map(target if isinstance(target, dict) else {}, patch)


def _strategic_map(target: Obj, patch: Obj) -> Obj:
    result = dict(target)
    retained = patch.get("$retainKeys")
    if isinstance(retained, list):
        result = {key: value for key, value in result.items() if key in retained}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            result[name] = [item for item in result.get(name) or [] if item not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = strategic(result.get(key), value, key)
    return result


def _strategic_list(target: list[Any], patch: list[Any], field: str) -> list[Any]:
    if field in _PRIMITIVE_SETS:
        return target + [item for item in patch if item not in target]
    # A container's ports merge by containerPort; every other list of that name has no entry here.
    key = _MERGE_KEYS.get(field) or ("containerPort" if field == "ports" else None)
    if key is None or not all(isinstance(item, dict) for item in patch):
        return patch
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if item.get("$patch") != "replace"]
    result = list(target)
    for item in patch:
        _merge_item(result, item, key)
    return result


def _merge_item(result: list[Any], item: Obj, key: str) -> None:
    if key not in item:
        raise errors.bad_request(f"map: {item} does not contain declared merge key: {key}")
    at = next((index for index, old in enumerate(result) if old.get(key) == item[key]), None)
    if item.get("$patch") == "delete":
        if at is not None:
            del result[at]
    elif at is None:
        result.append(strategic({}, item))
    else:
        result[at] = strategic(result[at], item)


def json_patch(target: Obj, operations: Any) -> Obj:
    """RFC 6902. Raises ApiError 422 with the text of the real server when an operation does not apply."""
    if not isinstance(operations, list):
        raise errors.bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch"
        )
    document: Any = copied(target)
    for operation in operations:
        document = _apply(document, operation)
    if not isinstance(document, dict):
        raise errors.unprocessable("the patched object is not an object")
    return document


def _apply(document: Any, operation: Obj) -> Any:
    kind, path = operation.get("op"), operation.get("path")
    if not isinstance(path, str):
        raise errors.unprocessable("missing patch path: missing value")
    if kind == "test":
        if _read(document, path, "test") != operation.get("value"):
            raise errors.unprocessable(f"testing value {path} failed: test failed")
        return document
    if kind in ("add", "replace"):
        return _write(document, path, operation.get("value"), kind)
    if kind == "remove":
        return _remove(document, path, "remove")
    if kind in ("move", "copy"):
        source = str(operation.get("from"))
        value = _read(document, source, str(kind))
        return _write(_remove(document, source, "move") if kind == "move" else document, path, value, "add")
    raise errors.unprocessable(f"Unexpected kind: {kind}")


def _tokens(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise errors.unprocessable(f"invalid JSON pointer: {path}")
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _missing(kind: str, path: str) -> errors.ApiError:
    return errors.unprocessable(f"{kind} operation does not apply: doc is missing path: {path}: missing value")


def _index(container: list[Any], token: str, kind: str, path: str, *, end: bool) -> int:
    if token == "-" and end:  # noqa: S105 - a JSON pointer's token
        return len(container)
    if not token.isdigit() or int(token) >= len(container) + end:
        raise errors.unprocessable(f"{kind} operation does not apply: doc is missing key: {path}: missing value")
    return int(token)


def _parent(document: Any, path: str, kind: str) -> tuple[Any, str]:
    *way, last = _tokens(path)
    for token in way:
        if isinstance(document, dict) and token in document:
            document = document[token]
        elif isinstance(document, list):
            document = document[_index(document, token, kind, path, end=False)]
        else:
            raise _missing(kind, path)
    if not isinstance(document, dict | list):
        raise _missing(kind, path)
    return document, last


def _read(document: Any, path: str, kind: str) -> Any:
    if not path:
        return document
    parent, last = _parent(document, path, kind)
    if isinstance(parent, list):
        return parent[_index(parent, last, kind, path, end=False)]
    if last not in parent:
        if kind == "test":
            return None
        raise _missing(kind, path)
    return parent[last]


def _write(document: Any, path: str, value: Any, kind: str) -> Any:
    if not path:
        return value
    parent, last = _parent(document, path, kind)
    if isinstance(parent, list):
        if kind == "add":
            parent.insert(_index(parent, last, kind, path, end=True), value)
        else:
            parent[_index(parent, last, kind, path, end=False)] = value
        return document
    if kind == "replace" and last not in parent:
        raise errors.unprocessable(f"replace operation does not apply: doc is missing key: {path}: missing value")
    parent[last] = value
    return document


def _remove(document: Any, path: str, kind: str) -> Any:
    parent, last = _parent(document, path, kind)
    if isinstance(parent, list):
        del parent[_index(parent, last, kind, path, end=False)]
    elif last in parent:
        del parent[last]
    else:
        raise errors.unprocessable(
            f"{kind} operation does not apply: Unable to remove nonexistent key: {last}: missing value"
        )
    return document
