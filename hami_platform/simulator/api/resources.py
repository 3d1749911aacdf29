"""Resource amounts of containers, nodes and quotas: canonical form, copied requests, the server's checks.

Source: Kubernetes pkg/apis/core/v1/defaults.go and pkg/apis/core/validation, v1.36. Knows nothing of vendors: every
`domain/name` outside kubernetes.io is an extended resource.
"""

from __future__ import annotations

from hami_platform.simulator.api import errors, names, quantity
from hami_platform.simulator.api.types import Obj

_NATIVE = ("cpu", "memory", "ephemeral-storage", "storage")


def is_extended(name: str) -> bool:
    """True for a resource that the server counts in whole pieces and never overcommits."""
    return (
        "/" in name
        and not name.startswith(("requests.", "hugepages-"))
        and "kubernetes.io/" not in name.rpartition("/")[0] + "/"
    )


def normalise(container: Obj, field: str) -> None:
    """Write amounts in canonical form and copy limits that have no request. Raises ApiError 400."""
    amounts = container.get("resources")
    if not isinstance(amounts, dict):
        raise errors.bad_request(f'Pod in version "v1" cannot be handled as a Pod: {field}.resources is not an object')
    for kind in ("limits", "requests"):
        if kind in amounts:
            amounts[kind] = canonical_map(amounts[kind], f"{field}.resources.{kind}")
    for name, amount in (amounts.get("limits") or {}).items():
        amounts.setdefault("requests", {}).setdefault(name, amount)
    if amounts.get("requests"):
        amounts["requests"] = dict(sorted(amounts["requests"].items()))  # Go writes maps in key order


def canonical_map(found: object, field: str) -> Obj:
    """A resource list in canonical form. Raises ApiError 400 that names the field."""
    if not isinstance(found, dict):
        raise errors.bad_request(f"{field}: not a resource list")
    try:
        return {name: quantity.canonical(amount) for name, amount in sorted(found.items())}
    except quantity.InvalidQuantity as failure:
        raise errors.bad_request(f"unable to parse quantity's suffix or number in {field}: {failure}") from failure


def container_causes(container: Obj, field: str) -> list[errors.Cause]:
    """What is wrong with a container's limits and requests."""
    amounts = container.get("resources") or {}
    limits, requests = amounts.get("limits") or {}, amounts.get("requests") or {}
    causes = [
        cause
        for kind, found in (("limits", limits), ("requests", requests))
        for cause in list_causes(found, f"{field}.resources.{kind}", known_only=True)
    ]
    for name, amount in requests.items():
        if name in limits:
            over = quantity.value(amount) > quantity.value(limits[name])
            if is_extended(name) and quantity.value(amount) != quantity.value(limits[name]):
                causes.append(
                    errors.bad_value(
                        f"{field}.resources.requests", amount, f"must be equal to {name} limit of {limits[name]}"
                    )
                )
            elif over:
                causes.append(
                    errors.bad_value(
                        f"{field}.resources.requests",
                        amount,
                        f"must be less than or equal to {name} limit of {limits[name]}",
                    )
                )
        elif is_extended(name):
            causes.append(
                errors.required(f"{field}.resources.limits", "Limit must be set for non overcommitable resources")
            )
    return causes


def list_causes(found: Obj, field: str, *, known_only: bool = False) -> list[errors.Cause]:
    """Names that are not resource names, negative amounts, fractions of whole resources."""
    causes: list[errors.Cause] = []
    for name, amount in found.items():
        at = f"{field}[{name}]"
        faults = names.key_faults(name)
        causes += [errors.bad_value(at, name, text) for text in faults]
        if not faults and known_only and "/" not in name and name not in _NATIVE and not name.startswith("hugepages-"):
            causes.append(errors.bad_value(at, name, "must be a standard resource for containers"))
        exact = quantity.value(amount)
        if exact < 0:
            causes.append(errors.bad_value(at, amount, "must be greater than or equal to 0"))
        if is_extended(name) and exact.denominator != 1:
            causes.append(errors.bad_value(at, amount, "must be an integer"))
    return causes
