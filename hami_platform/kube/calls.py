"""Requests to the API server as values: building one is pure, sending it is `client`'s work.

A `KubeCall` says what its answer is, so `api.send(calls.pod_get(...))` is a `Pod`. Preconditions
travel inside the request (uid, resourceVersion); a caller who leaves them out accepts whatever
the object has become. Must not know: connections, retries, the ledger.
Source of paths, verbs and content types: Kubernetes API reference v1.36.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

from hami_platform.kube import objects

T = TypeVar("T")
Whole = dict[str, Any]  # an object as it came, for readers that need more of it than `objects` names

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"

Body = Mapping[str, object]
Changes = Mapping[str, str | None]  # None removes the key


@dataclass(frozen=True, slots=True)
class KubeCall(Generic[T]):
    """One request. `path` is already percent-encoded; `body` None sends none."""

    method: str
    path: str
    answer: type[T]
    query: tuple[tuple[str, str], ...] = ()
    body: Body | None = field(default=None, repr=False)  # may hold a token
    content_type: str = JSON

    @property
    def target(self) -> str:
        """Path and query, as on the request line."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path

    @property
    def reads(self) -> bool:
        """Sending it twice is the same as once."""
        return self.method == "GET"

    def whole(self) -> KubeCall[Whole]:
        """The same call with the whole object as its answer, as plain JSON."""
        return KubeCall(self.method, self.path, Whole, self.query, self.body, self.content_type)


def path_of(prefix: str, namespace: str | None, kind: str, *rest: str) -> str:
    """`/api/v1/namespaces/NS/pods/NAME/sub`; without a namespace the cluster's objects."""
    scope = ["namespaces", namespace] if namespace else []
    return prefix + "".join("/" + quote(part, safe="") for part in (*scope, kind, *rest))


CORE = "/api/v1"
COORDINATION = "/apis/coordination.k8s.io/v1"
AUTHENTICATION = "/apis/authentication.k8s.io/v1"

# --- lists and watches -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A collection that can be listed and watched, with its selectors."""

    path: str
    items: type[objects.Items[T]]
    item: type[T]
    fields: str = ""
    labels: str = ""

    def _selectors(self) -> tuple[tuple[str, str], ...]:
        pairs = (("fieldSelector", self.fields), ("labelSelector", self.labels))
        return tuple((key, value) for key, value in pairs if value)

    def whole(self) -> Listing[Whole]:
        """The same collection, its objects as plain JSON."""
        return Listing(self.path, objects.Items[Whole], Whole, self.fields, self.labels)

    def raw(self) -> Listing[objects.Raw]:
        """The same collection, its objects as text."""
        return Listing(self.path, objects.Items[objects.Raw], objects.Raw, self.fields, self.labels)

    def page(self, *, limit: int = 0, token: str = "") -> KubeCall[objects.Items[T]]:
        """A consistent LIST (no resourceVersion), or its next page. limit 0: all at once."""
        query = self._selectors()
        if limit:
            query += (("limit", str(limit)),)
        if token:
            query += (("continue", token),)
        return KubeCall("GET", self.path, self.items, query)

    def watch(self, *, revision: str, timeout_s: int) -> KubeCall[objects.WatchEvent]:
        """Changes after `revision`, with bookmarks; the server ends it after `timeout_s`."""
        query = (
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", revision),
            ("timeoutSeconds", str(timeout_s)),
            *self._selectors(),
        )
        return KubeCall("GET", self.path, objects.WatchEvent, query)


def pods(*, namespace: str | None = None, node: str = "", fields: str = "", labels: str = "") -> Listing[objects.Pod]:
    """Pods of all namespaces or one; `node`: only those assigned to it."""
    on_node = f"spec.nodeName={node}" if node else ""
    selector = ",".join(part for part in (on_node, fields) if part)
    path = path_of(CORE, namespace, "pods")
    return Listing(path, objects.Items[objects.Pod], objects.Pod, selector, labels)


def nodes(*, fields: str = "", labels: str = "") -> Listing[objects.Node]:
    """All nodes."""
    path = path_of(CORE, None, "nodes")
    return Listing(path, objects.Items[objects.Node], objects.Node, fields, labels)


def namespaces(*, labels: str = "") -> Listing[objects.Namespace]:
    """All namespaces."""
    path = path_of(CORE, None, "namespaces")
    return Listing(path, objects.Items[objects.Namespace], objects.Namespace, "", labels)


