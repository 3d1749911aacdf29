"""What a pod holds now, from its shares and the state of its containers. Must not know: events, or what it held before.

Three classes hold devices at different times: ordinary inits run one after another, sidecars (inits that restart
always) from their turn to the end, apps together after all inits. Kubernetes reserves for pods by the same rule.
Source: KEP-753 (sidecar containers), HAMi #2723.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hami_platform.domain import devices, mig, nodes, quota, requests

State = Literal["waiting", "running", "terminated", "missing"]
TERMINAL = frozenset(("Succeeded", "Failed"))
"""Phases in which a pod holds nothing and never will again."""

Vector = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ContainerFact:
    """What is known of one container. started: it ran at least once, so its devices have been handed out."""

    state: State
    exit_code: int | None = None
    started: bool = False


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What is known of a pod.

    deleting: it has a deletion timestamp. bound: it has a node. containers: by name, all three kinds.
    """

    phase: str
    deleting: bool = False
    bound: bool = False
    containers: Mapping[str, ContainerFact] = field(default_factory=dict)

    @property
    def started(self) -> bool:
        """Whether any container, inits included, has ever run."""
        return any(fact.started for fact in self.containers.values())


def held(
    shares: Sequence[devices.Share],
    containers: Sequence[requests.ContainerRequest],
    facts: PodFacts,
    *,
    aligned: bool = True,
) -> dict[devices.DeviceKey, devices.Held]:
    """What the pod holds per device: the peak of what its containers still have before them.

    A pure function of the last status, so a sandbox that is rebuilt and runs its inits again raises it again.
    Not aligned: the rows could not be attributed to containers, so all count together. Unused devices are left out.
    """
    if facts.phase in TERMINAL or (facts.deleting and not facts.bound):
        return {}
    return _remaining(shares, done(containers, facts) if aligned else frozenset(), aligned)


def peak(
    shares: Sequence[devices.Share], containers: Sequence[requests.ContainerRequest] = (), *, aligned: bool = True
) -> dict[devices.DeviceKey, devices.Held]:
    """The most that these shares will ever hold: `held` of a pod without any status, whatever its containers."""
    del containers
    return _remaining(shares, frozenset(), aligned)


def done(containers: Sequence[requests.ContainerRequest], facts: PodFacts) -> frozenset[int]:
    """Indexes of the ordinary inits that are over: terminated with exit 0, and so is every ordinary init before.

    A missing status is not done, whatever the phase says: kubelets report inits one by one.
    """
    over: set[int] = set()
    for index, container in enumerate(containers):
        if container.kind is not devices.ContainerKind.INIT:
            continue
        fact = facts.containers.get(container.name)
        if fact is None or fact.state != "terminated" or fact.exit_code != 0:
            break
        over.add(index)
    return frozenset(over)


def walk(items: Iterable[tuple[devices.ContainerKind, Vector]]) -> Vector:
    """The peak of a sequence of containers in spec order, each component for itself; () for no item.

    max over ordinary inits of (sidecars before it + init), and all sidecars + all apps at the end.
    """
    top: Vector = ()
    steady: Vector = ()
    for kind, amounts in items:
        after = _add(steady, amounts)
        top = _max(top, after)
        if kind is not devices.ContainerKind.INIT:
            steady = after
    return top


def lower_bound(
    request: requests.PodRequest, eligible: Mapping[str, Sequence[devices.Device]]
) -> tuple[quota.Charge, ...]:
    """The least that the pod can be charged wherever it goes: one Charge per vendor, model "", sorted by vendor.

    eligible: vendor -> devices it might be placed on. A percentage counts as of the smallest of them, a MIG request as
    its smallest profile; without any device a percentage counts as 0. Placement may charge more (decision D2).
    """
    return tuple(_charge(request, vendor, eligible.get(vendor, ())) for vendor in request.vendors)


def representatives(found: Iterable[devices.Device]) -> dict[str, tuple[devices.Device, ...]]:
    """Vendor -> one device of each kind that `lower_bound` can tell apart: a handful, however large the cluster.

    Law: the bound over these is the bound over all. Worth keeping until the inventory changes: over 40,000 devices
    `lower_bound` takes 30 ms, over their kinds microseconds.
    """
    by_vendor: dict[str, list[devices.Device]] = {}
    for one in one_of_each_kind(found):
        by_vendor.setdefault(one.vendor, []).append(one)
    return {vendor: tuple(some) for vendor, some in by_vendor.items()}


def one_of_each_kind(found: Iterable[devices.Device]) -> tuple[devices.Device, ...]:
    """The last device of each kind that `lower_bound` can tell apart, kinds in the order in which they first come.

    So it may be taken over parts first: over all is over what the parts, in the same order, came to.
    """
    return tuple({(one.vendor, one.memory_mib, one.mode, one.mig_profiles): one for one in found}.values())


