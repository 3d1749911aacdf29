"""What a pod asks for, read from the pod as it came over the wire (JSON). Must not know: any one vendor, or any node.

Amounts that HAMi drops, rounds or clamps are refused here with a RequestError that names container and key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hami_platform.domain import devices, errors, requests, units
from hami_platform.domain.vendors import base, constraints, container

Amounts = container.Amounts
Declared = container.Declared


def pod_request(pod: Mapping[str, Any], config: base.DeviceConfig) -> requests.PodRequest:
    """What the pod asks for. Raises RequestError; WireError for what has no shape of a pod."""
    refuse_ephemeral(pod, config)
    return request(declared(pod), annotations_of(pod), config)


def bare_request(pod: Mapping[str, Any]) -> requests.PodRequest:
    """The pod's containers without what they ask for: enough to tell inits, sidecars and apps apart.

    For pods that run already, whose amounts nobody can refuse any more. Raises WireError.
    """
    return requests.PodRequest(tuple(requests.ContainerRequest(one.name, one.kind) for one in declared(pod)))


def request(containers: Sequence[Declared], notes: Mapping[str, str], config: base.DeviceConfig) -> requests.PodRequest:
    """The same for containers and annotations apart. Raises RequestError."""
    asks = tuple(requests.ContainerRequest(one.name, one.kind, _asks(one, config, notes)) for one in containers)
    # A pod may hold what its containers no longer say: what it says to a vendor's strategy counts all the same.
    words = {ask.vendor for one in asks for ask in one.devices} or _allocated(notes, config)
    if not words:
        return requests.PodRequest(asks)
    asked = [vendor for vendor in config.vendors if vendor.word in words]
    _refuse_nul(notes, [vendor.selection for vendor in asked])
    return requests.PodRequest(asks, constraints.read(notes, asked))


def _allocated(notes: Mapping[str, str], config: base.DeviceConfig) -> set[str]:
    return {vendor.word for vendor in config.vendors if vendor.allocated_key in notes}


def _refuse_nul(notes: Mapping[str, str], selections: Sequence[base.Selection]) -> None:
    """The API server takes a NUL in an annotation; what is read from it could not be stored."""
    keys = {constraints.NODE_POLICY, constraints.DEVICE_POLICY}.union(*(one.keys() for one in selections))
    key = next((key for key in sorted(keys) if "\0" in notes.get(key, "")), None)
    if key is not None:
        raise errors.RequestError(f"annotation {key}: a NUL character is not allowed", key=key)


def declared(pod: Mapping[str, Any]) -> tuple[Declared, ...]:
    """The pod's containers: inits first, then apps, in spec order. Raises WireError."""
    spec = mapping(pod.get("spec"), "spec")
    inits = _containers(spec, "initContainers")
    apps = _containers(spec, "containers")
    found = [_declared(raw, _init_kind(raw), f"/spec/initContainers/{i}") for i, raw in enumerate(inits)]
    found += [_declared(raw, devices.ContainerKind.APP, f"/spec/containers/{i}") for i, raw in enumerate(apps)]
    return tuple(found)


def ephemeral(pod: Mapping[str, Any]) -> tuple[Declared, ...]:
    """The pod's ephemeral containers, which can never have devices."""
    found = _containers(mapping(pod.get("spec"), "spec"), "ephemeralContainers")
    kind = devices.ContainerKind.APP
    return tuple(_declared(raw, kind, f"/spec/ephemeralContainers/{i}") for i, raw in enumerate(found))


def refuse_ephemeral(pod: Mapping[str, Any], config: base.DeviceConfig) -> None:
    """Raises RequestError where an ephemeral container names a device: nobody would account for it."""
    for one in ephemeral(pod):
        for name in config.resource_names:
            if mentions(one, (name,)):
                raise refusal(one, name, "ephemeral containers cannot have devices")


def annotations_of(pod: Mapping[str, Any]) -> Mapping[str, str]:
    """The pod's annotations; none reads as empty. Raises WireError."""
    metadata = mapping(pod.get("metadata"), "metadata")
    return {key: str(value) for key, value in mapping(metadata.get("annotations"), "annotations").items()}


def mentions(container: Declared, names: Iterable[str]) -> bool:
    """Whether the container names one of these resources, whatever the amount."""
    return any(name in container.limits or name in container.requests for name in names)