def quotas(*, namespace: str | None = None) -> Listing[objects.ResourceQuota]:
    """Native ResourceQuota objects."""
    path = path_of(CORE, namespace, "resourcequotas")
    return Listing(path, objects.Items[objects.ResourceQuota], objects.ResourceQuota)


# --- pods ------------------------------------------------------------------------------------


def pod_get(*, namespace: str, name: str) -> KubeCall[objects.Pod]:
    """One pod, as it is now."""
    return KubeCall("GET", path_of(CORE, namespace, "pods", name), objects.Pod)


def pod_delete(*, namespace: str, name: str, uid: str) -> KubeCall[objects.Object]:
    """Delete exactly this pod; a namesake with another uid is a 409."""
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
    return KubeCall("DELETE", path_of(CORE, namespace, "pods", name), objects.Object, (), body)


def metadata_change(
    *,
    annotations: Changes | None = None,
    labels: Changes | None = None,
    uid: str = "",
    resource_version: str = "",
) -> Body:
    """Merge-patch body. uid and resourceVersion are preconditions: a mismatch is a 409."""
    parts: dict[str, object] = {"uid": uid, "resourceVersion": resource_version}
    parts["annotations"] = dict(annotations or {})
    parts["labels"] = dict(labels or {})
    return {"metadata": {key: value for key, value in parts.items() if value}}


def pod_annotate(
    *,
    namespace: str,
    name: str,
    annotations: Changes,
    labels: Changes | None = None,
    uid: str = "",
    resource_version: str = "",
) -> KubeCall[objects.Pod]:
    """Set or remove annotations and labels of a pod."""
    body = metadata_change(annotations=annotations, labels=labels, uid=uid, resource_version=resource_version)
    path = path_of(CORE, namespace, "pods", name)
    return KubeCall("PATCH", path, objects.Pod, (), body, MERGE_PATCH)


RETRY_AT = "platform.hami.io/retry-at"


def pod_retry(
    *, namespace: str, name: str, uid: str, retry_at: str, resource_version: str = ""
) -> KubeCall[objects.Pod]:
    """Wake a waiting pod: kube-scheduler asks again when its annotations change.

    It also gives the pod a new resourceVersion, so a Binding still under way fails.
    """
    return pod_annotate(
        namespace=namespace,
        name=name,
        annotations={RETRY_AT: retry_at},
        uid=uid,
        resource_version=resource_version,
    )


def pod_remove_gate(
    *,
    namespace: str,
    name: str,
    uid: str,
    gates: Sequence[str],
    gate: str,
    resource_version: str,
) -> KubeCall[objects.Pod]:
    """Take `gate` off a pod whose gates are `gates`, and leave the others.

    A merge patch replaces the whole list, hence the compulsory resourceVersion.
    """
    left = [{"name": other} for other in gates if other != gate]
    body = {
        "metadata": {"uid": uid, "resourceVersion": resource_version},
        "spec": {"schedulingGates": left or None},
    }
    path = path_of(CORE, namespace, "pods", name)
    return KubeCall("PATCH", path, objects.Pod, (), body, MERGE_PATCH)


def pod_bind(
    *,
    namespace: str,
    name: str,
    uid: str,
    resource_version: str,
    node: str,
    annotations: Mapping[str, str],
    labels: Mapping[str, str],
) -> KubeCall[objects.Status]:
    """Assign a pod to a node and write its allocation in the same request.

    The API server merges annotations (and from 1.35 labels) of the Binding into the pod when it
    sets spec.nodeName, so no pod is ever bound without its allocation. uid and resourceVersion
    are preconditions; an empty one is left out.
    Source: kubernetes pkg/registry/core/pod/storage/storage.go, BindingREST.
    """
    facts: dict[str, object] = {"namespace": namespace, "name": name, "uid": uid}
    facts |= {"resourceVersion": resource_version}
    facts |= {"annotations": dict(annotations), "labels": dict(labels)}
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {key: value for key, value in facts.items() if value},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    path = path_of(CORE, namespace, "pods", name, "binding")
    return KubeCall("POST", path, objects.Status, (), body)


# --- nodes and namespaces --------------------------------------------------------------------


def node_get(*, name: str) -> KubeCall[objects.Node]:
    """One node, as it is now."""
    return KubeCall("GET", path_of(CORE, None, "nodes", name), objects.Node)


def node_annotate(
    *,
    name: str,
    annotations: Changes | None = None,
    labels: Changes | None = None,
    resource_version: str = "",
) -> KubeCall[objects.Node]:
    """Set or remove annotations and labels of a node. It wakes every waiting pod: only changes."""
    body = metadata_change(annotations=annotations, labels=labels, resource_version=resource_version)
    path = path_of(CORE, None, "nodes", name)
    return KubeCall("PATCH", path, objects.Node, (), body, MERGE_PATCH)


