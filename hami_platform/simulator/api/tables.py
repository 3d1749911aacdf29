"""The columns of `kubectl get` per resource, as the server prints them. Knows nothing of HTTP.

Source: Kubernetes pkg/printers/internalversion/printers.go, v1.36.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hami_platform.simulator.api import registry
from hami_platform.simulator.api.types import Obj, Resource

Read = Callable[[Obj, datetime], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column; priority 1 is shown by `-o wide` only."""

    name: str
    read: Read
    type: str = "string"
    format: str = ""
    priority: int = 0


def columns(resource: Resource) -> tuple[Column, ...]:
    """The resource's columns; name and age when nothing more is known."""
    return _COLUMNS.get(resource.qualified, (_NAME, _AGE))


def age(text: object, now: datetime) -> str:
    """`5s`, `3m20s`, `2h`, `4d`; `<unknown>` without a time. Source: apimachinery pkg/util/duration."""
    if not isinstance(text, str) or not text:
        return "<unknown>"
    seconds = max(0, int((now - datetime.fromisoformat(text.replace("Z", "+00:00"))).total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    return f"{hours}h" if hours < 48 else f"{days}d"


def _meta(key: str) -> Read:
    return lambda obj, _: obj["metadata"].get(key, "")


def _created(obj: Obj, now: datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


_NAME = Column("Name", _meta("name"), format="name")
_AGE = Column("Age", _created)


def _statuses(pod: Obj) -> tuple[list[Obj], list[Obj]]:
    status = pod.get("status") or {}
    return status.get("initContainerStatuses") or [], status.get("containerStatuses") or []


def _pod_ready(pod: Obj, _: datetime) -> str:
    spec = pod.get("spec") or {}
    sidecars = {item["name"] for item in spec.get("initContainers") or [] if item.get("restartPolicy") == "Always"}
    inits, apps = _statuses(pod)
    ready = sum(bool(item.get("ready")) for item in apps) + sum(
        bool(item.get("ready") and item.get("started")) for item in inits if item["name"] in sidecars
    )
    return f"{ready}/{len(spec.get('containers') or []) + len(sidecars)}"


def _pod_status(pod: Obj, _: datetime) -> str:
    status = pod.get("status") or {}
    reason = status.get("reason") or status.get("phase", "Unknown")
    if any(item.get("reason") == "SchedulingGated" for item in status.get("conditions") or []):
        reason = "SchedulingGated"
    initial = _init_reason(pod)
    if initial:
        reason = initial
    else:
        for item in reversed(_statuses(pod)[1]):
            reason = _state_reason(item.get("state") or {}) or reason
    if pod["metadata"].get("deletionTimestamp"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return str(reason)


def _init_reason(pod: Obj) -> str:
    spec = pod.get("spec") or {}
    sidecars = {item["name"] for item in spec.get("initContainers") or [] if item.get("restartPolicy") == "Always"}
    inits, _ = _statuses(pod)
    for index, item in enumerate(inits):
        state = item.get("state") or {}
        ended = state.get("terminated")
        if (ended and ended.get("exitCode") == 0) or (item["name"] in sidecars and item.get("started")):
            continue
        if ended:
            return f"Init:{ended.get('reason') or 'ExitCode:' + str(ended.get('exitCode'))}"
        waiting = (state.get("waiting") or {}).get("reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{index}/{len(spec.get('initContainers') or [])}"
    return ""


def _state_reason(state: Obj) -> str:
    if "waiting" in state:
        return str(state["waiting"].get("reason") or "")
    if "terminated" in state:
        return str(state["terminated"].get("reason") or f"ExitCode:{state['terminated'].get('exitCode')}")
    return ""


def _pod_restarts(pod: Obj, now: datetime) -> str:
    inits, apps = _statuses(pod)
    every = [*inits, *apps]
    total = sum(int(item.get("restartCount") or 0) for item in every)
    ended = [((item.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for item in every]
    last = max((text for text in ended if text), default=None)
    return f"{total} ({age(last, now)} ago)" if total and last else str(total)


def _under(*keys: str, default: Any = "<none>") -> Read:
    def read(obj: Obj, _: datetime) -> Any:
        found: Any = obj
        for key in keys:
            found = (found or {}).get(key)
        return found if found not in (None, "") else default

    return read


def _node_status(node: Obj, _: datetime) -> str:
    conditions = (node.get("status") or {}).get("conditions") or []
    ready = next((item.get("status") for item in conditions if item.get("type") == "Ready"), None)
    words = [{"True": "Ready", "False": "NotReady"}.get(str(ready), "NotReady" if ready else "Unknown")]
    if (node.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(node: Obj, _: datetime) -> str:
    start = "node-role.kubernetes.io/"
    roles = sorted(key.removeprefix(start) for key in node["metadata"].get("labels") or {} if key.startswith(start))
    return ",".join(roles) or "<none>"


def _node_address(node: Obj, _: datetime) -> str:
    found = (node.get("status") or {}).get("addresses") or []
    return next((str(item["address"]) for item in found if item.get("type") == "InternalIP"), "<none>")


def _event_seen(event: Obj, now: datetime) -> str:
    series = event.get("series") or {}
    last = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return age(last or event["metadata"].get("creationTimestamp"), now)


def _event_object(event: Obj, _: datetime) -> str:
    involved = event.get("involvedObject") or event.get("regarding") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


def _event_message(event: Obj, _: datetime) -> str:
    return str(event.get("message") or event.get("note") or "").strip()


def _quota_pairs(start: str) -> Read:
    def read(quota: Obj, _: datetime) -> str:
        status = quota.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        names = [name for name in sorted(hard) if name.startswith("limits.") == (start == "limits")]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return read


def _event_source(event: Obj, _: datetime) -> str:
    source = event.get("source") or {}
    return ", ".join(filter(None, (source.get("component") or event.get("reportingComponent"), source.get("host"))))


def _event_first(event: Obj, now: datetime) -> str:
    return age(event.get("firstTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp"), now)


def _event_count(event: Obj, _: datetime) -> str:
    return str((event.get("series") or {}).get("count") or event.get("count") or 1)


_EVENTS = (
    Column("Last Seen", _event_seen),
    Column("Type", _under("type", default="")),
    Column("Reason", _under("reason", default="")),
    Column("Object", _event_object),
    Column("Subobject", _under("involvedObject", "fieldPath", default=""), priority=1),
    Column("Source", _event_source, priority=1),
    Column("Message", _event_message),
    Column("First Seen", _event_first, priority=1),
    Column("Count", _event_count, priority=1),
    Column("Name", _meta("name"), format="name", priority=1),
)
_COLUMNS: dict[str, tuple[Column, ...]] = {
    registry.PODS.qualified: (
        _NAME,
        Column("Ready", _pod_ready),
        Column("Status", _pod_status),
        Column("Restarts", _pod_restarts),
        _AGE,
        Column("IP", _under("status", "podIP"), priority=1),
        Column("Node", _under("spec", "nodeName"), priority=1),
        Column("Nominated Node", _under("status", "nominatedNodeName"), priority=1),
        Column("Readiness Gates", lambda *_: "<none>", priority=1),
    ),
    registry.NODES.qualified: (
        _NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        _AGE,
        Column("Version", _under("status", "nodeInfo", "kubeletVersion", default="")),
        Column("Internal-IP", _node_address, priority=1),
        Column("External-IP", lambda *_: "<none>", priority=1),
        Column("OS-Image", _under("status", "nodeInfo", "osImage", default="<unknown>"), priority=1),
        Column("Kernel-Version", _under("status", "nodeInfo", "kernelVersion", default="<unknown>"), priority=1),
        Column(
            "Container-Runtime",
            _under("status", "nodeInfo", "containerRuntimeVersion", default="<unknown>"),
            priority=1,
        ),
    ),
    registry.NAMESPACES.qualified: (_NAME, Column("Status", _under("status", "phase")), _AGE),
    registry.QUOTAS.qualified: (
        _NAME,
        Column("Request", _quota_pairs("requests")),
        Column("Limit", _quota_pairs("limits")),
        _AGE,
    ),
    registry.EVENTS.qualified: _EVENTS,
    registry.EVENTS_V1.qualified: _EVENTS,
    registry.LEASES.qualified: (_NAME, Column("Holder", _under("spec", "holderIdentity", default="")), _AGE),
    registry.CONFIG_MAPS.qualified: (_NAME, Column("Data", lambda obj, _: len(obj.get("data") or {}), "integer"), _AGE),
    registry.SERVICE_ACCOUNTS.qualified: (_NAME, _AGE),
    registry.PRIORITY_CLASSES.qualified: (
        _NAME,
        Column("Value", lambda obj, _: obj.get("value", 0), "integer"),
        Column("Global-Default", lambda obj, _: bool(obj.get("globalDefault")), "boolean"),
        _AGE,
    ),
    registry.MUTATING.qualified: (
        _NAME,
        Column("Webhooks", lambda obj, _: len(obj.get("webhooks") or []), "integer"),
        _AGE,
    ),
}