def is_whole(container: Declared, vendor: base.Vendor) -> bool:
    """Whether the container asks for whole devices: 100 %, or neither memory nor percentage.

    Source: HAMi v2.10.0, which rounds the percentage up here.
    """
    percent = container.amount(vendor.resources.percent)
    if percent is not None:
        return _quantity(container, vendor.resources.percent, percent) == 100
    return container.amount(vendor.resources.memory) is None


def integer(container: Declared, resource: str, *, most: int, unit_mib: int | None = None, default: int = 0) -> int:
    """The amount of a resource, 0 … most. unit_mib: the resource counts units of memory, so say so when refusing.

    Raises RequestError for fractions, negative amounts and amounts above most: nothing is rounded or dropped.
    """
    amount = container.amount(resource)
    if amount is None:
        return default
    try:
        value = units.exact(amount)
    except errors.InvalidQuantity as error:
        raise refusal(container, resource, str(error)) from error
    if value is not None and 0 <= value <= most:
        return value
    hint = f"; {units.hint(amount, unit_mib)}" if unit_mib is not None else ""
    raise refusal(container, resource, f"{amount} must be an integer between 0 and {most}{hint}")


def refusal(container: Declared, key: str, why: str) -> errors.RequestError:
    """The error for one container and key, as a sentence that says both."""
    return errors.RequestError(f"container {container.name}: {key}: {why}", container=container.name, key=key)


def mapping(value: Any, where: str) -> Mapping[str, Any]:
    """An object of the pod's JSON; absent and null read as empty. Raises WireError."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise errors.WireError("an object is expected", field=where)
    return value


def _asks(
    container: Declared, config: base.DeviceConfig, notes: Mapping[str, str]
) -> tuple[requests.DeviceRequest, ...]:
    found = (
        vendor.read(vendor, container, notes) if vendor.read is not None else ask(vendor, container)
        for vendor in config.named((*container.limits, *container.requests))
    )
    return tuple(one for one in found if one is not None)


def ask(vendor: base.Vendor, container: Declared) -> requests.DeviceRequest | None:
    """What a container asks of a vendor, read in the common way; None when no device is asked. Raises RequestError.

    Amounts are judged even then, so that a typo never passes as no request.
    """
    names, defaults = vendor.resources, vendor.defaults
    memory_mib = vendor.unit_mib * integer(
        container, names.memory, most=units.MIB_CEILING // vendor.unit_mib, unit_mib=vendor.unit_mib
    )
    percent = integer(container, names.percent, most=100)
    core_percent = integer(container, names.cores, most=vendor.most_cores, default=defaults.core_percent)
    count = integer(container, names.count, most=units.INT32_MAX)
    if memory_mib and percent:
        raise refusal(container, names.memory, f"cannot be combined with {names.percent}; give one of the two")
    if count == 0:
        return None
    # 0 means "not given", as in HAMi (decision D4).
    if not memory_mib and not percent:
        memory_mib, percent = defaults.memory_mib, 100 if defaults.whole and not defaults.memory_mib else 0
    return requests.DeviceRequest(vendor.word, count, memory_mib, percent or None, core_percent)


def _quantity(container: Declared, resource: str, amount: units.Text) -> int:
    try:
        return units.whole(amount)
    except errors.InvalidQuantity as error:
        raise refusal(container, resource, str(error)) from error


def _init_kind(raw: Mapping[str, Any]) -> devices.ContainerKind:
    sidecar = raw.get("restartPolicy") == "Always"
    return devices.ContainerKind.SIDECAR if sidecar else devices.ContainerKind.INIT


def _declared(raw: Mapping[str, Any], kind: devices.ContainerKind, path: str) -> Declared:
    resources = mapping(raw.get("resources"), f"{path}/resources")
    return Declared(
        name=str(raw.get("name") or ""),
        kind=kind,
        path=path,
        limits=mapping(resources.get("limits"), f"{path}/resources/limits"),
        requests=mapping(resources.get("requests"), f"{path}/resources/requests"),
        raw=raw,
    )


def _containers(spec: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = spec.get(key)
    if found is not None and not isinstance(found, list):
        raise errors.WireError("an array is expected", field=f"spec.{key}")
    return [mapping(raw, f"spec.{key}[{i}]") for i, raw in enumerate(found or ())]
