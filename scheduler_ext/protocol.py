"""What kube-apiserver and kube-scheduler send, and what they must get back, as typed values.

Extender v1 has Go's bare field names as keys and reads them without regard to case; so do we, trying the usual
spelling first. AdmissionReview is v1 or v1beta1 and the answer echoes which. Nulls count as absent. A body that
cannot be read raises `BadBody`, whose text names the field; what becomes of it is the view's.
Must not know: Django, services, what a device is.
Source: k8s.io/kube-scheduler/extender/v1 and k8s.io/api/admission/v1; answers like HAMi v2.10.0.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from hami_platform.kube import objects

T = TypeVar("T")

# Greatest bodies that are read, in bytes. HAMi cuts at 1 MiB; whole nodes (nodeCacheCapable: false) are about 4 kB
# each, so 5,000 of them need more. An admission request holds an object twice; etcd refuses more than 1.5 MiB.
FILTER_LIMIT = 64 << 20
BIND_LIMIT = 64 << 10
REVIEW_LIMIT = 8 << 20


UID_MAX = 64
"""What the ledger keeps of a uid; the API server's have 36 characters."""

ABSENT = msgspec.Raw(b"null")  # what an undecoded field holds when its key is missing, too


def given(raw: msgspec.Raw) -> bool:
    """Whether an undecoded field holds anything."""
    return bytes(raw) != b"null"


class BadBody(ValueError):
    """The sender's fault: not JSON, too large, or a field of the wrong type (named)."""


class Go(msgspec.Struct, frozen=True, rename="pascal"):
    """Base of extender types: Go's field names are the keys, and every key is always written."""


# --- extender --------------------------------------------------------------------------------


class ListedNode(objects.Object, frozen=True):
    """Of a whole node that was sent along: its name is enough to find it again."""


class NodeList(msgspec.Struct, frozen=True):
    """Whole nodes, each kept as it came: answers echo them byte for byte."""

    items: tuple[msgspec.Raw, ...] = ()

    def by_name(self) -> dict[str, msgspec.Raw]:
        """The nodes by name, in the order in which they came. Raises BadBody."""
        found: dict[str, msgspec.Raw] = {}
        for index, raw in enumerate(self.items):
            node = _decode(raw, ListedNode, f"Nodes.items[{index}]")
            if not node.metadata.name:
                raise BadBody(f"Nodes.items[{index}].metadata.name is missing")
            found[node.metadata.name] = raw
        return found


class FilterArgs(Go, frozen=True):
    """`/filter` (and prioritize): either names or whole nodes. `pod` is undecoded JSON."""

    pod: msgspec.Raw = ABSENT
    nodes: NodeList | None = None
    node_names: tuple[str, ...] | None = None


class FilterResult(Go, frozen=True):
    """Answer to `/filter`: the nodes that fit, in the form asked, and why the others do not."""

    nodes: dict[str, Any] | None = None
    node_names: Sequence[str] | None = None
    failed_nodes: Mapping[str, str] | None = None
    failed_and_unresolvable_nodes: Mapping[str, str] | None = None
    error: str = ""


class BindArgs(msgspec.Struct, frozen=True):
    """`/bind`: this pod, exactly this uid, onto this node. All four are required."""

    pod_name: str = msgspec.field(default="", name="PodName")
    pod_namespace: str = msgspec.field(default="", name="PodNamespace")
    pod_uid: str = msgspec.field(default="", name="PodUID")
    node: str = msgspec.field(default="", name="Node")


class BindResult(Go, frozen=True):
    """Answer to `/bind`; empty text means that the pod is bound."""

    error: str = ""


def filter_args(body: bytes) -> FilterArgs:
    """Read a `/filter` body. Raises BadBody, also without a pod or without any nodes."""
    args = _decode(body, FilterArgs)
    if not given(args.pod) or (args.nodes is None and args.node_names is None):
        args = _fold(body, FilterArgs)
    if not given(args.pod):
        raise BadBody("extender args missing pod")
    if args.nodes is None and args.node_names is None:
        raise BadBody("extender args hold neither NodeNames nor Nodes")
    return args


def bind_args(body: bytes) -> BindArgs:
    """Read a `/bind` body. Raises BadBody, naming what is missing."""
    args = _decode(body, BindArgs)
    if not all(_values(args).values()):
        args = _fold(body, BindArgs)
    missing = [key for key, value in _values(args).items() if not value]
    if missing:
        raise BadBody(f"extender binding args missing {', '.join(missing)}")
    return args


def _values(args: BindArgs) -> dict[str, str]:
    return {
        "PodName": args.pod_name,
        "PodNamespace": args.pod_namespace,
        "PodUID": args.pod_uid,
        "Node": args.node,
    }


def _fold(body: bytes, type_: type[T]) -> T:
    """Read again with top-level keys in any case, as Go does; a spelling that is exact wins."""
    raw = _decode(body, dict[str, msgspec.Raw])
    spelled: dict[str, msgspec.Raw] = {}
    names = {name.lower(): name for name in (field.encode_name for field in msgspec.structs.fields(type_))}  # type: ignore[arg-type]
    for key, value in raw.items():
        name = names.get(key.lower())
        if name is not None and (key == name or name not in raw):
            spelled[name] = value
    return _decode(msgspec.json.encode(spelled), type_)


