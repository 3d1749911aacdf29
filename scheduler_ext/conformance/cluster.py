"""A Kubernetes API in memory: the few kinds and verbs that the product uses, with faults that a step asks for.

Objects come from vectors as they are, uids and statuses included, so nothing is validated here. Preconditions, merge
patches and Bindings behave as the API server's. Must not know: vectors, devices.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec

from hami_platform.kube import api as ports
from hami_platform.kube import calls, errors, objects

T = TypeVar("T")
Obj = dict[str, Any]
Key = tuple[str, str, str]
"""(plural, namespace, name); nodes have no namespace."""

VERSION = {"major": "1", "minor": "36"}
_PREFIX = re.compile(r"^/(?:api|apis/[^/]+)/v1/")
_VERBS = {"GET": "get", "PATCH": "patch", "POST": "create", "PUT": "update", "DELETE": "delete"}


class Cluster:
    """Implements `kube.api.Api`, and lets the runner put, change and look at objects."""

    def __init__(self) -> None:
        self.objects: dict[Key, Obj] = {}
        self.faults: Mapping[str, str] = {}
        """`<verb> <resource>` → text of the failure of such a call, for example `patch pods`."""
        self._revision = 100

    # -- for the runner -------------------------------------------------------------------------------------------

    def put(self, plural: str, obj: Mapping[str, Any]) -> Obj:
        """Store an object as it is, under a new resourceVersion; missing uid and namespace are made up."""
        stored = copy.deepcopy(dict(obj))
        meta = stored.setdefault("metadata", {})
        if plural != "nodes":
            meta.setdefault("namespace", "default")
        meta["uid"] = meta.get("uid") or f"uid-{meta.get('name', '')}"
        key = (plural, meta.get("namespace", "") if plural != "nodes" else "", meta.get("name", ""))
        return self._store(key, stored)

    def get(self, plural: str, name: str, namespace: str = "") -> Obj | None:
        """The object, or None."""
        return self.objects.get((plural, namespace, name))

    def all(self, plural: str) -> list[Obj]:
        """Every object of a kind, in the order in which they came."""
        return [obj for (kind, _, _), obj in self.objects.items() if kind == plural]

    def merge(self, plural: str, name: str, namespace: str, patch: Mapping[str, Any]) -> Obj:
        """Apply a JSON merge patch. Raises KeyError for an object that is not there."""
        key = (plural, namespace, name)
        return self._store(key, merged(self.objects[key], patch))

    def drop(self, plural: str, name: str, namespace: str = "") -> Obj | None:
        """Take the object away."""
        return self.objects.pop((plural, namespace, name), None)

    # -- kube.api.Api ---------------------------------------------------------------------------------------------

    def send(self, call: calls.KubeCall[T], *, timeout_s: float | None = None) -> T:
        """Answer the call. Raises errors.KubeError."""
        del timeout_s
        answer = self._answer(call)
        return objects.decode(msgspec.json.encode(answer), call.answer)

    def watch(self, call: calls.KubeCall[T], *, idle_s: float) -> ports.Stream[T]:
        """A watch that ends at once: the runner delivers events itself."""
        del call, idle_s
        return _Ended()

    def _answer(self, call: calls.KubeCall[Any]) -> Obj:
        if call.path == "/version":
            return VERSION
        plural, namespace, name, sub = _parts(call.path)
        text = self.faults.get(f"{_VERBS[call.method]} {plural}/{sub}" if sub else f"{_VERBS[call.method]} {plural}")
        if text is not None:
            raise errors.refused(400, "", text)
        if call.method == "GET" and not name:
            return {"metadata": {"resourceVersion": str(self._revision)}, "items": self.all(plural)}
        key = (plural, "" if plural == "nodes" else namespace, name)
        if plural == "events":
            return dict(call.body or {})
        found = self.objects.get(key)
        if found is None:
            raise errors.refused(404, "NotFound", f'{plural} "{name}" not found')
        return self._change(call, key, found, sub)

    def _change(self, call: calls.KubeCall[Any], key: Key, found: Obj, sub: str) -> Obj:
        body: Obj = dict(call.body or {})
        if call.method == "GET":
            return found
        _check(found, body.get("metadata") or {})
        if call.method == "PATCH":
            return self._store(key, merged(found, body))
        if call.method == "POST" and sub == "binding":
            return self._bind(key, found, body)
        raise errors.refused(405, "MethodNotAllowed", f"{call.method} {call.path}")

    def _bind(self, key: Key, found: Obj, body: Obj) -> Obj:
        if (found.get("spec") or {}).get("nodeName"):
            raise errors.refused(409, "Conflict", f"pod {key[2]} is already assigned to a node")
        given = body["metadata"]
        changes = {name: given[name] for name in ("annotations", "labels") if given.get(name)}
        patch = {"metadata": changes, "spec": {"nodeName": body["target"]["name"]}}
        self._store(key, merged(found, patch))
        return {"kind": "Status", "status": "Success", "code": 201}

    def _store(self, key: Key, obj: Obj) -> Obj:
        self._revision += 1
        obj["metadata"]["resourceVersion"] = str(self._revision)
        self.objects[key] = obj
        return obj


def merged(target: Any, patch: Any) -> Any:
    """A JSON merge patch applied to a copy (RFC 7386)."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def _parts(path: str) -> tuple[str, str, str, str]:
    """(plural, namespace, name, subresource) of a path."""
    parts = [unquote(part) for part in _PREFIX.sub("", path).split("/")]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    plural, name, sub = [*parts, "", ""][:3]
    return plural, namespace, name, sub


def _check(found: Obj, wanted: Mapping[str, Any]) -> None:
    """The preconditions that a request carries in its metadata."""
    for name in ("uid", "resourceVersion"):
        if wanted.get(name) and wanted[name] != found["metadata"].get(name):
            raise errors.refused(409, "Conflict", f"precondition failed: {name} is {found['metadata'].get(name)}")


class _Ended:
    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def close(self) -> None:
        """Nothing is open."""
