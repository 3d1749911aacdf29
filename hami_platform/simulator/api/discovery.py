"""Discovery, version, health and the little OpenAPI that kubectl asks for. Knows nothing of stored objects."""

from __future__ import annotations

import msgspec

from hami_platform.simulator.api import errors, registry
from hami_platform.simulator.api.types import Obj, Request, Resource, Response

VERSION = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.3+simulated",
    "gitCommit": "simulated",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "linux/amd64",
}
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
_HEALTH = ("/healthz", "/livez", "/readyz")


def answer(request: Request) -> Response | None:
    """The answer to a path that names no resource; None when the path is not one of these."""
    parts = [part for part in request.path.split("/") if part]
    if request.path in _HEALTH:
        return Response(body=b"ok", content_type="text/plain; charset=utf-8")
    if parts == ["version"]:
        return _json(dict(VERSION))
    if parts == ["api"]:
        return _aggregated(request, "") or _json(_core_versions(request))
    if parts == ["apis"]:
        return _aggregated(request, "named") or _json(_groups())
    if parts[:1] == ["apis"] and parts[1] not in _group_names():
        return Response(404, b"404 page not found\n", "text/plain; charset=utf-8")
    if parts[:1] == ["api"] and len(parts) == 2:
        return _json(_resources("", parts[1]))
    if parts[:1] == ["apis"] and len(parts) == 2:
        return _json(_group(parts[1]))
    if parts[:1] == ["apis"] and len(parts) == 3:
        return _json(_resources(parts[1], parts[2]))
    if parts[:2] == ["openapi", "v3"]:
        return _json(_openapi(parts[2:]))
    return None


def _json(body: Obj) -> Response:
    return Response(body=msgspec.json.encode(body))


def _served(group: str) -> list[Resource]:
    return [resource for resource in registry.ALL if resource.group == group]


def _group_names() -> list[str]:
    return list(dict.fromkeys(resource.group for resource in registry.ALL if resource.group))


def _core_versions(request: Request) -> Obj:
    address = request.headers.get("host", "")
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def _groups() -> Obj:
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group_entry(name) for name in _group_names()]}


def _group_entry(name: str) -> Obj:
    version = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


def _group(name: str) -> Obj:
    return {"kind": "APIGroup", "apiVersion": "v1", **_group_entry(name)}


def _resources(group: str, version: str) -> Obj:
    served = _served(group)
    if not served or version != "v1":
        raise errors.no_such_path()
    entries = [entry for resource in served for entry in _entries(resource)]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": served[0].api_version, "resources": entries}


_SUB_KINDS = {"binding": "Binding", "eviction": "Eviction", "token": "TokenRequest"}
_SUB_VERBS = {"status": ("get", "patch", "update"), "finalize": ("update",)}


def _entries(resource: Resource) -> list[Obj]:
    entry: Obj = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    return [entry, *(_sub_entry(resource, sub) for sub in resource.subresources)]


def _sub_entry(resource: Resource, sub: str) -> Obj:
    return {
        "name": f"{resource.plural}/{sub}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": _SUB_KINDS.get(sub, resource.kind),
        "verbs": list(_SUB_VERBS.get(sub, ("create",))),
    }


def _aggregated(request: Request, which: str) -> Response | None:
    """Aggregated discovery, when the client's Accept asks for it."""
    accept = request.headers.get("accept", "").replace(" ", "")
    if "as=APIGroupDiscoveryList" not in accept:
        return None
    version = "v2" if "v=v2;" in accept or accept.endswith("v=v2") or "v=v2," in accept else "v2beta1"
    names = _group_names() if which else [""]
    items = [{"metadata": {"name": name} if name else {}, "versions": [_discovered(name)]} for name in names]
    body = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }
    return Response(body=msgspec.json.encode(body), content_type=_AGGREGATED.format(version=version))


def _discovered(group: str) -> Obj:
    return {
        "version": "v1",
        "resources": [_discovered_resource(resource) for resource in _served(group)],
        "freshness": "Current",
    }


def _discovered_resource(resource: Resource) -> Obj:
    entry: Obj = {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.kind.lower(),
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.subresources:
        entry["subresources"] = [_discovered_sub(resource, sub) for sub in resource.subresources]
    return entry


def _discovered_sub(resource: Resource, sub: str) -> Obj:
    kind = {"group": "", "version": "", "kind": _SUB_KINDS.get(sub, resource.kind)}
    return {"subresource": sub, "responseKind": kind, "verbs": list(_SUB_VERBS.get(sub, ("create",)))}


def _openapi(rest: list[str]) -> Obj:
    """Just enough for kubectl's check that the server validates fields: PATCH paths with their parameter."""
    if not rest:
        names = ["api/v1", *(f"apis/{group}/v1" for group in _group_names())]
        return {"paths": {name: {"serverRelativeURL": f"/openapi/v3/{name}"} for name in names}}
    served = _served("" if rest[0] == "api" else rest[1] if len(rest) > 1 else "-")
    paths = {path: item for resource in served for path, item in (_openapi_path(resource),)}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION["gitVersion"]},
        "paths": paths,
        "components": {},
    }


def _openapi_path(resource: Resource) -> tuple[str, Obj]:
    root = f"/apis/{resource.group}/v1" if resource.group else "/api/v1"
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string"}}
        for name in ("dryRun", "fieldManager", "fieldValidation")
    ]
    patch = {
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-group-version-kind": kind,
    }
    return f"{root}{scope}/{resource.plural}/{{name}}", {"patch": patch}
