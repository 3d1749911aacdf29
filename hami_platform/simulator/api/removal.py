"""Deleting: gracefully for bound pods, held by finalizers, namespaces with all that is in them.

Knows nothing of sockets. Source: Kubernetes apiserver pkg/registry/generic/registry/store.go and pkg/registry/core/pod,
v1.36; namespaces are emptied at once, as their controller would a moment later.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hami_platform.simulator.api import bodies, errors, registry, shape
from hami_platform.simulator.api.bodies import Outcome
from hami_platform.simulator.api.paths import Target
from hami_platform.simulator.api.store import Stale, Store, Stored
from hami_platform.simulator.api.types import Obj, Request, Resource, copied, now_text


class Removal:
    """The deleting part of the API over one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def delete(self, target: Target, request: Request, options: Obj | None = None) -> Outcome:
        """DELETE of one object: gracefully for a bound pod, at once otherwise unless finalizers hold it."""
        resource = registry.stored(target.resource)
        options = bodies.decoded(request) if options is None else options
        grace = request.query.get("gracePeriodSeconds", options.get("gracePeriodSeconds"))
        dry = bodies.is_dry_run(request) or "All" in (options.get("dryRun") or ())
        while True:
            stored = bodies.stored(self._store, target)
            _check_delete(resource, stored, options.get("preconditions") or {})
            try:
                answered = self._delete_once(resource, target, stored, None if grace is None else int(grace), dry=dry)
            except Stale:
                continue
            return _deleted(resource, answered)

    def _delete_once(self, resource: Resource, target: Target, stored: Stored, grace: int | None, *, dry: bool) -> Obj:
        if resource is registry.NAMESPACES:
            return stored.obj if dry else self._delete_namespace(stored)
        new, grace_s = _marked(resource, stored.obj, grace)
        if dry:
            return new
        if grace_s == 0 and not new["metadata"].get("finalizers"):
            gone = self._store.remove(resource, target.key, expected=stored, last=new).obj
            self.settle(target.namespace)
            return gone
        if new == stored.obj:
            return new
        return self._store.put(resource, target.key, new, expected=stored).obj

    def _delete_namespace(self, stored: Stored) -> Obj:
        name, new = stored.key[1], copied(stored.obj)
        if not new["metadata"].get("deletionTimestamp"):
            new["metadata"]["deletionTimestamp"] = now_text()
            new["status"] = {**(new.get("status") or {}), "phase": "Terminating"}
            stored = self._store.put(
                registry.NAMESPACES, stored.key, shape.ordered(registry.NAMESPACES, new), expected=stored
            )
        for resource in registry.ALL:
            if resource.namespaced and registry.stored(resource) is resource:
                self._empty(resource, name)
        self.settle(name)
        return stored.obj

    def _empty(self, resource: Resource, namespace: str) -> None:
        _, found = self._store.objects(resource, namespace)
        for item in found:
            request = Request("DELETE", "", {}, {}, b"")
            try:
                self.delete(Target(resource, *item.key), request, {})
            except errors.ApiError:
                continue  # gone meanwhile

    def settle(self, name: str) -> None:
        """Let a terminating namespace go once nothing is left in it."""
        stored = self._store.get(registry.NAMESPACES, ("", name)) if name else None
        if stored is None or not stored.obj["metadata"].get("deletionTimestamp"):
            return
        namespaced = [
            resource for resource in registry.ALL if resource.namespaced and registry.stored(resource) is resource
        ]
        if any(self._store.objects(resource, name)[1] for resource in namespaced):
            return
        try:
            self._store.remove(registry.NAMESPACES, stored.key, expected=stored, last=copied(stored.obj))
        except Stale:
            pass  # another thread let it go


_GONE = {
    "uid": ("UID", "The object might have been deleted and then recreated"),
    "resourceVersion": ("ResourceVersion", "The object might have been modified"),
}


def _check_delete(resource: Resource, stored: Stored, wanted: Obj) -> None:
    meta, name = stored.obj["metadata"], stored.key[1]
    for key, (word, hint) in _GONE.items():
        if wanted.get(key) and wanted[key] != meta[key]:
            text = f"the {word} in the precondition ({wanted[key]}) does not match the {word} in record ({meta[key]})"
            said = f'Operation cannot be fulfilled on {resource.kind} "{name}": {text}. {hint}'
            raise errors.ApiError(409, "Conflict", said, {"name": name, "kind": resource.kind})


def _marked(resource: Resource, obj: Obj, asked: int | None) -> tuple[Obj, int]:
    """The object with its deletion written into it, and the grace that is left; a longer grace never prolongs."""
    new = copied(obj)
    meta = new["metadata"]
    grace_s = _grace_s(new, asked) if resource is registry.PODS else 0
    held = meta.get("deletionGracePeriodSeconds")
    if (held is not None and grace_s >= held > 0) or (resource is not registry.PODS and not meta.get("finalizers")):
        return new, grace_s
    if "deletionTimestamp" not in meta and "generation" in meta:
        meta["generation"] += 1
    if held is None or grace_s < held:
        meta["deletionTimestamp"] = (datetime.now(UTC) + timedelta(seconds=grace_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
        meta["deletionGracePeriodSeconds"] = grace_s
    return shape.ordered(resource, new), grace_s


def _grace_s(pod: Obj, asked: int | None) -> int:
    spec, status = pod["spec"], pod.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    return max(0, int(spec.get("terminationGracePeriodSeconds", 30)) if asked is None else asked)


_SHOWN = (registry.PODS, registry.NAMESPACES, registry.QUOTAS, registry.SERVICE_ACCOUNTS)


def _deleted(resource: Resource, obj: Obj) -> Outcome:
    """Some kinds come back as objects, everything else as a Status."""
    if resource in _SHOWN or obj["metadata"].get("deletionTimestamp"):
        return Outcome(obj)
    meta = obj["metadata"]
    details: Obj = {"name": meta["name"], "kind": resource.plural, "uid": meta["uid"]}
    if resource.group:
        details["group"] = resource.group
    return Outcome({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
