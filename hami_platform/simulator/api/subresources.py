"""Binding, eviction, service-account tokens and the review resources: POSTs that store nothing of their own.

Knows nothing of sockets. Source: Kubernetes pkg/registry/core/pod/storage/storage.go (BindingREST) and eviction.go.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

from hami_platform.simulator.api import bodies, errors, pods, registry, rest, shape
from hami_platform.simulator.api.paths import Target
from hami_platform.simulator.api.store import Stale, Store
from hami_platform.simulator.api.types import Obj, Request, User, copied
from hami_platform.simulator.api.webhooks import user_info

SUCCESS: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class Tokens:
    """Bearer tokens of this server and whom they authenticate."""

    def __init__(self) -> None:
        self._users: dict[str, User] = {}

    def issue(self, user: User) -> str:
        """A new token for a user."""
        token = secrets.token_urlsafe(24)
        self._users[token] = user
        return token

    def user(self, token: str) -> User | None:
        """Whom a token authenticates, or None."""
        return self._users.get(token)


def bind(rest_: rest.Rest, store: Store, target: Target, request: Request) -> Obj:
    """POST pods/NAME/binding. Raises ApiError 409 for a pod that is bound, gated, being deleted or another one."""
    body = bodies.decoded(request)
    meta, to = body.get("metadata") or {}, body.get("target") or {}
    # The real server answers these two with a bare 500. Labels of a Binding are not checked at all.
    if to.get("kind") not in (None, "", "Node"):
        said = f'target.kind: Unsupported value: "{to["kind"]}": supported values: "Node", "<empty>"'
        raise errors.ApiError(500, "", said)
    if not to.get("name"):
        raise errors.ApiError(500, "", "target.name: Required value")
    dry = bodies.is_dry_run(request)
    while True:
        stored = rest_.stored(target)
        new = copied(stored.obj)
        _check_binding(new, meta, target.name)
        pods.bind(new, str(to["name"]), meta.get("annotations") or {}, meta.get("labels") or {})
        try:
            if not dry:
                store.put(registry.PODS, target.key, shape.ordered(registry.PODS, new), expected=stored)
            return SUCCESS
        except Stale:
            continue


def _check_binding(pod: Obj, wanted: Obj, name: str) -> None:
    meta, spec = pod["metadata"], pod["spec"]
    for key, word in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(key) and wanted[key] != meta[key]:
            raise errors.storage_conflict(registry.PODS, (meta["namespace"], name), word, wanted[key], meta[key])
    if meta.get("deletionTimestamp"):
        raise errors.conflict(
            registry.PODS, name, f"pod {name} is being deleted, cannot be assigned to a host", "binding"
        )
    if spec.get("nodeName"):
        raise errors.conflict(
            registry.PODS, name, f'pod {name} is already assigned to node "{spec["nodeName"]}"', "binding"
        )
    if spec.get("schedulingGates"):
        raise errors.conflict(registry.PODS, name, f"pod {name} has non-empty .spec.schedulingGates", "binding")


def evict(rest_: rest.Rest, target: Target, request: Request) -> Obj:
    """POST pods/NAME/eviction: a delete with the options inside; there are no disruption budgets here."""
    rest_.removal.delete(target, request, bodies.decoded(request).get("deleteOptions") or {})
    return SUCCESS


def token_request(tokens: Tokens, rest_: rest.Rest, target: Target, request: Request) -> Obj:
    """POST serviceaccounts/NAME/token."""
    account = rest_.stored(Target(registry.SERVICE_ACCOUNTS, target.namespace, target.name)).obj
    body = bodies.decoded(request)
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{target.namespace}", "system:authenticated")
    user = User(f"system:serviceaccount:{target.namespace}:{target.name}", account["metadata"]["uid"], groups)
    lasts_s = int((body.get("spec") or {}).get("expirationSeconds") or 3600)
    ends = (datetime.now(UTC) + timedelta(seconds=lasts_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": target.name, "namespace": target.namespace},
        "spec": {"audiences": ["https://kubernetes.default.svc"], "expirationSeconds": lasts_s},
        "status": {"token": tokens.issue(user), "expirationTimestamp": ends},
    }


def review(tokens: Tokens, target: Target, request: Request) -> Obj:
    """TokenReview, SelfSubjectReview and the access reviews; everybody who is authenticated may do everything."""
    body = bodies.decoded(request)
    resource = target.resource
    answer: Obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {}}
    if "spec" in body:
        answer["spec"] = body["spec"]
    return answer | {"status": _review_status(tokens, target, request, body.get("spec") or {})}


def _review_status(tokens: Tokens, target: Target, request: Request, spec: Obj) -> Any:
    if target.resource is registry.SELF_SUBJECT_REVIEWS:
        return {"userInfo": user_info(request.user)}
    if target.resource is not registry.TOKEN_REVIEWS:
        return {"allowed": True}
    user = tokens.user(str(spec.get("token") or ""))
    if user is None:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": user_info(user), "audiences": ["https://kubernetes.default.svc"]}
