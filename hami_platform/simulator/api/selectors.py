"""Label and field selectors, read from their text form. Knows nothing of storage.

Source: Kubernetes apimachinery pkg/labels and pkg/fields; the supported fields are those of pkg/registry/core.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hami_platform.simulator.api import errors
from hami_platform.simulator.api.types import Obj, Resource

_SET = re.compile(r"\s*([^\s,!=()]+)\s+(in|notin)\s+\(([^)]*)\)\s*")
_PAIR = re.compile(r"\s*([^\s,!=()]+)\s*(==|!=|=)\s*([^\s,!=()]*)\s*")
_EXISTS = re.compile(r"\s*(!?)\s*([^\s,!=()]+)\s*")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term; `operator` is in, notin, exists or absent."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True when the labels satisfy this term; a missing key satisfies notin, as in Kubernetes."""
        if self.operator == "exists":
            return self.key in labels
        if self.operator == "absent":
            return self.key not in labels
        if self.operator == "in":
            return self.key in labels and labels[self.key] in self.values
        return self.key not in labels or labels[self.key] not in self.values


Selector = tuple[Requirement, ...]


def labels(text: str) -> Selector:
    """Read a label selector. Raises ApiError 400."""
    terms: list[Requirement] = []
    position = 0
    while position < len(text):
        term, position = _label_term(text, position)
        terms.append(term)
        if position < len(text):
            if text[position] != ",":
                raise errors.bad_request(
                    f"unable to parse requirement: found '{text[position:]}', expected: ',' or 'end of string'"
                )
            position += 1
            if position == len(text):
                raise errors.bad_request("unable to parse requirement: found '', expected: identifier after ','")
    return tuple(terms)


def _label_term(text: str, position: int) -> tuple[Requirement, int]:
    if match := _SET.match(text, position):
        values = frozenset(part.strip() for part in match[3].split(","))
        return Requirement(match[1], match[2], values), match.end()
    if match := _PAIR.match(text, position):
        return Requirement(match[1], "notin" if match[2] == "!=" else "in", frozenset((match[3],))), match.end()
    if match := _EXISTS.match(text, position):
        return Requirement(match[2], "absent" if match[1] else "exists"), match.end()
    raise errors.bad_request(f"unable to parse requirement: found '{text[position:]}', expected: identifier")


def from_object(selector: Obj | None) -> Selector:
    """A metav1.LabelSelector; None and {} match everything. Raises ApiError 400."""
    if not selector:
        return ()
    terms = [Requirement(key, "in", frozenset((value,))) for key, value in (selector.get("matchLabels") or {}).items()]
    terms += [from_expression(expression) for expression in selector.get("matchExpressions") or []]
    return tuple(terms)


_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}


def from_expression(expression: Obj) -> Requirement:
    """One matchExpressions element. Raises ApiError 400."""
    operator = _OPERATORS.get(str(expression.get("operator")))
    if operator is None:
        raise errors.bad_request(f'"{expression.get("operator")}" is not a valid label selector operator')
    return Requirement(str(expression["key"]), operator, frozenset(expression.get("values") or ()))


def matches(selector: Selector, found: Mapping[str, str] | None) -> bool:
    """True when every term holds."""
    return all(term.matches(found or {}) for term in selector)


Getter = Callable[[Obj], Any]


def _path(*keys: str) -> Getter:
    def read(obj: Obj) -> Any:
        found: Any = obj
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return "" if found is None else found

    return read


def _host_network(obj: Obj) -> str:
    return str(bool((obj.get("spec") or {}).get("hostNetwork"))).lower()


def _event_source(obj: Obj) -> Any:
    return (obj.get("source") or {}).get("component") or obj.get("reportingComponent") or ""


_COMMON: dict[str, Getter] = {
    "metadata.name": _path("metadata", "name"),
    "metadata.namespace": _path("metadata", "namespace"),
}
_FIELDS: dict[str, dict[str, Getter]] = {
    "pods": {
        "spec.nodeName": _path("spec", "nodeName"),
        "spec.restartPolicy": _path("spec", "restartPolicy"),
        "spec.schedulerName": _path("spec", "schedulerName"),
        "spec.serviceAccountName": _path("spec", "serviceAccountName"),
        "spec.hostNetwork": _host_network,
        "status.phase": _path("status", "phase"),
        "status.podIP": _path("status", "podIP"),
        "status.nominatedNodeName": _path("status", "nominatedNodeName"),
    },
    "nodes": {"spec.unschedulable": lambda obj: str(bool((obj.get("spec") or {}).get("unschedulable"))).lower()},
    "namespaces": {"status.phase": _path("status", "phase")},
    "events": {
        **{
            f"involvedObject.{key}": _path("involvedObject", key)
            for key in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        },
        **{f"regarding.{key}": _path("involvedObject", key) for key in ("kind", "namespace", "name", "uid")},
        "reason": _path("reason"),
        "reportingComponent": _path("reportingComponent"),
        "source": _event_source,
        "type": _path("type"),
    },
}


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """`path = value`, or `!=` when `negated`."""

    path: str
    read: Getter
    value: str
    negated: bool

    def matches(self, obj: Obj) -> bool:
        """True when the object's field satisfies the term."""
        return (str(self.read(obj)) == self.value) != self.negated


FieldSelector = tuple[FieldTerm, ...]


def fields(text: str, resource: Resource) -> FieldSelector:
    """Read a field selector for a resource. Raises ApiError 400 for a field the resource does not support."""
    terms: list[FieldTerm] = []
    known = {**_COMMON, **_FIELDS.get(resource.plural, {})}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        match = re.fullmatch(r"([^=!]+)(==|!=|=)(.*)", part)
        if match is None:
            raise errors.bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
        read = known.get(match[1])
        if read is None:
            raise errors.bad_request(f"field label not supported: {match[1]}")
        terms.append(FieldTerm(match[1], read, match[3], match[2] == "!="))
    return tuple(terms)
