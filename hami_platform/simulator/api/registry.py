"""The table of served resources. A new resource is one line here (and its columns in `tables`)."""

from __future__ import annotations

from hami_platform.simulator.api.types import Resource

_CREATE = ("create",)

PODS = Resource("", "v1", "pods", "Pod", True, ("po",), ("status", "binding", "eviction"), categories=("all",))
NODES = Resource("", "v1", "nodes", "Node", False, ("no",), ("status",))
NAMESPACES = Resource(
    "", "v1", "namespaces", "Namespace", False, ("ns",), ("status", "finalize"),
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
)  # fmt: skip
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", True, ("quota",), ("status",))
EVENTS = Resource("", "v1", "events", "Event", True, ("ev",))
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", True, ("sa",), ("token",))
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", True, ("cm",))
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange", True, ("limits",))
EVENTS_V1 = Resource("events.k8s.io", "v1", "events", "Event", True, ("ev",))
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True, unconditional_update=False)
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, ("pc",))
MUTATING = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False,
    categories=("api-extensions",),
)  # fmt: skip
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False, verbs=_CREATE)
SELF_SUBJECT_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False, verbs=_CREATE
)
ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False, verbs=_CREATE
)
SELF_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False, verbs=_CREATE
)

ALL = (
    PODS, NODES, NAMESPACES, QUOTAS, EVENTS, SERVICE_ACCOUNTS, CONFIG_MAPS, LIMIT_RANGES, EVENTS_V1, LEASES,
    PRIORITY_CLASSES, MUTATING, TOKEN_REVIEWS, SELF_SUBJECT_REVIEWS, ACCESS_REVIEWS, SELF_ACCESS_REVIEWS,
)  # fmt: skip

_INDEX = {(resource.group, resource.version, resource.plural): resource for resource in ALL}


def find(group: str, version: str, plural: str) -> Resource | None:
    """The resource at a path, or None."""
    return _INDEX.get((group, version, plural))


def stored(resource: Resource) -> Resource:
    """The resource under which objects are kept: both event APIs show the same objects."""
    return EVENTS if resource is EVENTS_V1 else resource
