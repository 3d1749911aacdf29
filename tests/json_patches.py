"""Applies a JSON patch (RFC 6902: add, replace, remove) the way the API server does: on a copy, strictly."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any


def apply(document: Any, patch: Iterable[Mapping[str, Any]]) -> Any:
    """The patched document. Raises KeyError or IndexError where a path does not exist."""
    result = copy.deepcopy(document)
    for operation in patch:
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        target = result
        for part in parents:
            target = target[int(part)] if isinstance(target, list) else target[part]
        _apply_one(target, last, operation)
    return result


def _apply_one(target: Any, last: str, operation: Mapping[str, Any]) -> None:
    value = copy.deepcopy(operation.get("value"))
    if isinstance(target, list):
        if operation["op"] == "add":
            target.insert(len(target) if last == "-" else int(last), value)
        else:
            target[int(last)] = value
        return
    if operation["op"] != "add" and last not in target:
        raise KeyError(operation["path"])
    if operation["op"] == "remove":
        del target[last]
    else:
        target[last] = value
