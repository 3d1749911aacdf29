"""Mutating admission webhooks: which ones match a request, the AdmissionReview call, what their answer does.

Knows nothing of REST paths; it reads configurations and namespaces from the store. Source of order, texts and
failure handling: Kubernetes apiserver pkg/admission/plugin/webhook, v1.36; the calls of a real one were captured.
"""

from __future__ import annotations

import base64
import binascii
import ssl
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from hami_platform.simulator import transport
from hami_platform.simulator.api import cel, cel_values, errors, kinds, patches, registry, selectors, shape
from hami_platform.simulator.api.store import Store, Stored
from hami_platform.simulator.api.types import Obj, Resource, User

Resolver = Callable[[str, str, int], str | None]
"""(service namespace, name, port) -> "host:port" of the process that plays the service, or None."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What is being admitted: a request with its object as it is so far."""

    resource: Resource
    sub: str
    operation: str
    namespace: str
    name: str
    user: User
    old: Obj | None
    options: Obj
    dry_run: bool
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class _Hook:
    """One webhook entry, compiled once per version of its configuration."""

    name: str
    spec: Obj
    namespaces: selectors.Selector
    objects: selectors.Selector
    conditions: tuple[cel.Code, ...]
    pool: transport.Pool | None
    path: str
    version: str


class CallFailed(Exception):
    """The webhook gave no usable answer: its failurePolicy decides."""


class Webhooks:
    """The webhook part of admission of one API server."""

    def __init__(self, store: Store, resolve: Resolver | None = None) -> None:
        self._store = store
        self._resolve = resolve
        self._compiled: dict[tuple[str, int], list[_Hook]] = {}

    def mutate(self, attempt: Attempt, obj: Obj) -> Obj:
        """The object after every matching webhook. Raises ApiError when one denies or fails closed."""
        for hook in self._hooks():
            try:
                if self._matches(hook, attempt, obj):
                    obj = self._call(hook, attempt, obj)
            except CallFailed as failure:
                if hook.spec["failurePolicy"] == "Fail":
                    raise errors.internal(f'failed calling webhook "{hook.name}": {failure}') from failure
        return obj

    def close(self) -> None:
        """Drop the connections to webhooks."""
        for hook in self._hooks():
            if hook.pool:
                hook.pool.close()

    def _hooks(self) -> Iterator[_Hook]:
        _, configurations = self._store.objects(registry.MUTATING)
        for stored in configurations:  # by name, as the real server orders configurations
            known = (stored.key[1], stored.revision)
            if known not in self._compiled:
                self._compiled[known] = [_compile(spec, self._resolve) for spec in stored.obj.get("webhooks") or []]
            yield from self._compiled[known]

    def _matches(self, hook: _Hook, attempt: Attempt, obj: Obj) -> bool:
        if not any(_rule_matches(rule, attempt) for rule in hook.spec.get("rules") or []):
            return False
        if attempt.resource is registry.MUTATING:
            return False  # a webhook is never asked about webhook configurations
        if not selectors.matches(hook.namespaces, self._namespace_labels(attempt, obj)):
            return False
        found = (obj, attempt.old) if attempt.old is not None else (obj,)
        if not any(selectors.matches(hook.objects, (item.get("metadata") or {}).get("labels")) for item in found):
            return False
        return _conditions_hold(hook, attempt, obj)

    def _namespace_labels(self, attempt: Attempt, obj: Obj) -> Obj:
        if attempt.resource is registry.NAMESPACES:
            return (obj.get("metadata") or {}).get("labels") or {}
        if not attempt.namespace:
            return {}
        stored: Stored | None = self._store.get(registry.NAMESPACES, ("", attempt.namespace))
        return (stored.obj["metadata"].get("labels") or {}) if stored else {}

    def _call(self, hook: _Hook, attempt: Attempt, obj: Obj) -> Obj:
        review = _review(hook.version, attempt, obj)
        response = _verified(hook.version, review["request"]["uid"], self._send(hook, review))
        attempt.warnings.extend(str(text) for text in response.get("warnings") or [])
        if not response.get("allowed"):
            raise _denied(hook.name, response.get("status") or {})
        return _patched(attempt.resource, obj, response)

    def _send(self, hook: _Hook, review: Obj) -> Any:
        if hook.pool is None:
            service = hook.spec["clientConfig"]["service"]
            raise CallFailed(f'failed to call webhook: service "{service.get("name")}" not found')
        timeout_s = int(hook.spec["timeoutSeconds"])
        headers = {
            "User-Agent": "kube-apiserver-admission",
            "Accept": "application/json, */*",
            "Content-Type": "application/json",
        }
        try:
            answer = hook.pool.request(
                "POST", f"{hook.path}?timeout={timeout_s}s", msgspec.json.encode(review), headers, timeout_s
            )
        except transport.TransportError as failure:
            text = failure.text.replace(" (Client.Timeout exceeded while awaiting headers)", "")
            raise CallFailed(f"failed to call webhook: {text}") from failure
        if not 200 <= answer.status < 300:
            raise CallFailed(
                'failed to call webhook: an error on the server ("'
                + answer.body[:200].decode(errors="replace")
                + '") has prevented the request from succeeding'
            )
        try:
            return msgspec.json.decode(answer.body)
        except msgspec.DecodeError as failure:
            raise CallFailed(
                f"failed to call webhook: couldn't get version/kind; json parse error: {failure}"
            ) from failure


