"""The few fields of Kubernetes objects that we use, as typed values.

Decoding is tolerant as the API is: unknown keys are skipped and an explicit null means absent.
A wrong type is not tolerated: `Undecodable` names the field. Quantities stay text here; they
are read by the domain. Must not know: transport, the ledger, or what a device is.
Source of names and shapes: Kubernetes API reference v1.36, core/v1 and coordination.k8s.io/v1.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")

Raw = msgspec.Raw  # an object's text, not taken apart
Quantity = str | int | float
Resources = dict[str, Quantity]


class Undecodable(ValueError):
    """The sender's fault: a body that is not JSON, or a field of the wrong type (named)."""


class Value(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Base of all objects: immutable, lower camel case on the wire, unknown keys skipped."""


class OwnerReference(Value, frozen=True):
    """Who owns an object; `controller` marks the one that manages it."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Metadata(Value, frozen=True):
    """ObjectMeta. Empty text where the server has not filled a field in yet."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()


class Object(Value, frozen=True):
    """Any object: of some answers and of bookmarks only its metadata matter."""

    metadata: Metadata = Metadata()


class ResourceRequirements(Value, frozen=True):
    """A container's limits and requests, resource name to quantity."""

    limits: Resources = {}
    requests: Resources = {}


class SecurityContext(Value, frozen=True):
    """Of a container: only whether it is privileged."""

    privileged: bool = False


class EnvVar(Value, frozen=True):
    """One environment variable; `value` is empty when it comes from a reference."""

    name: str = ""
    value: str = ""


class Container(Value, frozen=True):
    """A container of a pod spec. `restart_policy` is set only on sidecars ("Always")."""

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""
    security_context: SecurityContext = SecurityContext()
    env: tuple[EnvVar, ...] = ()


class SchedulingGate(Value, frozen=True):
    """A named reason not to schedule a pod yet."""

    name: str = ""


class PodSpec(Value, frozen=True):
    """What a pod asks for. `priority` is absent before the priority admission plugin ran."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    runtime_class_name: str | None = None
    node_selector: dict[str, str] = {}
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[Container, ...] = ()


class Running(Value, frozen=True):
    """State of a container that runs."""

    started_at: str | None = None


class Terminated(Value, frozen=True):
    """State of a container that ended."""

    exit_code: int = 0
    reason: str = ""
    finished_at: str | None = None


class Waiting(Value, frozen=True):
    """State of a container that has not started (again) yet."""

    reason: str = ""


class ContainerState(Value, frozen=True):
    """At most one is set; none means waiting."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Value, frozen=True):
    """What the kubelet reports of one container. `started` stays None on old kubelets."""

    name: str = ""
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    restart_count: int = 0
    ready: bool = False
    started: bool | None = None


class Condition(Value, frozen=True):
    """A condition of a pod or node; `status` is "True", "False" or "Unknown"."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class PodStatus(Value, frozen=True):
    """What is observed of a pod."""

    phase: str = ""
    reason: str = ""
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Object, frozen=True):
    """core/v1 Pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NodeSpec(Value, frozen=True):
    """Of a node: only whether it takes new pods."""

    unschedulable: bool = False


class NodeStatus(Value, frozen=True):
    """What the kubelet reports of a node."""

    allocatable: Resources = {}
    capacity: Resources = {}
    conditions: tuple[Condition, ...] = ()


class Node(Object, frozen=True):
    """core/v1 Node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(Object, frozen=True):
    """core/v1 Namespace."""


class QuotaSpec(Value, frozen=True):
    """Of a ResourceQuota. A quota with scopes counts only some of the pods."""

    hard: Resources = {}
    scopes: tuple[str, ...] = ()
    scope_selector: dict[str, Any] | None = None


class QuotaStatus(Value, frozen=True):
    """What the API server itself counts."""

    hard: Resources = {}
    used: Resources = {}


class ResourceQuota(Object, frozen=True):
    """core/v1 ResourceQuota."""

    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()


class LeaseSpec(Value, frozen=True):
    """Times are RFC 3339 with microseconds."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Object, frozen=True):
    """coordination.k8s.io/v1 Lease."""

    spec: LeaseSpec = LeaseSpec()


class TokenUser(Value, frozen=True):
    """Who a token belongs to."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()


class TokenReviewStatus(Value, frozen=True):
    """The verdict on a token; `error` says why it could not be checked."""

    authenticated: bool = False
    user: TokenUser = TokenUser()
    audiences: tuple[str, ...] = ()
    error: str = ""


class TokenReview(Value, frozen=True):
    """authentication.k8s.io/v1 TokenReview, as answered."""

    status: TokenReviewStatus = TokenReviewStatus()


class StatusDetails(Value, frozen=True):
    """More about a refusal."""

    name: str = ""
    kind: str = ""
    retry_after_seconds: int = 0


class Status(Value, frozen=True):
    """meta/v1 Status: the answer of a failed call, of a Binding and of some deletes."""

    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails = StatusDetails()


class Version(Value, frozen=True):
    """The API server's version; a vendor may append to `minor` ("36+")."""

    major: str = ""
    minor: str = ""

    def at_least(self, wanted: tuple[int, int]) -> bool:
        """Whether it is this version or a later one; unreadable text counts as older."""
        digits = ["".join(c for c in part if c.isdigit()) for part in (self.major, self.minor)]
        return all(digits) and (int(digits[0]), int(digits[1])) >= wanted


class ListMetadata(Value, frozen=True):
    """ListMeta: the revision of the list, and the token of its next page ("" on the last)."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Items(Value, Generic[T], frozen=True):
    """A list of objects, or one page of it."""

    metadata: ListMetadata = ListMetadata()
    items: tuple[T, ...] = ()


class WatchEvent(Value, frozen=True):
    """One line of a watch; `object` is left undecoded, since its type depends on `type`.

    `type` is ADDED, MODIFIED, DELETED, BOOKMARK (only a revision) or ERROR (a Status).
    """

    type: str
    object: msgspec.Raw


def decode(data: bytes | memoryview | msgspec.Raw, type_: type[T]) -> T:
    """Read one JSON object. Nulls count as absent. Raises Undecodable, naming the field.

    The strict pass is the fast one; only an object that it refuses is read again with its
    nulls removed, so that no field needs to be optional for their sake.
    """
    try:
        return msgspec.json.decode(data, type=type_)
    except msgspec.ValidationError:
        return _decode_slowly(data, type_)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Undecodable(f"not JSON: {error}") from error


def _decode_slowly(data: bytes | memoryview | msgspec.Raw, type_: type[T]) -> T:
    clean = msgspec.json.encode(without_nulls(read(data)))
    try:
        return msgspec.json.decode(clean, type=type_)
    except msgspec.ValidationError as error:
        raise Undecodable(str(error)) from error


def read(data: bytes | memoryview | msgspec.Raw) -> Any:
    """Plain JSON. Raises Undecodable."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Undecodable(f"not JSON: {error}") from error


def without_nulls(value: Any) -> Any:
    """The same JSON without keys whose value is null; list items are kept."""
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [without_nulls(v) for v in value]
    return value
