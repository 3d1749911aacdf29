"""What admission answers about a pod: allow it, deny it, or change it. Must not know: quotas, ledger, transport.

A pod that asks for no device comes back untouched. Order and texts follow HAMi v2.10.0 with the owned keys of its
#3042; what HAMi lets through or silently changes is denied with the container or key named.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hami_platform.domain import errors, json_patch, requests, units
from hami_platform.domain.vendors import base, parse
from hami_platform.domain.vendors.container import Additions

CLAIM = base.OWN_PREFIX + "claim"
GATE = base.OWN_PREFIX + "quota"
NUMA_ALIGNMENT = "hami.io/numa-alignment"
DEFAULT_SCHEDULER = "default-scheduler"

FORBIDDEN = 403
UNDECODABLE = 400
_HAMI_BAD_AMOUNT = 500
_KUBELETS = "system:node:"


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """scheduler_name: who places GPU pods; empty: pods keep theirs. force_overwrite: take over the default scheduler's.

    hami_codes: answer a bad amount with 500, as HAMi does; otherwise 403, since a typo of a user is no fault of the API
    server.
    """

    scheduler_name: str = "hami-scheduler"
    force_overwrite: bool = True
    hami_codes: bool = False


@dataclass(frozen=True, slots=True)
class Allowed:
    """Untouched. unmanaged: it asks for devices but another scheduler places it, so nothing of it is counted."""

    unmanaged: bool = False
    message: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mutated:
    """Ours: what it asks for after the changes, and the JSON patch that makes them (empty when it has them already).

    annotations: those that the patch sets.
    """

    request: requests.PodRequest
    patch: tuple[json_patch.Operation, ...]
    warnings: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)

    def annotated(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        """The pod with the annotations that the patch gives it: what `claim_patch` adds to."""
        metadata = dict(pod.get("metadata") or {})
        if self.annotations:
            metadata["annotations"] = {**(metadata.get("annotations") or {}), **self.annotations}
        return {**pod, "metadata": metadata}


@dataclass(frozen=True, slots=True)
class Denied:
    """Refused with an HTTP status and a sentence; key and container name the place, where there is one."""

    code: int
    message: str
    key: str = ""
    container: str = ""


Verdict = Allowed | Mutated | Denied


def review(
    pod: Mapping[str, Any], *, config: base.DeviceConfig, settings: AdmissionSettings, accepted_claim: str = ""
) -> Verdict:
    """The verdict on a pod that is to be created (JSON as sent).

    accepted_claim: the claim that the ledger vouches for, if the pod carries one already; any other claim is forged.
    """
    try:
        return _review(pod, config, settings, accepted_claim)
    except errors.WireError as error:
        return Denied(UNDECODABLE, str(error))
    except errors.RequestError as error:
        code = _HAMI_BAD_AMOUNT if settings.hami_codes else FORBIDDEN
        return Denied(code, str(error), error.key, error.container)


def update_review(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    *,
    user: str,
    groups: Sequence[str] = (),
    writers: Sequence[str],
    config: base.DeviceConfig,
) -> Verdict:
    """The verdict on a change: owned keys belong to writers (user or group names) and to kubelets."""
    if user.startswith(_KUBELETS) or user in writers or any(group in writers for group in groups):
        return Allowed()
    for part in ("annotations", "labels"):
        before, after = _metadata(old, part), _metadata(new, part)
        changed = (key for key in sorted({*before, *after}) if before.get(key) != after.get(key))
        forged = next((key for key in changed if key in config.owned_keys), "")
        if forged:
            return Denied(FORBIDDEN, f"{part[:-1]} {forged} belongs to the scheduler; {user} may not change it", forged)
    return Allowed()


def narrowing_patch(
    pod: Mapping[str, Any], request: requests.PodRequest, vendors: Container[str], config: base.DeviceConfig
) -> tuple[json_patch.Operation, ...]:
    """Bind the pod to nodes that have registered devices: of those asked vendors that are among `vendors`."""
    asked = (config.vendor(word) for word in request.vendors if word in vendors)
    labels = {vendor.node_label: base.LABEL_TRUE for vendor in asked}
    selector = (pod.get("spec") or {}).get("nodeSelector")
    return tuple(json_patch.members("/spec/nodeSelector", selector, labels))


def claim_patch(pod: Mapping[str, Any], claim_id: str, *, gated: bool) -> tuple[json_patch.Operation, ...]:
    """What is added once the ledger has answered: the claim, and the scheduling gate where the pod has to wait.

    An empty claim_id adds none: a pod that waits holds nothing yet.
    """
    annotations = (pod.get("metadata") or {}).get("annotations")
    claim = {CLAIM: claim_id} if claim_id else {}
    patch = json_patch.members("/metadata/annotations", annotations, claim)
    if gated:
        gates = (pod.get("spec") or {}).get("schedulingGates")
        patch += json_patch.named_items("/spec/schedulingGates", gates, [{"name": GATE}])
    return tuple(patch)


def _review(pod: Mapping[str, Any], config: base.DeviceConfig, settings: AdmissionSettings, claim: str) -> Verdict:
    containers = parse.declared(pod)
    if not (pod.get("spec") or {}).get("containers"):
        return Denied(FORBIDDEN, "pod has no containers")
    forged = _forged(pod, config, claim)
    if forged is not None:
        return forged
    everywhere = (*containers, *parse.ephemeral(pod))
    if not any(parse.mentions(one, config.resource_names) for one in everywhere):
        return Allowed()
    if _foreign(pod, settings):
        return Allowed(unmanaged=True, message="pod already has different scheduler assigned")
    parse.refuse_ephemeral(pod, config)
    return _managed(pod, containers, config, settings)


def _managed(
    pod: Mapping[str, Any],
    declared: Sequence[parse.Declared],
    config: base.DeviceConfig,
    settings: AdmissionSettings,
) -> Verdict:
    notes = parse.annotations_of(pod)
    added = [_added(one, notes, config) for one in declared]
    filled = [
        replace(one, limits={**one.limits, **more.limits}, requests={**one.requests, **more.requests})
        for one, more in zip(declared, added, strict=True)
    ]
    annotations = {key: text for more in added for key, text in more.annotations.items()}
    request = parse.request(filled, {**notes, **annotations}, config)
    warnings = tuple(
        text
        for one, asked in zip(filled, request.containers, strict=True)
        for text in _warnings(one, {ask.vendor for ask in asked.devices}, config)
    )
    if not request.asks:
        return Allowed(warnings=warnings)
    denied = _denied(pod, declared, settings)
    if denied is not None:
        return denied
    patch: list[json_patch.Operation] = []
    for container, asked, more in zip(filled, request.containers, added, strict=True):
        patch += _container_patch(container, asked, more, request, config)
    patch += _pod_patch(pod, request, config, settings)
    patch += json_patch.members("/metadata/annotations", _metadata(pod, "annotations") or None, annotations)
    return Mutated(request, tuple(patch), warnings, annotations)


def _forged(pod: Mapping[str, Any], config: base.DeviceConfig, claim: str) -> Denied | None:
    """A key that only the scheduler may write. Claim and gate of our own pass together, when the ledger vouches."""
    for part in ("annotations", "labels"):
        for key, value in sorted(_metadata(pod, part).items()):
            vouched = part == "annotations" and key == CLAIM and bool(claim) and value == claim
            if key in config.owned_keys and not vouched:
                return Denied(FORBIDDEN, f"{part[:-1]} {key} belongs to the scheduler; a pod may not bring it", key)
    gates = (pod.get("spec") or {}).get("schedulingGates") or ()
    if not claim and any(gate.get("name") == GATE for gate in gates):
        return Denied(FORBIDDEN, f"scheduling gate {GATE} belongs to the scheduler; a pod may not bring it", GATE)
    return None


def _foreign(pod: Mapping[str, Any], settings: AdmissionSettings) -> bool:
    name = pod["spec"].get("schedulerName") or ""
    ours_by_default = name == DEFAULT_SCHEDULER and settings.force_overwrite
    ours = bool(settings.scheduler_name) and name == settings.scheduler_name
    return bool(name) and not ours_by_default and not ours


def _denied(pod: Mapping[str, Any], declared: Sequence[parse.Declared], settings: AdmissionSettings) -> Denied | None:
    """What no pod with devices may do."""
    alignment = parse.annotations_of(pod).get(NUMA_ALIGNMENT)
    if alignment is not None and alignment.strip().lower() not in ("best-effort", "strict"):
        text = f"annotation {NUMA_ALIGNMENT}: {alignment!r} is neither best-effort nor strict"
        return Denied(FORBIDDEN, text, NUMA_ALIGNMENT)
    for one in (*declared, *parse.ephemeral(pod)):
        if (one.raw.get("securityContext") or {}).get("privileged"):
            text = f"container {one.name} is privileged: it would see every device of the node"
            return Denied(FORBIDDEN, text, container=one.name)
    if settings.scheduler_name and pod["spec"].get("nodeName"):
        return Denied(FORBIDDEN, "GPU pods may not pin nodeName, use a node selector", "spec.nodeName")
    return None


def _added(container: parse.Declared, notes: Mapping[str, str], config: base.DeviceConfig) -> Additions:
    """What makes the container's requests complete, by the vendors' own rules too. Raises RequestError."""
    added = Additions(_added_limits(container, config))
    for vendor in _named(container, config):
        if vendor.rules is not None:
            added |= vendor.rules(vendor, container, notes)
    return added


def _named(container: parse.Declared, config: base.DeviceConfig) -> Iterable[base.Vendor]:
    """The vendors of whom the container names a resource: nothing is missing in what it does not ask of the others."""
    return config.named((*container.limits, *container.requests))


def _added_limits(container: parse.Declared, config: base.DeviceConfig) -> dict[str, str]:
    """Limits that make an incomplete request complete: the default count, and all cores of whole devices."""
    added: dict[str, str] = {}
    for vendor in _named(container, config):
        names, defaults = vendor.resources, vendor.defaults
        others = [name for name, quantity in names.named() if quantity is not base.Quantity.COUNT]
        count = container.amount(names.count)
        if count is None and defaults.count and any(name in container.limits for name in others):
            added[names.count] = count = str(defaults.count)
        if not _some(count) or not defaults.exclusive or not names.cores:
            continue
        if container.amount(names.cores) is None and parse.is_whole(container, vendor):
            added[names.cores] = "100"
    return added


def _some(count: units.Text | None) -> bool:
    """Whether a count is given that is not 0; one that cannot be read is refused later, by name."""
    try:
        return count is not None and units.whole(count) != 0
    except errors.InvalidQuantity:
        return True


def _warnings(container: parse.Declared, asked: set[str], config: base.DeviceConfig) -> Iterator[str]:
    """asked: vendors of whom it gets a device; some need no count for that."""
    for vendor in _named(container, config):
        names = vendor.resources
        for name in filter(None, (names.memory, names.percent)):
            amount = container.amount(name)
            if amount is not None and units.exact(amount) == 0 and _some(container.amount(names.count)):
                yield f"container {container.name}: {name}: 0 counts as not given"
        if container.amount(names.count) is None and vendor.word not in asked:
            yield f"container {container.name}: without {names.count} it gets no device"


def _container_patch(
    container: parse.Declared,
    asked: requests.ContainerRequest,
    added: Additions,
    request: requests.PodRequest,
    config: base.DeviceConfig,
) -> list[json_patch.Operation]:
    # Only a container that has resources gets more of them.
    resources = container.raw.get("resources") or {}
    patch: list[json_patch.Operation] = []
    for part, more in (("limits", added.limits), ("requests", added.requests)):
        patch += json_patch.members(json_patch.pointer(container.path, "resources", part), resources.get(part), more)
    wanted = {**_env(container, asked, request, config), **added.env}
    env = [{"name": name, "value": value} for name, value in wanted.items()]
    return patch + json_patch.named_items(json_patch.pointer(container.path, "env"), container.raw.get("env"), env)


def _env(
    container: parse.Declared,
    asked: requests.ContainerRequest,
    request: requests.PodRequest,
    config: base.DeviceConfig,
) -> dict[str, str]:
    found: dict[str, str] = {}
    words = {ask.vendor for ask in asked.devices}
    for vendor in map(config.vendor, request.vendors):
        if vendor.word not in words:
            found |= dict(vendor.injection.absent_env)
            continue
        if vendor.injection.priority_env and vendor.resources.priority in container.limits:
            priority = parse.integer(container, vendor.resources.priority, most=units.INT32_MAX)
            found[vendor.injection.priority_env] = str(priority)
        found |= dict(vendor.injection.fixed_env)
    return found


def _pod_patch(
    pod: Mapping[str, Any], request: requests.PodRequest, config: base.DeviceConfig, settings: AdmissionSettings
) -> list[json_patch.Operation]:
    spec = pod["spec"]
    vendors = [config.vendor(word) for word in request.vendors]
    wanted: dict[str, str] = {}
    if settings.scheduler_name:
        wanted["schedulerName"] = settings.scheduler_name
    runtime_classes = [vendor.injection.runtime_class for vendor in vendors if vendor.injection.runtime_class]
    if runtime_classes and not spec.get("runtimeClassName"):
        wanted["runtimeClassName"] = runtime_classes[0]
    return json_patch.members("/spec", spec, wanted)


def _metadata(pod: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    return parse.mapping(parse.mapping(pod.get("metadata"), "metadata").get(part), f"metadata.{part}")