def _compile(spec: Obj, resolve: Resolver | None) -> _Hook:
    client = spec["clientConfig"]
    bundle = client.get("caBundle")
    context = (
        ssl.create_default_context(cadata=base64.b64decode(bundle).decode()) if bundle else ssl.create_default_context()
    )
    name, url = None, client.get("url")
    if url is None:
        service = client["service"]
        target = resolve(service["namespace"], service["name"], int(service.get("port", 443))) if resolve else None
        name, url = (
            f"{service['name']}.{service['namespace']}.svc",
            f"https://{target}{service.get('path', '/')}" if target else None,
        )
    host, slash, path = url.removeprefix("https://").partition("/") if url else ("", "", "")
    accepted = [version for version in spec["admissionReviewVersions"] if version in ("v1", "v1beta1")]
    return _Hook(
        name=spec["name"],
        spec=spec,
        namespaces=selectors.from_object(spec.get("namespaceSelector")),
        objects=selectors.from_object(spec.get("objectSelector")),
        conditions=tuple(cel.compile_expression(str(item["expression"])) for item in spec.get("matchConditions") or []),
        pool=transport.Pool(f"https://{host}", context=context, server_name=name) if url else None,
        path=slash + path,
        version=accepted[0],
    )


def _rule_matches(rule: Obj, attempt: Attempt) -> bool:
    resource = attempt.resource
    wanted = f"{resource.plural}/{attempt.sub}" if attempt.sub else resource.plural
    wild = {"*/*", f"{resource.plural}/*", f"*/{attempt.sub}"} if attempt.sub else {"*", "*/*", f"{resource.plural}/*"}
    scope = rule.get("scope", "*")
    return (
        bool({"*", attempt.operation} & set(rule.get("operations") or ()))
        and bool({"*", resource.group} & set(rule.get("apiGroups") or ()))
        and bool({"*", resource.version} & set(rule.get("apiVersions") or ()))
        and bool(({wanted} | wild) & set(rule.get("resources") or ()))
        and scope in ("*", "Namespaced" if resource.namespaced else "Cluster")
    )


def _conditions_hold(hook: _Hook, attempt: Attempt, obj: Obj) -> bool:
    """All match conditions; one that is false decides before one that fails, as in the real server."""
    scope = {"object": obj, "oldObject": attempt.old, "request": _request(attempt, obj, ""), "namespaceObject": None}
    failure: cel_values.CelError | None = None
    for condition in hook.conditions:
        try:
            if condition(scope) is not True:
                return False
        except cel_values.CelError as error:
            failure = error
    if failure is not None:
        raise CallFailed(f"match condition failed: {failure}") from failure
    return True


def _request(attempt: Attempt, obj: Obj | None, uid: str) -> Obj:
    resource = attempt.resource
    kind = {
        "group": resource.group,
        "version": resource.version,
        "kind": "Binding" if attempt.sub == "binding" else resource.kind,
    }
    plural = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    request: Obj = {"uid": uid, "kind": kind, "resource": plural}
    if attempt.sub:
        request["subResource"] = attempt.sub
    request |= {"requestKind": kind, "requestResource": plural}
    if attempt.sub:
        request["requestSubResource"] = attempt.sub
    if attempt.name:
        request["name"] = attempt.name
    if attempt.namespace:
        request["namespace"] = attempt.namespace
    return request | {
        "operation": attempt.operation,
        "userInfo": user_info(attempt.user),
        "object": obj,
        "oldObject": attempt.old,
        "dryRun": attempt.dry_run,
        "options": attempt.options,
    }


def user_info(user: User) -> Obj:
    """A UserInfo as reviews carry it."""
    info: Obj = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    return info | {"groups": list(user.groups)}


def _review(version: str, attempt: Attempt, obj: Obj) -> Obj:
    request = _request(attempt, obj, str(uuid.uuid4()))
    return {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}", "request": request}


def _verified(version: str, uid: str, review: Any) -> Obj:
    if not isinstance(review, dict) or not isinstance(review.get("response"), dict):
        raise CallFailed("webhook response was absent")
    response: Obj = review["response"]
    if version == "v1":
        got = f"{review.get('apiVersion', '')}, Kind={review.get('kind', '')}"
        if got != "admission.k8s.io/v1, Kind=AdmissionReview":
            raise CallFailed(f"expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {got}")
        if response.get("uid") != uid:
            raise CallFailed(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
        if response.get("patch") and response.get("patchType") != "JSONPatch":
            raise CallFailed(f'webhook returned invalid response.patchType of "{response.get("patchType")}"')
    return response


def _denied(name: str, status: Obj) -> errors.ApiError:
    said = f'admission webhook "{name}" denied the request'
    detail = status.get("message") or status.get("reason")
    code = int(status.get("code") or 0)
    # A rejection below 400 becomes 400. Source: apiserver pkg/admission/plugin/webhook/errors, ToStatusErr.
    text = f"{said}: {detail}" if detail else f"{said} without explanation"
    return errors.ApiError(max(code, 400), str(status.get("reason") or ""), text, status.get("details"))


def _patched(resource: Resource, obj: Obj, response: Obj) -> Obj:
    if not response.get("patch"):
        return obj
    try:
        operations = msgspec.json.decode(base64.b64decode(response["patch"], validate=True))
        patched: Obj = shape.without_nulls(patches.json_patch(obj, operations))
        kinds.default(resource, patched)
    except (binascii.Error, msgspec.DecodeError, ValueError) as failure:
        raise errors.internal(f"illegal base64 data or JSON in the webhook's patch: {failure}") from failure
    except errors.ApiError as failure:
        # A patch that does not apply fails the request whatever the failurePolicy says.
        raise errors.internal(str(failure)) from failure
    return patched
