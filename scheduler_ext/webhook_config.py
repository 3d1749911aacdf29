"""The MutatingWebhookConfiguration that makes the API server ask us, and only about what concerns us.

Two entries, both with match conditions, so that `failurePolicy: Fail` can stop new pods with devices but nothing
else: CREATE asks when a pod names a vendor's resource or carries an owned key; UPDATE asks when the value of an
owned key changes and the user is not a configured writer. Must not know: Django, settings, how a pod is judged.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

NAME = "platform-hami-io"
CREATE = "create.platform.hami.io"
UPDATE = "update.platform.hami.io"
IGNORE_LABEL = "hami.io/webhook"
TIMEOUT_S = 5  # a GPU pod is refused in this time when the database hangs; plain pods never come here


@dataclass(frozen=True, slots=True)
class Subject:
    """What concerns us. Keys are exact, prefixes end in `/`; both own annotations and labels alike.

    writers: user or group names that may change owned keys; kubelets always may.
    """

    resources: Sequence[str]
    keys: Sequence[str]
    prefixes: Sequence[str]
    writers: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the webhook listens: a URL, or a Service. ca is PEM; empty where something else injects it."""

    url: str = ""
    service: str = ""
    namespace: str = ""
    port: int = 443
    path: str = "/webhook"
    ca: bytes = b""

    def client_config(self) -> dict[str, Any]:
        """clientConfig of an entry. Raises ValueError unless exactly one of url and service is given."""
        if bool(self.url) == bool(self.service and self.namespace):
            raise ValueError("webhook endpoint: give either a url, or a service and its namespace")
        ca = {"caBundle": base64.b64encode(self.ca).decode()} if self.ca else {}
        if self.url:
            return {"url": self.url, **ca}
        service = {"name": self.service, "namespace": self.namespace, "port": self.port, "path": self.path}
        return {"service": service, **ca}


def configuration(
    subject: Subject, endpoint: Endpoint, *, name: str = NAME, pods_may_opt_out: bool = False
) -> dict[str, Any]:
    """The object to create. pods_may_opt_out: the ignore label counts on pods too, as it does in HAMi."""
    entries = (
        _entry(CREATE, "CREATE", conditions_create(subject), endpoint),
        _entry(UPDATE, "UPDATE", conditions_update(subject), endpoint),
    )
    if pods_may_opt_out:
        for entry in entries:
            entry["objectSelector"] = _not_ignored()
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": list(entries),
    }


def _entry(name: str, operation: str, conditions: list[dict[str, str]], endpoint: Endpoint) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": [operation], "scope": "*"}
    return {
        "name": name,
        "clientConfig": endpoint.client_config(),
        "rules": [rule],
        "matchConditions": conditions,
        "namespaceSelector": _not_ignored(),
        "matchPolicy": "Equivalent",
        "failurePolicy": "Fail",
        "sideEffects": "NoneOnDryRun",
        "reinvocationPolicy": "Never",
        "timeoutSeconds": TIMEOUT_S,
        "admissionReviewVersions": ["v1", "v1beta1"],
    }


def _not_ignored() -> dict[str, Any]:
    return {"matchExpressions": [{"key": IGNORE_LABEL, "operator": "NotIn", "values": ["ignore"]}]}


# --- match conditions (CEL) ------------------------------------------------------------------


def conditions_create(subject: Subject) -> list[dict[str, str]]:
    """One condition: the pod asks for a device, or tries to bring an owned key."""
    in_containers = " || ".join(
        f"(has(c.resources.{part}) && c.resources.{part}.exists(k, k in {_list(subject.resources)}))"
        for part in ("limits", "requests")
    )
    containers = "(object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : []))"
    asks = f"{containers}.exists(c, has(c.resources) && ({in_containers}))"
    carries = [
        f"(has(object.metadata.{part}) && object.metadata.{part}.exists(k, {_owned(subject)}))"
        for part in ("annotations", "labels")
    ]
    return [{"name": "concerns-devices", "expression": " || ".join([asks, *carries])}]


def conditions_update(subject: Subject) -> list[dict[str, str]]:
    """Two conditions, both of which must hold: an owned key changes, and not by a writer or a kubelet."""
    changed = " || ".join(_changed(subject, part) for part in ("annotations", "labels"))
    who, groups, writers = "request.userInfo.username", "request.userInfo.groups", _list(subject.writers)
    member = f"(has({groups}) && {groups}.exists(g, g in {writers}))"
    stranger = f'!({who} in {writers} || {who}.startsWith("system:node:") || {member})'
    return [{"name": "owned-key-changes", "expression": changed}, {"name": "not-a-writer", "expression": stranger}]


def _changed(subject: Subject, part: str) -> str:
    """An owned key of this map is new, gone, or has another value (its presence alone means something)."""
    new, old = (f"(has({one}.metadata.{part}) ? {one}.metadata.{part} : {{}})" for one in ("object", "oldObject"))
    owned = _owned(subject)
    differs = f"{new}.exists(k, {owned} && !(k in {old} && {old}[k] == {new}[k]))"
    gone = f"{old}.exists(k, {owned} && !(k in {new}))"
    return f"{differs} || {gone}"


def _owned(subject: Subject) -> str:
    tests = [f"k in {_list(subject.keys)}"] + [f"k.startsWith({_text(prefix)})" for prefix in subject.prefixes]
    return f"({' || '.join(tests)})"


def _list(values: Iterable[str]) -> str:
    return f"[{', '.join(_text(value) for value in sorted(set(values)))}]"


def _text(value: str) -> str:
    """A CEL string; JSON's escapes are CEL's."""
    return json.dumps(value)
