"""A parsed pod request as plain JSON, for the ledger. Ours alone: no other program reads it.

Defaults are left out, so that stored rows stay small and old rows stay readable. Must not know: how it was parsed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from hami_platform.domain import devices, errors, requests

_LISTS = ("use_models", "nouse_models", "use_uuids", "nouse_uuids")


def encode(request: requests.PodRequest) -> dict[str, Any]:
    """JSON-able form: containers in order, and only the constraints that differ from the default."""
    value: dict[str, Any] = {"containers": [_container_object(container) for container in request.containers]}
    constraints = _without_defaults(request.constraints)
    if constraints:
        value["constraints"] = constraints
    return value


def decode(value: Mapping[str, Any]) -> requests.PodRequest:
    """The request that `encode` was given. Raises WireError for anything else."""
    try:
        containers = tuple(_container(container) for container in value["containers"])
        return requests.PodRequest(containers, _constraints(value.get("constraints", {})))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise errors.WireError(f"not a stored request: {error!r}") from error


def _without_defaults(value: Any) -> dict[str, Any]:
    """Fields that differ from their default; nested values and tuples become objects and arrays."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        member = getattr(value, field.name)
        if member != field.default:
            found[field.name] = _NESTED[field.name](member) if field.name in _NESTED else _plain(member)
    return found


_NESTED: Mapping[str, Callable[[Any], Any]] = {
    "notes": dict,
    "by_vendor": lambda pairs: {word: _without_defaults(one) for word, one in pairs},
}


def _plain(member: Any) -> Any:
    if dataclasses.is_dataclass(member) and not isinstance(member, type):
        return dataclasses.asdict(member)
    return list(member) if isinstance(member, tuple) else member


def _container_object(container: requests.ContainerRequest) -> dict[str, Any]:
    value: dict[str, Any] = {"name": container.name, "kind": container.kind.value}
    if container.devices:
        value["devices"] = [_without_defaults(ask) for ask in container.devices]
    return value


def _container(value: Mapping[str, Any]) -> requests.ContainerRequest:
    asks = tuple(requests.DeviceRequest(**ask) for ask in value.get("devices", ()))
    return requests.ContainerRequest(str(value["name"]), devices.ContainerKind(value["kind"]), asks)


def _constraints(value: Mapping[str, Any]) -> requests.Constraints:
    members = dict(value)
    for name in _LISTS:
        if members.get(name) is not None:
            members[name] = tuple(members[name])
    if "weights" in members:
        members["weights"] = requests.Weights(**members["weights"])
    members["notes"] = tuple(sorted((str(key), str(text)) for key, text in members.get("notes", {}).items()))
    own = members.get("by_vendor", {})
    members["by_vendor"] = tuple((word, _constraints(one)) for word, one in sorted(own.items()))
    return requests.Constraints(**members)
