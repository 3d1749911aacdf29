"""Request paths taken apart. Knows nothing of what is done with them."""

from __future__ import annotations

from dataclasses import dataclass

from hami_platform.simulator.api import errors, registry
from hami_platform.simulator.api.types import Resource


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names: a collection when `name` is empty; `namespace` is empty for all of them."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    sub: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The store's key."""
        return (self.namespace, self.name)


def target(path: str) -> Target:
    """Read a resource path. Raises ApiError 404 for one that is not served."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise errors.no_such_path()
    return _target(group, version, rest)


def _target(group: str, version: str, rest: list[str]) -> Target:
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and registry.find(group, version, rest[2]) is not None:
        namespace, rest = rest[1], rest[2:]
    resource = registry.find(group, version, rest[0])
    if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
        raise errors.no_such_path()
    name, sub = [*rest[1:], "", ""][:2]
    if sub and sub not in resource.subresources:
        raise errors.no_such_path()
    if resource.namespaced and name and not namespace:
        raise errors.no_such_path()
    return Target(resource, namespace, name, sub)