def facts_of(pod: Mapping[str, Any]) -> PodFacts:
    """The facts of a raw Pod object (JSON as the API server sends it)."""
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    return facts_from_status(
        pod.get("status") or {}, deleting=bool(metadata.get("deletionTimestamp")), bound=bool(spec.get("nodeName"))
    )


def facts_from_status(status: Mapping[str, Any], *, deleting: bool, bound: bool) -> PodFacts:
    """The facts of a raw PodStatus. A container that has no status yet is simply not in it."""
    reported = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return PodFacts(
        phase=status.get("phase") or "",
        deleting=deleting,
        bound=bound,
        containers={one["name"]: _fact(one) for one in reported if one.get("name")},
    )


def _fact(status: Mapping[str, Any]) -> ContainerFact:
    state = status.get("state") or {}
    ran_before = bool(status.get("restartCount")) or bool((status.get("lastState") or {}).get("terminated"))
    if state.get("terminated") is not None:
        return ContainerFact("terminated", int(state["terminated"].get("exitCode") or 0), started=True)
    if state.get("running") is not None:
        return ContainerFact("running", started=True)
    return ContainerFact("waiting", started=ran_before)


def _remaining(
    shares: Iterable[devices.Share], over: frozenset[int], aligned: bool
) -> dict[devices.DeviceKey, devices.Held]:
    by_device: dict[devices.DeviceKey, dict[int, list[devices.Share]]] = {}
    for share in shares:
        if share.container_index not in over:
            by_device.setdefault(share.key, {}).setdefault(share.container_index, []).append(share)
    found = {key: _on_device(by_device[key], aligned) for key in sorted(by_device)}
    return {key: value for key, value in found.items() if value}


def _on_device(by_container: Mapping[int, Sequence[devices.Share]], aligned: bool) -> devices.Held:
    sequence = [by_container[index] for index in sorted(by_container)]
    if len(sequence) == 1:  # nearly always; what one container holds is its peak
        slots, memory_mib, core_percent = _total(sequence[0])
    else:
        slots, memory_mib, core_percent = walk((_kind(rows, aligned), _total(rows)) for rows in sequence)
    # Placements are places, not amounts: an init and an app may use the same one after another.
    places = {share.mig for rows in sequence for share in rows if share.mig is not None}
    return devices.Held(slots, memory_mib, core_percent, tuple(sorted(places)))


def _kind(rows: Sequence[devices.Share], aligned: bool) -> devices.ContainerKind:
    return rows[0].kind if aligned else devices.ContainerKind.APP


def _total(rows: Sequence[devices.Share]) -> tuple[int, int, int]:
    """One container's shares of one device add up: a MIG device may give it several instances."""
    if len(rows) == 1:
        return (1, rows[0].memory_mib, rows[0].core_percent)
    return (len(rows), sum(row.memory_mib for row in rows), sum(row.core_percent for row in rows))


def _charge(request: requests.PodRequest, vendor: str, eligible: Sequence[devices.Device]) -> quota.Charge:
    largest_mib = 0
    items: list[tuple[devices.ContainerKind, Vector]] = []
    for container in request.containers:
        for ask in container.devices:
            if ask.vendor == vendor:
                memory_mib, core_percent = _cheapest(ask, eligible)
                largest_mib = max(largest_mib, memory_mib)
                items.append((container.kind, (ask.count, ask.count * memory_mib, ask.count * core_percent)))
    return quota.Charge(vendor, "", quota.Amounts(*walk(items)), largest_mib)


def _cheapest(ask: requests.DeviceRequest, eligible: Iterable[devices.Device]) -> tuple[int, int]:
    """(MiB, core %) of the cheapest share; each of the two for itself. Devices that can never give it do not count."""
    offers = [offer for device in eligible for offer in _offers(ask, device)]
    if not offers:
        return ask.memory_on(0), _cores(ask)
    return min(memory_mib for memory_mib, _ in offers), min(core_percent for _, core_percent in offers)


def _offers(ask: requests.DeviceRequest, device: devices.Device) -> list[tuple[int, int]]:
    if device.mode == "mig":
        least_mib = mig.memory_asked(device, ask, whole_is_largest=True)
        profiles = (profile for profile in device.mig_profiles if profile.memory_mib >= least_mib)
        return [(profile.memory_mib, profile.core_percent) for profile in profiles]
    memory_mib = ask.memory_on(device.memory_mib)
    return [(memory_mib, _cores(ask))] if memory_mib <= device.memory_mib else []


def _cores(ask: requests.DeviceRequest) -> int:
    """As placement reads them."""
    return min(ask.core_percent, nodes.MAX_CORE_PERCENT)


def _add(a: Vector, b: Vector) -> Vector:
    return tuple(x + y for x, y in zip(a, b, strict=True)) if a and b else a or b


def _max(a: Vector, b: Vector) -> Vector:
    return tuple(max(x, y) for x, y in zip(a, b, strict=True)) if a and b else a or b
