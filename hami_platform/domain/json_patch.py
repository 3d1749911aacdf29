"""JSON patch operations (RFC 6902) that touch only what changes. Must not know: pods' meaning, or who asked.

Every function returns the operations that are still missing, so patching twice is patching once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Operation = dict[str, Any]


def pointer(path: str, *members: str) -> str:
    """The JSON pointer of a member below path; `~` and `/` inside a name are escaped (RFC 6901)."""
    escaped = (member.replace("~", "~0").replace("/", "~1") for member in members)
    return "/".join((path, *escaped))


def members(path: str, parent: Any, wanted: Mapping[str, Any]) -> list[Operation]:
    """Sets members of the object at path; parent is that object, or None where there is none yet."""
    if parent is None:
        return [{"op": "add", "path": path, "value": dict(wanted)}] if wanted else []
    return [
        {"op": "replace" if name in parent else "add", "path": pointer(path, name), "value": value}
        for name, value in wanted.items()
        if parent.get(name) != value
    ]


def named_items(
    path: str, items: Sequence[Mapping[str, Any]] | None, wanted: Sequence[dict[str, Any]]
) -> list[Operation]:
    """Sets entries of a list of named objects (env, gates): those of that name are replaced, a new one is appended."""
    if not items:
        return [{"op": "add", "path": path, "value": list(wanted)}] if wanted else []
    found: list[Operation] = []
    for value in wanted:
        places = [i for i, item in enumerate(items) if item.get("name") == value["name"]]
        if not places:
            found.append({"op": "add", "path": f"{path}/-", "value": value})
        found += [{"op": "replace", "path": f"{path}/{i}", "value": value} for i in places if items[i] != value]
    return found