def echoed(nodes: Sequence[msgspec.Raw]) -> dict[str, Any]:
    """A NodeList for an answer."""
    return {"metadata": {}, "items": list(nodes)}


# --- admission -------------------------------------------------------------------------------


class GroupKind(objects.Value, frozen=True):
    """Which type an object has."""

    group: str = ""
    version: str = ""
    kind: str = ""


class AdmissionRequest(objects.Value, frozen=True):
    """The part of an AdmissionReview that is asked. Objects stay undecoded JSON.

    `name` is empty with generateName, whose name is made only after mutation.
    """

    uid: str
    kind: GroupKind = GroupKind()
    sub_resource: str = ""
    namespace: str = ""
    name: str = ""
    operation: str = ""
    user_info: objects.TokenUser = objects.TokenUser()
    object: msgspec.Raw = ABSENT
    old_object: msgspec.Raw = ABSENT
    dry_run: bool = False


class AdmissionReview(objects.Value, frozen=True):
    """An AdmissionReview as it comes in."""

    request: AdmissionRequest
    api_version: str = ""
    kind: str = ""


class AdmissionStatus(objects.Value, frozen=True, omit_defaults=True):
    """Why, for people, and the HTTP status that the API server's client gets."""

    code: int = 0
    reason: str = ""
    message: str = ""


class AdmissionResponse(objects.Value, frozen=True, omit_defaults=True):
    """`uid` repeats the request's. `patch` is base64 of a JSON patch, which `patchType` says."""

    uid: str
    allowed: bool
    patch_type: str | None = None
    patch: str | None = None
    warnings: tuple[str, ...] = ()
    status: AdmissionStatus | None = None


class AdmissionAnswer(objects.Value, frozen=True):
    """An AdmissionReview as it goes out."""

    api_version: str
    kind: str
    response: AdmissionResponse


ADMISSION_V1 = "admission.k8s.io/v1"


def review(body: bytes) -> AdmissionReview:
    """Read an AdmissionReview. Raises BadBody, naming the field."""
    if not body:
        raise BadBody("there is no content to decode")
    got = _decode(body, AdmissionReview)
    if got.kind != "AdmissionReview" or not got.api_version.startswith("admission.k8s.io/"):
        raise BadBody(f"expected an AdmissionReview, got apiVersion {got.api_version!r} kind {got.kind!r}")
    if not 0 < len(got.request.uid) <= UID_MAX:
        raise BadBody(f"request.uid must have 1 to {UID_MAX} characters")
    return got


def allow(
    asked: AdmissionReview, *, patch: Sequence[Mapping[str, Any]] = (), warnings: Sequence[str] = ()
) -> AdmissionAnswer:
    """Yes, with a JSON patch if there is something to change, and warnings for whoever created the pod."""
    response = AdmissionResponse(
        uid=asked.request.uid,
        allowed=True,
        patch_type="JSONPatch" if patch else None,
        patch=base64.b64encode(msgspec.json.encode(patch)).decode() if patch else None,
        warnings=tuple(warnings),
        status=AdmissionStatus(code=200),  # as HAMi answers; the API server does not look at it
    )
    return AdmissionAnswer(api_version=asked.api_version, kind="AdmissionReview", response=response)


_WORDS = {400: "BadRequest", 403: "Forbidden", 500: "InternalError", 503: "ServiceUnavailable"}


def deny(asked: AdmissionReview | None, *, message: str, code: int = 403) -> AdmissionAnswer:
    """No, with a sentence for people. asked None: the request could not be read (code 400)."""
    status = AdmissionStatus(code=code, reason=_WORDS.get(code, ""), message=message)
    uid, version = (asked.request.uid, asked.api_version) if asked else ("", ADMISSION_V1)
    response = AdmissionResponse(uid=uid, allowed=False, status=status)
    return AdmissionAnswer(api_version=version, kind="AdmissionReview", response=response)


# --- reading and writing ---------------------------------------------------------------------


def pod_json(raw: msgspec.Raw, where: str) -> dict[str, Any]:
    """The whole pod as plain JSON, for what works on it as it is. Raises BadBody, naming the field.

    The fields that we name are checked on the way, so that whoever reads the JSON finds the types that it expects.
    """
    pod_object(raw, where)
    return _decode(raw, dict[str, Any], where)


def pod_object(raw: msgspec.Raw, where: str) -> objects.Pod:
    """The fields of a pod that we name. Raises BadBody, naming the field."""
    return _decode(raw, objects.Pod, where)


def _decode(data: bytes | msgspec.Raw, type_: type[T], where: str = "") -> T:
    try:
        return objects.decode(data, type_)
    except objects.Undecodable as error:
        raise BadBody(f"{where}: {error}" if where else str(error)) from error