def version_get() -> KubeCall[objects.Version]:
    """The API server's version."""
    return KubeCall("GET", "/version", objects.Version)


def namespace_get(*, name: str) -> KubeCall[objects.Namespace]:
    """One namespace, as it is now."""
    return KubeCall("GET", path_of(CORE, None, "namespaces", name), objects.Namespace)


# --- events ----------------------------------------------------------------------------------

NOTE_LIMIT = 1024  # Source: kubernetes pkg/apis/core/validation/events.go, message length


def event_create(
    *,
    namespace: str,
    name: str,
    pod: str,
    uid: str,
    reason: str,
    message: str,
    type_: str,
    component: str,
    at: str,
    kind: str = "Pod",
) -> KubeCall[objects.Object]:
    """A core/v1 event about a pod, or the Node of that name. `at` is RFC 3339; `name` must be new in the namespace.

    The message is cut at the API's limit of 1024.
    """
    about = {"apiVersion": "v1", "kind": kind, "namespace": namespace, "name": pod, "uid": uid}
    if kind == "Node":
        del about["namespace"]
    return _event(namespace, name, about, reason, message, type_, component, at)


NODE_EVENTS_NAMESPACE = "default"  # where `kubectl describe node` looks; nodes have none


def node_event_create(
    *, name: str, node: str, reason: str, message: str, type_: str, component: str, at: str
) -> KubeCall[objects.Object]:
    """A core/v1 event about a node; see event_create. Its uid is its name, as the kubelet writes it."""
    about = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node}
    return _event(NODE_EVENTS_NAMESPACE, name, about, reason, message, type_, component, at)


def _event(
    namespace: str, name: str, about: dict[str, str], reason: str, message: str, type_: str, component: str, at: str
) -> KubeCall[objects.Object]:
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": namespace, "name": name},
        "involvedObject": about,
        "reason": reason,
        "message": message[:NOTE_LIMIT],
        "type": type_,
        "source": {"component": component},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
    path = path_of(CORE, namespace, "events")
    return KubeCall("POST", path, objects.Object, (), body)


# --- leases and tokens -----------------------------------------------------------------------


def lease_get(*, namespace: str, name: str) -> KubeCall[objects.Lease]:
    """One lease, as it is now."""
    return KubeCall("GET", path_of(COORDINATION, namespace, "leases", name), objects.Lease)


def leases(*, namespace: str) -> Listing[objects.Lease]:
    """Leases of a namespace."""
    path = path_of(COORDINATION, namespace, "leases")
    return Listing(path, objects.Items[objects.Lease], objects.Lease)


def _lease_body(namespace: str, name: str, resource_version: str, spec: objects.LeaseSpec) -> dict[str, object]:
    facts = {"namespace": namespace, "name": name, "resourceVersion": resource_version}
    fields = {
        "holderIdentity": spec.holder_identity,
        "leaseDurationSeconds": spec.lease_duration_seconds,
        "acquireTime": spec.acquire_time,
        "renewTime": spec.renew_time,
        "leaseTransitions": spec.lease_transitions,
    }
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {key: value for key, value in facts.items() if value},
        "spec": {key: value for key, value in fields.items() if value is not None},
    }


def lease_create(*, namespace: str, name: str, spec: objects.LeaseSpec) -> KubeCall[objects.Lease]:
    """Make a lease; 409 AlreadyExists if somebody was first."""
    path = path_of(COORDINATION, namespace, "leases")
    return KubeCall("POST", path, objects.Lease, (), _lease_body(namespace, name, "", spec))


def lease_update(
    *, namespace: str, name: str, resource_version: str, spec: objects.LeaseSpec
) -> KubeCall[objects.Lease]:
    """Replace a lease that still has this resourceVersion; 409 if it moved."""
    path = path_of(COORDINATION, namespace, "leases", name)
    body = _lease_body(namespace, name, resource_version, spec)
    return KubeCall("PUT", path, objects.Lease, (), body)


def token_review(*, token: str, audiences: Sequence[str] = ()) -> KubeCall[objects.TokenReview]:
    """Ask the API server whose bearer token this is. Never log the call: it holds the token."""
    spec: dict[str, object] = {"token": token}
    if audiences:
        spec["audiences"] = list(audiences)
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
    path = path_of(AUTHENTICATION, None, "tokenreviews")
    return KubeCall("POST", path, objects.TokenReview, (), body)
