"""A pod object of the API server as the services need it: parsed once, at the edge, then a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from hami_platform.domain import lifecycle
from hami_platform.domain.errors import DomainError
from hami_platform.domain.requests import PodRequest
from hami_platform.domain.vendors import parse
from hami_platform.domain.vendors.base import DeviceConfig

CLAIM = "platform.hami.io/claim"
RETRY_AT = "platform.hami.io/retry-at"
GATE = "platform.hami.io/quota"
OWNER_MAX = 320


@dataclass(frozen=True, slots=True)
class PodSeen:
    """One observed pod.

    request: what it asks for; when it cannot be read, an empty request and `problem` says why. resource_version: 0
    where unknown.
    """

    uid: str
    namespace: str
    name: str
    request: PodRequest
    facts: lifecycle.PodFacts
    node: str = ""
    claim_id: str = ""
    owner: str = ""
    resource_version: int = 0
    priority: int = 0
    created_at: datetime | None = None
    started_at: datetime | None = None
    """When the kubelet took it on."""
    finished_at: datetime | None = None
    """When its last container ended, if all have."""
    gated: bool = False
    scheduler_name: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""

    @property
    def terminal(self) -> bool:
        return self.facts.phase in ("Succeeded", "Failed")

    @property
    def unbound(self) -> bool:
        return not self.node

    @property
    def started(self) -> bool:
        """Whether any container, init included, has ever started: then Allocate is over for all of them."""
        return any(fact.started or fact.state in ("running", "terminated") for fact in self.facts.containers.values())


def from_object(pod: Mapping[str, Any], config: DeviceConfig) -> PodSeen:
    """Read a pod object. Never raises for what a user may have written: see `problem`."""
    meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    annotations = storable(meta.get("annotations") or {})
    request, problem = _request({**pod, "metadata": {**meta, "annotations": annotations}}, config)
    return PodSeen(
        uid=meta.get("uid") or "",
        namespace=meta.get("namespace") or "default",
        name=meta.get("name") or "",
        request=request,
        facts=lifecycle.facts_of(pod),
        node=spec.get("nodeName") or "",
        claim_id=annotations.get(CLAIM, ""),
        owner=owner_of(meta),
        resource_version=_version(meta),
        priority=spec.get("priority") or 0,
        created_at=time_of(meta.get("creationTimestamp")),
        started_at=time_of((pod.get("status") or {}).get("startTime")),
        finished_at=_finished_at(pod.get("status") or {}),
        gated=any(gate.get("name") == GATE for gate in spec.get("schedulingGates") or ()),
        scheduler_name=spec.get("schedulerName") or "",
        annotations=annotations,
        problem=problem,
    )


def storable(texts: Mapping[str, Any]) -> Mapping[str, str]:
    """Annotations as any database can keep them: the API server takes a NUL in a value, PostgreSQL does not."""
    if not any(text is None or "\0" in text for text in texts.values()):
        return texts
    return {key: (text or "").replace("\0", "\ufffd") for key, text in texts.items()}


def _request(pod: Mapping[str, Any], config: DeviceConfig) -> tuple[PodRequest, str]:
    """(what the pod asks for, why it cannot be read). Unreadable: its containers alone, enough to tell inits from
    apps."""
    try:
        return parse.pod_request(pod, config), ""
    except DomainError as fault:
        problem = str(fault)
    try:
        return parse.bare_request(pod), problem
    except DomainError as fault:
        return PodRequest(()), f"{problem}; {fault}"


def owner_of(meta: Mapping[str, Any]) -> str:
    """`Kind/name` of the controller, or empty; cut where it is longer than the ledger keeps.

    Anybody may write an owner reference, and the API server does not bound its name.
    """
    for owner in meta.get("ownerReferences") or ():
        if owner.get("controller"):
            return f"{owner.get('kind')}/{owner.get('name')}".replace("\0", "\ufffd")[:OWNER_MAX]
    return ""


def time_of(text: str | None) -> datetime | None:
    """An RFC 3339 time of the API server, or None, also for what is no time."""
    try:
        at = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at


def _finished_at(status: Mapping[str, Any]) -> datetime | None:
    ends = [
        time_of(((one.get("state") or {}).get("terminated") or {}).get("finishedAt"))
        for one in status.get("containerStatuses") or ()
    ]
    known = [at for at in ends if at is not None]
    return max(known) if known and len(known) == len(ends) else None


def _version(meta: Mapping[str, Any]) -> int:
    text = str(meta.get("resourceVersion") or "0")
    return int(text) if text.isdigit() else 0
