"""Calls to a scheduler extender, byte for byte as kube-scheduler v1.36 makes them (captured from a real one).

The outer types have no JSON tags in Go: keys are capitals, and answers are read without regard to case. Knows
nothing of queues.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec

from hami_platform.simulator import transport

Obj = dict[str, Any]


class ExtenderError(Exception):
    """The extender failed; the text is what kube-scheduler puts into the pod's condition."""


@dataclass(frozen=True, slots=True)
class ExtenderConfig:
    """The extender's stanza of a KubeSchedulerConfiguration. No bind verb: the scheduler binds itself."""

    url_prefix: str
    filter_verb: str = "filter"
    bind_verb: str = "bind"
    node_cache_capable: bool = True
    ignorable: bool = False
    timeout_s: float = 30.0
    managed_resources: frozenset[str] = frozenset()
    ignored_by_scheduler: bool = True
    ca_pem: bytes | None = None


@dataclass(frozen=True, slots=True)
class Filtered:
    """filter's answer: nodes that are left, nodes turned down with their texts, those that no preemption cures."""

    nodes: tuple[str, ...]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


class Extender:
    """One extender; filter calls come one after another, binds in parallel."""

    def __init__(self, config: ExtenderConfig) -> None:
        self.config = config
        context = ssl.create_default_context(cadata=config.ca_pem.decode()) if config.ca_pem else None
        parts = urlsplit(config.url_prefix)
        self._path = parts.path.rstrip("/")
        self._root = f"{parts.scheme}://{parts.netloc}"
        self._pool = transport.Pool(config.url_prefix, context=context)

    def interested(self, pod: Obj) -> bool:
        """True when the pod names a managed resource, in limits or requests of any container."""
        managed = self.config.managed_resources
        return not managed or any(name in managed for name in resource_names(pod))

    def filter(self, pod: Obj, nodes: Sequence[Obj]) -> Filtered:
        """Ask which nodes do. Raises ExtenderError."""
        names = [node["metadata"]["name"] for node in nodes]
        capable = self.config.node_cache_capable
        items = None if capable else {"metadata": {}, "items": [untyped(node) for node in nodes]}
        body = {"Pod": untyped(pod), "Nodes": items, "NodeNames": names if capable else None}
        answer = self._send(self.config.filter_verb, "filter", body)
        if answer.get("error"):
            raise ExtenderError(str(answer["error"]))
        return Filtered(
            self._left(answer, names), answer.get("failednodes") or {}, answer.get("failedandunresolvablenodes") or {}
        )

    def bind(self, pod: Obj, node: str) -> None:
        """Ask the extender to bind. Raises ExtenderError."""
        meta = pod["metadata"]
        body = {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"], "Node": node}
        answer = self._send(self.config.bind_verb, "bind", body)
        if answer.get("error"):
            raise ExtenderError(str(answer["error"]))

    def close(self) -> None:
        """Drop idle connections."""
        self._pool.close()

    def _left(self, answer: Obj, asked: list[str]) -> tuple[str, ...]:
        names = answer.get("nodenames")
        if names is None:
            names = [item["metadata"]["name"] for item in (answer.get("nodes") or {}).get("items") or []]
        for name in names:
            if name not in asked:
                claim = f'extender "{self.config.url_prefix}" claims a filtered node "{name}"'
                raise ExtenderError(f"{claim} which is not found in the input node list")
        return tuple(names)

    def _send(self, verb: str, action: str, body: Obj) -> Obj:
        target = f"{self._path}/{verb}"
        headers = {"User-Agent": "Go-http-client/1.1", "Content-Type": "application/json", "Accept-Encoding": "gzip"}
        try:
            answer = self._pool.request("POST", target, msgspec.json.encode(body), headers, self.config.timeout_s)
        except transport.TransportError as failure:
            raise ExtenderError(failure.text) from failure
        if answer.status != 200:
            raise ExtenderError(f"failed {action} with extender at URL {self._root}{target}, code {answer.status}")
        return _folded(answer.body)


def _folded(body: bytes) -> Obj:
    """The answer with keys in lower case. Raises ExtenderError in the words of Go's decoder."""
    if not body.strip():
        raise ExtenderError("EOF")
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError as failure:
        raise ExtenderError(
            f"invalid character '{body.lstrip()[:1].decode(errors='replace')}' looking for beginning of value"
        ) from failure
    if not isinstance(found, dict):
        raise ExtenderError("json: cannot unmarshal array into Go value of type v1.ExtenderFilterResult")
    return {key.lower(): value for key, value in found.items()}


def untyped(obj: Obj) -> Obj:
    """An object as the scheduler's cache holds it: without kind and apiVersion; pods lose managedFields too."""
    rest = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}
    if "containers" in (obj.get("spec") or {}):
        rest["metadata"] = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return rest


def resource_names(pod: Obj) -> Iterable[str]:
    """Every resource that a container names."""
    spec = pod["spec"]
    for container in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]:
        amounts = container.get("resources") or {}
        for kind in ("limits", "requests"):
            yield from amounts.get(kind) or {}
