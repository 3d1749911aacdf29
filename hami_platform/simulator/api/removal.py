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
            if dry:
                return _deleted(resource, stored.obj)
            try:
                return _deleted(
                    resource, self._delete_once(resource, target, stored, None if grace is None else int(grace))
                )
            except Stale:
                continue

    def _delete_once(self, resource: Resource, target: Target, stored: Stored, grace: int | None) -> Obj:
        if resource is registry.NAMESPACES:
            return self._delete_namespace(stored)
        new = copied(stored.obj)
        meta = new["metadata"]
        grace = _grace_s(new, grace) if resource is registry.PODS else 0
        held = meta.get("deletionGracePeriodSeconds")
        if grace == 0 and not meta.get("finalizers"):
            if resource is registry.PODS:
                meta.setdefault("deletionTimestamp", now_text())
                meta["deletionGracePeriodSeconds"] = 0
            gone = self._store.remove(resource, target.key, expected=stored, last=new).obj
            self.settle(target.namespace)
            return gone
        if held is not None and grace >= held:
            return stored.obj  # a longer grace never prolongs
        meta["deletionTimestamp"] = (datetime.now(UTC) + timedelta(seconds=grace)).strftime("%Y-%m-%dT%H:%M:%SZ")
        meta["deletionGracePeriodSeconds"] = grace
        if "generation" in meta:
            meta["generation"] += 1
        return self._store.put(resource, target.key, shape.ordered(resource, new), expected=stored).obj

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


def _check_delete(resource: Resource, stored: Stored, wanted: Obj) -> None:
    meta = stored.obj["metadata"]
    for key, word in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(key) and wanted[key] != meta[key]:
            text = f"Precondition failed: {word} in precondition: {wanted[key]}, {word} in object meta: {meta[key]}"
            raise errors.conflict(resource, stored.key[1], text)


def _grace_s(pod: Obj, asked: int | None) -> int:
    spec, status = pod["spec"], pod.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    return max(0, int(spec.get("terminationGracePeriodSeconds", 30)) if asked is None else asked)


def _deleted(resource: Resource, obj: Obj) -> Outcome:
    """A pod or a namespace comes back as an object, everything else as a Status."""
    if resource in (registry.PODS, registry.NAMESPACES) or obj["metadata"].get("deletionTimestamp"):
        return Outcome(obj)
    meta = obj["metadata"]
    details: Obj = {"name": meta["name"], "kind": resource.plural, "uid": meta["uid"]}
    if resource.group:
        details["group"] = resource.group
    return Outcome({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
