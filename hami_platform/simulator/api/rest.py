"""Create, update, patch and delete: from a decoded body to a stored version. Knows nothing of sockets.

Source of the order of steps: Kubernetes apiserver pkg/endpoints/handlers and pkg/registry/generic/registry, v1.36.
No lock is held while a webhook is called; writes are compare-and-set and start over when they lose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from hami_platform.simulator.api import errors, fields, kinds, patches, pods, protobuf, registry, shape
from hami_platform.simulator.api.paths import Target
from hami_platform.simulator.api.store import Stale, Store, Stored
from hami_platform.simulator.api.types import Obj, Request, Resource, copied, metadata, now_text
from hami_platform.simulator.api.webhooks import Attempt, Webhooks

_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The object as answered and the HTTP status."""

    obj: Obj
    code: int = 200


def decoded(request: Request) -> Obj:
    """The body as an object. Raises ApiError 415 or 400."""
    media = request.headers.get("content-type", "application/json").partition(";")[0].strip()
    if media == protobuf.MEDIA_TYPE:
        return protobuf.decode(request.body)
    if media not in ("application/json", ""):
        raise errors.unsupported_media(media, ("application/json", protobuf.MEDIA_TYPE))
    try:
        found = msgspec.json.decode(request.body) if request.body else {}
    except msgspec.DecodeError as failure:
        raise errors.bad_request(f"the object provided is unrecognized (must be of type ...): {failure}") from failure
    if not isinstance(found, dict):
        raise errors.bad_request("the object provided is unrecognized: not a JSON object")
    return found


def is_dry_run(request: Request) -> bool:
    """True for `dryRun=All`. Raises ApiError for any other value."""
    value = request.query.get("dryRun")
    if value not in (None, "", "All"):
        raise errors.invalid(
            _OPTIONS.get(request.method, "DeleteOptions"),
            "meta.k8s.io",
            "",
            [errors.Cause("dryRun", "FieldValueNotSupported", f'["{value}"]: supported values: "All"')],
        )
    return value == "All"


