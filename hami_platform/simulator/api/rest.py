"""Create, update, patch and delete: from a decoded body to a stored version. Knows nothing of sockets.

Source of the order of steps: Kubernetes apiserver pkg/endpoints/handlers and pkg/registry/generic/registry, v1.36.
No lock is held while a webhook is called; writes are compare-and-set and start over when they lose.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from hami_platform.simulator.api import bodies, errors, fields, kinds, patches, pods, registry, removal, shape
from hami_platform.simulator.api.bodies import Outcome
from hami_platform.simulator.api.paths import Target
from hami_platform.simulator.api.store import Stale, Store, Stored
from hami_platform.simulator.api.types import Obj, Request, Resource, copied, metadata
from hami_platform.simulator.api.webhooks import Attempt, Webhooks

_SWEEP_EVERY = 64  # new events between looks for expired ones


class Rest:
    """The writing half of the API over one store."""

    def __init__(self, store: Store, webhooks: Webhooks, *, events_last_s: float) -> None:
        self._store = store
        self._webhooks = webhooks
        self.removal = removal.Removal(store)
        self._events_last = timedelta(seconds=events_last_s)

    # --- create ---------------------------------------------------------------------------------------------

    def create(self, target: Target, request: Request, body: Obj | None = None) -> Outcome:
        """POST to a collection."""
        resource, dry = registry.stored(target.resource), bodies.is_dry_run(request)
        obj: Obj = shape.without_nulls(bodies.decoded(request) if body is None else body)
        self._check_kind(target, obj)
        meta = metadata(obj)
        if meta.get("resourceVersion"):
            raise errors.ApiError(500, "", "resourceVersion should not be set on objects to be created")
        self._check_namespace(target, meta)
        self._default(resource, obj, request)
        obj = shape.ordered(resource, obj)
        obj = self._webhooks.mutate(self._attempt(target, request, obj, None), obj)
        kinds.prepare_create(resource, obj)
        meta = metadata(obj)
        if not meta.get("name") and not meta.get("generateName"):
            raise errors.invalid(
                resource.kind,
                resource.group,
                "",
                [errors.required("metadata.name", "name or generateName is required")],
            )
        shape.new_metadata(resource, metadata(obj), target.namespace)
        self._refuse(resource, metadata(obj)["name"], kinds.create_causes(resource, obj))
        return Outcome(self._insert(resource, target, shape.ordered(resource, obj), dry), 201)

    def _default(self, resource: Resource, obj: Obj, request: Request) -> None:
        kinds.default(resource, obj)
        if resource is registry.EVENTS:
            return
        manager = fields.manager_of(request.headers.get("user-agent", ""), request.query.get("fieldManager", ""))
        metadata(obj)["managedFields"] = [fields.creation_entry(resource, obj, manager)]
        if resource is registry.PODS:
            pods.admit(obj, self._priorities())

    def _priorities(self) -> dict[str, int]:
        _, classes = self._store.objects(registry.PRIORITY_CLASSES)
        return {item.key[1]: int(item.obj.get("value", 0)) for item in classes}

    def _insert(self, resource: Resource, target: Target, obj: Obj, dry: bool) -> Obj:
        key = (target.namespace, obj["metadata"]["name"])
        if dry:
            if self._store.get(resource, key) is not None:
                raise errors.already_exists(resource, key[1])
            return obj
        obj["metadata"]["resourceVersion"] = ""  # the store's; here only for its place among the keys
        try:
            stored = self._store.put(resource, key, shape.ordered(resource, obj), expected=None)
        except Stale as lost:
            raise errors.already_exists(resource, key[1]) from lost
        if resource is registry.NAMESPACES:
            self.furnish(key[1])
        elif resource is registry.QUOTAS:
            self._count_quota(stored)
        elif resource is registry.EVENTS and self._store.count(registry.EVENTS) % _SWEEP_EVERY == 0:
            self._forget_events(datetime.now(UTC) - self._events_last)
        return stored.obj

    def _forget_events(self, before: datetime) -> None:
        """Events expire; in etcd by their lease."""
        limit = before.strftime("%Y-%m-%dT%H:%M:%SZ")
        for item in self._store.objects(registry.EVENTS)[1]:
            if item.obj["metadata"]["creationTimestamp"] < limit:
                try:
                    self._store.remove(registry.EVENTS, item.key, expected=item, last=copied(item.obj))
                except Stale:
                    continue  # changed meanwhile

    def _count_quota(self, stored: Stored) -> None:
        """What the quota controller writes a moment later; here nothing counts as used."""
        hard = dict((stored.obj.get("spec") or {}).get("hard") or {})
        new = copied(stored.obj)
        new["status"] = {"hard": hard, "used": dict.fromkeys(hard, "0")}
        try:
            self._store.put(registry.QUOTAS, stored.key, new, expected=stored)
        except Stale:
            pass  # changed meanwhile

    def furnish(self, namespace: str) -> None:
        """What controllers put into a new namespace: its service account and the root certificate's config map."""
        for resource, name in ((registry.SERVICE_ACCOUNTS, "default"), (registry.CONFIG_MAPS, "kube-root-ca.crt")):
            obj: Obj = {"metadata": {"name": name}}
            shape.new_metadata(resource, obj["metadata"], namespace)
            try:
                self._store.put(resource, (namespace, name), shape.ordered(resource, obj), expected=None)
            except Stale:
                pass  # whoever made the namespace made it too

    def _check_kind(self, target: Target, obj: Obj) -> None:
        resource = target.resource
        kind, version = obj.get("kind", resource.kind), obj.get("apiVersion", resource.api_version)
        if kind != resource.kind or version != resource.api_version:
            raise errors.bad_request(
                f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
                f"the API version and kind in the data ({version}, Kind={kind}) do not match the expected "
                f"({resource.api_version}, Kind={resource.kind})"
            )

    def _check_namespace(self, target: Target, meta: Obj) -> None:
        if not target.resource.namespaced:
            return
        given = meta.setdefault("namespace", target.namespace)
        if given != target.namespace or not target.namespace:
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        stored = self._store.get(registry.NAMESPACES, ("", target.namespace))
        if stored is None:
            raise errors.not_found(registry.NAMESPACES, target.namespace)
        if stored.obj["metadata"].get("deletionTimestamp"):
            raise errors.terminating(target.resource, str(meta.get("name", "")), target.namespace)

    def _attempt(self, target: Target, request: Request, obj: Obj, old: Obj | None) -> Attempt:
        options: Obj = {"kind": bodies.OPTIONS[request.method], "apiVersion": "meta.k8s.io/v1"}
        if bodies.is_dry_run(request):
            options["dryRun"] = ["All"]
        for name in ("fieldManager", "fieldValidation"):
            if request.query.get(name):
                options[name] = request.query[name]
        return Attempt(
            resource=target.resource,
            sub=target.sub,
            operation="CREATE" if request.method == "POST" else "UPDATE",
            namespace=target.namespace,
            name=target.name or str(metadata(obj).get("name") or ""),
            user=request.user,
            old=old,
            options=options,
            dry_run=bodies.is_dry_run(request),
            warnings=request.warnings,
        )

    def _refuse(self, resource: Resource, name: str, causes: list[errors.Cause]) -> None:
        if causes:
            raise errors.invalid(resource.kind, resource.group, name, causes)

    # --- update and patch -----------------------------------------------------------------------------------

    def update(self, target: Target, request: Request) -> Outcome:
        """PUT of an object or its status."""
        body: Obj = shape.without_nulls(bodies.decoded(request))
        self._check_kind(target, body)
        meta = metadata(body)
        if meta.get("name", target.name) != target.name:
            raise errors.bad_request(
                f"the name of the object ({meta.get('name')}) does not match the name on the URL ({target.name})"
            )
        meta["name"] = target.name
        if target.resource.namespaced:
            meta.setdefault("namespace", target.namespace)
        if not meta.get("resourceVersion") and not target.resource.unconditional_update:
            cause = errors.bad_value("metadata.resourceVersion", 0, "must be specified for an update")
            # The real server names the resource here, not the kind.
            raise errors.invalid(target.resource.plural, target.resource.group, target.name, [cause])
        return Outcome(self.change(target, request, lambda _: copied(body)))

    def patch(self, target: Target, request: Request) -> Outcome:
        """PATCH of an object or its status in any of the four patch languages."""
        media = request.headers.get("content-type", "").partition(";")[0].strip()
        if media not in patches.MEDIA_TYPES:
            raise errors.unsupported_media(media, patches.MEDIA_TYPES)
        try:
            patch = msgspec.json.decode(request.body)
        except msgspec.DecodeError as failure:
            raise errors.bad_request(f"error decoding patch: {failure}") from failure
        resource = registry.stored(target.resource)
        if media == patches.APPLY_PATCH and self._store.get(resource, target.key) is None and not target.sub:
            request.method = "POST"
            return self.create(target, request, _applied({}, patch, target))
        return Outcome(self.change(target, request, lambda old: _patched(media, old, patch, target)))

    def change(self, target: Target, request: Request, build: Callable[[Obj], Obj]) -> Obj:
        """Read, build the new object, admit, validate, write; again when another write came between."""
        resource, dry = registry.stored(target.resource), bodies.is_dry_run(request)
        while True:
            stored = self.stored(target)
            new = self._rebuilt(resource, target, request, stored, build)
            if dry or new == stored.obj:
                return new
            try:
                return self._write(resource, target, stored, new)
            except Stale:
                continue

    def _rebuilt(
        self, resource: Resource, target: Target, request: Request, stored: Stored, build: Callable[[Obj], Obj]
    ) -> Obj:
        old = stored.obj
        new: Obj = shape.without_nulls(build(old))
        patched = request.method == "PATCH"
        _check_preconditions(resource, target, metadata(new), old["metadata"], patched=patched)
        _keep_metadata(metadata(new), old["metadata"])
        kinds.default(resource, new)
        new = shape.ordered(resource, new)
        new = self._webhooks.mutate(self._attempt(target, request, new, old), new)
        kinds.prepare_update(resource, new, old, target.sub)
        causes = [
            *_finalizer_causes(metadata(new), old["metadata"]),
            *kinds.update_causes(resource, new, old, target.sub),
        ]
        self._refuse(resource, target.name, causes)
        return shape.ordered(resource, new)

    def _write(self, resource: Resource, target: Target, stored: Stored, new: Obj) -> Obj:
        meta = new["metadata"]
        held = meta.get("finalizers") or meta.get("deletionGracePeriodSeconds") or resource is registry.NAMESPACES
        if meta.get("deletionTimestamp") and not held:
            gone = self._store.remove(resource, target.key, expected=stored, last=new).obj
            self.removal.settle(target.namespace)
            return gone
        return self._store.put(resource, target.key, new, expected=stored).obj

    def stored(self, target: Target) -> Stored:
        """The current version. Raises ApiError 404."""
        return bodies.stored(self._store, target)


