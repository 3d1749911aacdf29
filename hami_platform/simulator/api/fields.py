"""managedFields for new objects: which fields their creator set. Knows nothing of apply conflicts.

Only the entry of the creation is kept; it is what makes bodies as large and as nested as a real server's.
"""

from __future__ import annotations

from typing import Any

from hami_platform.simulator.api.types import Obj, Resource, now_text

_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "conditions": "type",
    "webhooks": "name",
}
_SKIPPED = frozenset(("kind", "apiVersion", "status"))
_SERVER_SET = frozenset(
    ("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "generateName")
)


def creation_entry(resource: Resource, obj: Obj, manager: str) -> Obj:
    """The managedFields entry of the request that made `obj`."""
    meta = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in _SERVER_SET}
    rest = {key: value for key, value in obj.items() if key not in _SKIPPED and key != "metadata"}
    return {
        "manager": manager or "unknown",
        "operation": "Update",
        "apiVersion": resource.api_version,
        "time": now_text(),
        "fieldsType": "FieldsV1",
        "fieldsV1": _tree({**({"metadata": meta} if meta else {}), **rest}, dot=False),
    }


def _tree(value: Any, *, dot: bool = True) -> Obj:
    if not isinstance(value, dict) or not value:
        return {}
    tree: Obj = {".": {}} if dot else {}
    for key in sorted(value):
        tree[f"f:{key}"] = (
            _list(key, value[key])
            if isinstance(value[key], list)
            else _tree(value[key], dot=key not in ("spec", "metadata"))
        )
    return tree


def _list(name: str, items: list[Any]) -> Obj:
    key = _KEYS.get(name)
    if key is None or not all(isinstance(item, dict) and key in item for item in items):
        return {}
    return {f'k:{{"{key}":"{item[key]}"}}': _tree(item) for item in items}


def manager_of(agent: str, given: str) -> str:
    """The manager's name: as asked, else the start of the User-Agent."""
    return given or agent.partition("/")[0] or "unknown"