class Rest:
    """The writing half of the API over one store."""

    def __init__(self, store: Store, webhooks: Webhooks) -> None:
        self._store = store
        self._webhooks = webhooks

    # --- create ---------------------------------------------------------------------------------------------

    def create(self, target: Target, request: Request, body: Obj | None = None) -> Outcome:
        """POST to a collection."""
        resource, dry = registry.stored(target.resource), is_dry_run(request)
        obj: Obj = shape.without_nulls(decoded(request) if body is None else body)
        self._check_kind(target, obj)
        meta = metadata(obj)
        if meta.get("resourceVersion"):
            raise errors.bad_request("resourceVersion should not be set on objects to be created")
        self._check_namespace(target, meta)
        self._default(resource, obj, request)
        obj = self._webhooks.mutate(self._attempt(target, request, obj, None), obj)
        kinds.prepare_create(resource, obj)
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
        try:
            stored = self._store.put(resource, key, obj, expected=None)
        except Stale as lost:
            raise errors.already_exists(resource, key[1]) from lost
        if resource is registry.NAMESPACES:
            self.furnish(key[1])
        return stored.obj

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
            raise errors.forbidden(
                target.resource,
                str(meta.get("name", "")),
                f"unable to create new content in namespace {target.namespace} because it is being terminated",
            )

    def _attempt(self, target: Target, request: Request, obj: Obj, old: Obj | None) -> Attempt:
        options: Obj = {"kind": _OPTIONS[request.method], "apiVersion": "meta.k8s.io/v1"}
        if is_dry_run(request):
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
            dry_run=is_dry_run(request),
            warnings=request.warnings,
        )

    def _refuse(self, resource: Resource, name: str, causes: list[errors.Cause]) -> None:
        if causes:
            raise errors.invalid(resource.kind, resource.group, name, causes)

    # --- update and patch -----------------------------------------------------------------------------------

    def update(self, target: Target, request: Request) -> Outcome:
        """PUT of an object or its status."""
        body: Obj = shape.without_nulls(decoded(request))
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
            cause = errors.Cause(
                "metadata.resourceVersion", "FieldValueInvalid", "0x0: must be specified for an update"
            )
            raise errors.invalid(target.resource.kind, target.resource.group, target.name, [cause])
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
        resource, dry = registry.stored(target.resource), is_dry_run(request)
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
        _check_preconditions(resource, target.name, metadata(new), old["metadata"])
        _keep_metadata(metadata(new), old["metadata"])
        kinds.default(resource, new)
        new = self._webhooks.mutate(self._attempt(target, request, new, old), new)
        kinds.prepare_update(resource, new, old, target.sub)
        self._refuse(resource, target.name, kinds.update_causes(resource, new, old, target.sub))
        return shape.ordered(resource, new)

    def _write(self, resource: Resource, target: Target, stored: Stored, new: Obj) -> Obj:
        meta = new["metadata"]
        held = meta.get("finalizers") or meta.get("deletionGracePeriodSeconds") or resource is registry.NAMESPACES
        if meta.get("deletionTimestamp") and not held:
            gone = self._store.remove(resource, target.key, expected=stored, last=new).obj
            self._settle_namespace(target.namespace)
            return gone
        return self._store.put(resource, target.key, new, expected=stored).obj

    def stored(self, target: Target) -> Stored:
        """The current version. Raises ApiError 404."""
        stored = self._store.get(registry.stored(target.resource), target.key)
        if stored is None:
            raise errors.not_found(target.resource, target.name)
        return stored

    # --- delete ---------------------------------------------------------------------------------------------

    def delete(self, target: Target, request: Request, options: Obj | None = None) -> Outcome:
        """DELETE of one object: gracefully for a bound pod, at once otherwise unless finalizers hold it."""
        resource = registry.stored(target.resource)
        options = decoded(request) if options is None else options
        grace = request.query.get("gracePeriodSeconds", options.get("gracePeriodSeconds"))
        dry = is_dry_run(request) or "All" in (options.get("dryRun") or ())
        while True:
            stored = self.stored(target)
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
            self._settle_namespace(target.namespace)
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
        self._settle_namespace(name)
        return stored.obj

    def _empty(self, resource: Resource, namespace: str) -> None:
        _, found = self._store.objects(resource, namespace)
        for item in found:
            request = Request("DELETE", "", {}, {}, b"")
            try:
                self.delete(Target(resource, *item.key), request, {})
            except errors.ApiError:
                continue  # gone meanwhile

    def _settle_namespace(self, name: str) -> None:
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


def _patched(media: str, old: Obj, patch: Any, target: Target) -> Obj:
    if media == patches.JSON_PATCH:
        return patches.json_patch(old, patch)
    if not isinstance(patch, dict):
        raise errors.bad_request("error decoding patch: not a JSON object")
    if media == patches.APPLY_PATCH:
        return _applied(old, patch, target)
    merged: Obj = patches.merge(old, patch) if media == patches.MERGE_PATCH else patches.strategic(old, patch)
    return copied(merged)


def _applied(old: Obj, patch: Obj, target: Target) -> Obj:
    """Server-side apply without field ownership: what is named is set, nothing is taken away."""
    merged: Obj = copied(patches.strategic(old, patch))
    metadata(merged).setdefault("name", target.name)
    return merged


def _check_preconditions(resource: Resource, name: str, given: Obj, found: Obj) -> None:
    if given.get("uid") and given["uid"] != found["uid"]:
        text = f"Precondition failed: UID in precondition: {given['uid']}, UID in object meta: {found['uid']}"
        raise errors.conflict(resource, name, text)
    if given.get("resourceVersion") and given["resourceVersion"] != found["resourceVersion"]:
        raise errors.conflict(resource, name)


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
