"""The `webhook` and `http` steps: bodies go to the routes, answers are spelled in the vectors' terms."""

from __future__ import annotations

import base64
import copy
import json
import uuid
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from scheduler_ext.conformance.world import World

Json = dict[str, Any]


def webhook(world: World, step: Json) -> Json:
    """Admission of a pod that is created; `times`: its own result is sent again."""
    pod: Any = step.get("pod")
    if "rawPod" in step:
        return _spelled(world, _review(world, step["rawPod"], "default"), None)
    answer: Json = {}
    for _ in range(step.get("times") or 1):
        answer = _review(world, pod, (pod.get("metadata") or {}).get("namespace") or "default")
        if not answer["allowed"]:
            break
        pod = patched(pod, json.loads(base64.b64decode(answer["patch"])) if answer.get("patch") else ())
    return _spelled(world, answer, pod)


def _review(world: World, pod: Any, namespace: str) -> Json:
    """The response to one AdmissionReview. A text is sent as it is, since it may be no JSON."""
    meta = (pod.get("metadata") or {}) if isinstance(pod, Mapping) else {}
    request = {
        "uid": str(uuid.uuid4()),
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "namespace": namespace,
        "name": meta.get("name", ""),
        "operation": "CREATE",
        "userInfo": {"username": "conformance"},
        "object": "RAW" if isinstance(pod, str) else pod,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    body = json.dumps(review)
    if isinstance(pod, str):
        body = body.replace('"RAW"', pod)
    answer = world.http.post("/webhook", body, content_type="application/json")
    found: Json = json.loads(answer.content)["response"]
    return found


def _spelled(world: World, answer: Json, pod: Json | None) -> Json:
    world.mutated, world.refused = (pod, False) if answer["allowed"] else (None, True)
    if not answer["allowed"]:
        status = answer.get("status") or {}
        return {"allowed": False, "code": status.get("code"), "message": status.get("message", "")}
    return {"allowed": True, "pod": summary(pod or {}), "patchPaths": []}


def summary(pod: Mapping[str, Any]) -> Json:
    """The fields of a pod that matter to scheduling, in the vectors' spelling. Our own annotations are left out."""
    spec, notes = pod.get("spec") or {}, (pod.get("metadata") or {}).get("annotations") or {}
    notes = {key: value for key, value in notes.items() if not key.startswith("platform.hami.io/")}
    found: Json = {"annotations": notes} if notes else {}
    found["schedulerName"] = spec.get("schedulerName", "")
    if spec.get("runtimeClassName"):
        found["runtimeClassName"] = spec["runtimeClassName"]
    for part in ("initContainers", "containers"):
        if spec.get(part):
            found[part] = [_container(one) for one in spec[part]]
    return found


def _container(one: Mapping[str, Any]) -> Json:
    found: Json = {"name": one["name"]}
    for part in ("limits", "requests"):
        amounts = (one.get("resources") or {}).get(part)
        if amounts:
            found[part] = {name: canonical(amount) for name, amount in amounts.items()}
    if one.get("env"):
        found["env"] = [f"{v['name']}={v.get('value', '')}" for v in sorted(one["env"], key=lambda v: str(v["name"]))]
    return found


def canonical(amount: Any) -> str:
    """A quantity as Kubernetes writes it back where that is decimal: 8000 is `8k`; other forms stay as they are."""
    text = str(amount)
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    if number == 0 or number != number.to_integral_value():
        return text if number else "0"
    whole, power = int(number), 0
    while whole % 1000 == 0 and power < len(_SUFFIXES) - 1:
        whole, power = whole // 1000, power + 1
    return f"{whole}{_SUFFIXES[power]}"


_SUFFIXES = ("", "k", "M", "G", "T", "P", "E")


def patched(document: Json, patch: Iterable[Mapping[str, Any]]) -> Json:
    """The document after a JSON patch of add, replace and remove, as the API server applies it (RFC 6902)."""
    result = copy.deepcopy(document)
    for operation in patch:
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        target: Any = result
        for part in parents:
            target = target[int(part)] if isinstance(target, list) else target[part]
        _apply(target, last, operation)
    return result


def _apply(target: Any, last: str, operation: Mapping[str, Any]) -> None:
    value = copy.deepcopy(operation.get("value"))
    if isinstance(target, list) and operation["op"] == "add":
        target.insert(len(target) if last == "-" else int(last), value)
    elif operation["op"] == "remove":
        del target[int(last) if isinstance(target, list) else last]
    else:
        target[int(last) if isinstance(target, list) else last] = value


# -- any route --------------------------------------------------------------------------------------------------------


def http(world: World, step: Json) -> Json:
    """One request to a route."""
    body = _body(step)
    method = step.get("method", "POST")
    answer = world.http.generic(method, step["path"], body, content_type="application/json")
    found: Json = {"status": answer.status_code}
    if answer.content:
        found["contentType"] = answer.headers["Content-Type"]
        found |= _content(answer.content)
    return found


def _body(step: Json) -> bytes:
    if "json" not in step:
        return str(step.get("body", "")).encode()
    text = json.dumps(step["json"])
    if step.get("padInside"):
        text = text.replace("PAD", "x" * step["padInside"])
    return (text + " " * (step.get("padBefore") or 0)).encode()


def _content(content: bytes) -> Json:
    try:
        found = json.loads(content)
    except ValueError:
        return {"text": content.decode(errors="replace").strip()}
    patch = (found.get("response") or {}).get("patch") if isinstance(found, dict) else None
    if patch:
        found["response"]["patch"] = f"base64 of {len(patch)} bytes"
    return {"json": found}