def _patched(media: str, old: Obj, patch: Any, target: Target) -> Obj:
    if media == patches.JSON_PATCH:
        return _json_patched(old, patch)
    if not isinstance(patch, dict):
        raise errors.bad_request("error decoding patch: not a JSON object")
    if media == patches.APPLY_PATCH:
        return _applied(old, patch, target)
    merged: Obj = patches.merge(old, patch) if media == patches.MERGE_PATCH else patches.strategic(old, patch)
    return copied(merged)


def _json_patched(old: Obj, patch: Any) -> Obj:
    try:
        return patches.json_patch(old, patch)
    except errors.ApiError as failure:
        if failure.code != 422:
            raise
        # The real server does not say which operation failed.
        raise errors.unprocessable("the server rejected our request due to an error in our request") from failure


def _applied(old: Obj, patch: Obj, target: Target) -> Obj:
    """Server-side apply without field ownership: what is named is set, nothing is taken away."""
    merged: Obj = copied(patches.strategic(old, patch))
    metadata(merged).setdefault("name", target.name)
    return merged


def _check_preconditions(resource: Resource, target: Target, given: Obj, found: Obj, *, patched: bool) -> None:
    name = target.name
    if given.get("uid") and given["uid"] != found["uid"]:
        if not patched:
            raise errors.storage_conflict(resource, target.key, "UID", given["uid"], found["uid"])
        wrong = errors.bad_value("metadata.uid", given["uid"], "field is immutable")
        raise errors.invalid(resource.kind, resource.group, name, [wrong, wrong])
    if given.get("resourceVersion") and given["resourceVersion"] != found["resourceVersion"]:
        raise errors.conflict(resource, name)


def _finalizer_causes(new: Obj, old: Obj) -> list[errors.Cause]:
    """The real server finds this fault twice."""
    added = [name for name in new.get("finalizers") or () if name not in (old.get("finalizers") or ())]
    if not old.get("deletionTimestamp") or not added:
        return []
    shown = ", ".join(f'"{name}"' for name in added)
    text = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
    return [errors.forbidden_field("metadata.finalizers", text)] * 2


_SERVER_KEYS = (
    "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation",
    "name", "namespace", "generateName",
)  # fmt: skip


def _keep_metadata(given: Obj, found: Obj) -> None:
    """Put back what clients cannot change."""
    for key in _SERVER_KEYS:
        if key in found:
            given[key] = found[key]
        else:
            given.pop(key, None)
    if "managedFields" in found:
        given.setdefault("managedFields", found["managedFields"])
