"""Requests to play to a real and to the simulated API server alike, and what of the answers must be equal.

Each case is played in a namespace of its own after `before`; the last answer is compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

Obj = dict[str, Any]
JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Call:
    """One request; `{ns}` in the path stands for the case's namespace."""

    method: str
    path: str
    body: Any = None
    media: str = JSON
    accept: str = JSON


@dataclass(frozen=True, slots=True)
class Case:
    """`last` is compared. `loose`: compare code and reason only, since the text names Go types."""

    name: str
    last: Call
    before: tuple[Call, ...] = ()
    loose: bool = field(default=False)


Play = Callable[[Call], tuple[int, Any]]
"""Send one request (its path complete) and give back status and decoded body."""


_VARYING = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"ResourceVersion in object meta: \d+"), "ResourceVersion in object meta: N"),
    (re.compile(r"case-[a-z0-9-]+"), "NS"),
)


def play(case: Case, namespace: str, send: Play) -> tuple[int, Any]:
    """Play a case; the last answer."""
    answer: tuple[int, Any] = (0, None)
    for call in (*case.before, case.last):
        answer = send(_placed(call, namespace))
        assert call is case.last or answer[0] < 300, f"{case.name}: {answer}"
    return answer


def _placed(call: Call, namespace: str) -> Call:
    body = call.body
    for key in ("involvedObject", "regarding"):
        if isinstance(body, dict) and key in body:
            body = {**body, key: {**body[key], "namespace": namespace}}
    return replace(call, path=call.path.replace("{ns}", namespace), body=body)


def comparable(case: Case, answer: tuple[int, Any]) -> Any:
    """What must be equal: failures word by word, objects by keys and values where these are fixed."""
    code, body = answer
    if case.loose and code < 400:
        return code, body.get("kind")
    if code >= 400:
        found = body if isinstance(body, dict) else {}
        if case.loose:
            return code, found.get("reason")
        return code, found.get("reason"), _steady(str(found.get("message"))), _causes(found)
    return code, _form(body)


def _causes(status: Obj) -> list[tuple[Any, Any]]:
    return [(item.get("reason"), item.get("field")) for item in (status.get("details") or {}).get("causes") or []]


_RANDOM = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "lastTransitionTime",
    "namespace",
    "time",
)


def _form(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _form(item, name) for name, item in value.items() if name not in ("managedFields", "description")}
    if isinstance(value, list):
        return [_form(item) for item in value if not _mere_bookmark(item)]
    if key in _RANDOM or key == "continue":
        return type(value).__name__
    return _steady(value) if isinstance(value, str) else value


def _mere_bookmark(item: Any) -> bool:
    """A bookmark that comes by the clock; the one that ends a list is annotated."""
    return isinstance(item, dict) and item.get("type") == "BOOKMARK" and "annotations" not in item["object"]["metadata"]


def _steady(text: str) -> str:
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    text = re.sub(r"kube-api-access-\w{5}", "kube-api-access-X", text)
    return "AGE" if re.fullmatch(r"\d+s", text) else text
