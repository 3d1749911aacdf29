"""Words shared by the API server's modules. Knows nothing of HTTP or storage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

Obj = dict[str, Any]
"""A Kubernetes object as decoded JSON."""


@dataclass(frozen=True, slots=True)
class User:
    """Who is asking, as authentication found it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ("system:authenticated",)


@dataclass(frozen=True, slots=True)
class Resource:
    """One served resource; `subresources` names what may follow an object's name in the path."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    unconditional_update: bool = True
    categories: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """`v1`, or `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The name error texts use: `pods`, `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def has_status(self) -> bool:
        """True when status is written through its own subresource only."""
        return "status" in self.subresources


@dataclass(slots=True)
class Request:
    """One HTTP request, read whole. Header names are lower case; of repeated query keys the last counts."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    user: User = field(default_factory=lambda: User("system:anonymous", groups=("system:unauthenticated",)))
    warnings: list[str] = field(default_factory=list)

    def flag(self, name: str) -> bool:
        """A boolean query parameter: absent, `0` and `false` are false, as in the real server."""
        return self.query.get(name, "").lower() not in ("", "0", "false")


@dataclass(slots=True)
class Response:
    """An answer: a body, or a stream of chunks (an empty chunk only asks whether the client is still there)."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: list[tuple[str, str]] = field(default_factory=list)
    stream: Any = None
    after: Callable[[], None] | None = None


def now_text() -> str:
    """Wall time as API objects carry it: RFC 3339, whole seconds, Z."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def copied(obj: Obj) -> Obj:
    """A deep copy: stored objects are never changed in place."""
    duplicate: Obj = msgspec.json.decode(msgspec.json.encode(obj))
    return duplicate


def metadata(obj: Obj) -> Obj:
    """The object's metadata, made when missing."""
    meta = obj.get("metadata")
    if not isinstance(meta, dict):
        meta = obj["metadata"] = {}
    return meta
