"""Per-kind behaviour around the generic create, update and delete. Knows nothing of HTTP.

`default` runs after every decoding, `create_causes` and `update_causes` are the validation, `prepare_*` decides
which part of an object a request may touch.
"""

from __future__ import annotations

from hami_platform.simulator.api import errors, hooks, names, pods, registry, resources
from hami_platform.simulator.api.types import Obj, Resource, metadata

# Go writes these of an Event whether they are set or not.
_EVENT_ZEROS: Obj = {
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}


def default(resource: Resource, obj: Obj) -> None:
    """Fill in defaults and canonical amounts. Raises ApiError for what cannot be decoded."""
    if resource is registry.PODS:
        pods.set_defaults(obj)
        for condition in (obj.get("status") or {}).get("conditions") or []:
            for time in ("lastProbeTime", "lastTransitionTime"):
                condition.setdefault(time, None)  # Go writes a zero time as null, it never leaves it out
    elif resource is registry.NODES:
        _canonical(obj, "status", ("capacity", "allocatable"))
    elif resource is registry.QUOTAS:
        _canonical(obj, "spec", ("hard",))
        _canonical(obj, "status", ("hard", "used"))
    elif resource is registry.NAMESPACES:
        metadata(obj).setdefault("labels", {})["kubernetes.io/metadata.name"] = metadata(obj).get("name", "")
    elif resource is registry.MUTATING:
        hooks.set_defaults(obj)
    elif resource is registry.EVENTS:
        for key, value in _EVENT_ZEROS.items():
            obj.setdefault(key, value)


def _canonical(obj: Obj, part: str, keys: tuple[str, ...]) -> None:
    found = obj.get(part)
    for key in keys:
        if isinstance(found, dict) and found.get(key):
            found[key] = resources.canonical_map(found[key], f"{part}.{key}")


def prepare_create(resource: Resource, obj: Obj) -> None:
    """What a new object's status starts as."""
    if resource is registry.PODS:
        pods.prepare_create(obj)
    elif resource is registry.NAMESPACES:
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}
    elif resource is registry.NODES:
        obj.setdefault("spec", {})
        obj.setdefault("status", {})
    elif resource is registry.QUOTAS:
        obj["status"] = {}


def prepare_update(resource: Resource, new: Obj, old: Obj, sub: str) -> None:
    """Put back what this request may not touch: status on the object itself, spec through its status."""
    if sub == "status":
        if "spec" in old:
            new["spec"] = old["spec"]
    elif resource.has_status:
        if "status" in old:
            new["status"] = old["status"]
        else:
            new.pop("status", None)
    if resource.plural in ("pods", "mutatingwebhookconfigurations"):
        changed = any(new.get(key) != old.get(key) for key in ("spec", "webhooks"))
        metadata(new)["generation"] = metadata(old).get("generation", 1) + changed


def create_causes(resource: Resource, obj: Obj) -> list[errors.Cause]:
    """Everything that is wrong with a new object."""
    causes = names.metadata_causes(resource, metadata(obj))
    if resource is registry.PODS:
        causes += pods.create_causes(obj)
    elif resource is registry.MUTATING:
        causes += hooks.causes(obj)
    elif resource is registry.NODES:
        causes += _node_causes(obj)
    elif resource is registry.QUOTAS:
        causes += resources.list_causes((obj.get("spec") or {}).get("hard") or {}, "spec.hard")
    return causes


def update_causes(resource: Resource, new: Obj, old: Obj, sub: str) -> list[errors.Cause]:
    """Everything that is wrong with an update."""
    causes = names.metadata_causes(resource, metadata(new))
    if resource is registry.PODS and not sub:
        causes += pods.update_causes(new, old)
        if not causes:
            causes += [cause for cause in pods.create_causes(new) if "schedulingGates" not in cause.field]
    elif resource is registry.MUTATING:
        causes += hooks.causes(new)
    elif resource is registry.NODES:
        causes += _node_causes(new)
    return causes


def _node_causes(node: Obj) -> list[errors.Cause]:
    status = node.get("status") or {}
    return [
        cause
        for key in ("capacity", "allocatable")
        for cause in resources.list_causes(status.get(key) or {}, f"status.{key}")
    ]
