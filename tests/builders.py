"""Builders with defaults, so that a test shows only what matters to it: devices, nodes, requests, quotas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hami_platform.domain.devices import NOTHING, ContainerKind, Device, Held, MigPlacement, MigProfile, MigUse
from hami_platform.domain.nodes import DeviceState, NodeState
from hami_platform.domain.quota import Amounts, Headroom, Limits, Rule, Selector
from hami_platform.domain.reasons import Reason
from hami_platform.domain.requests import Constraints, ContainerRequest, DeviceRequest, PodRequest

MODEL = "NVIDIA A10"
NO_LIMITS = Limits()
NO_AMOUNTS = Amounts()


def device(
    uuid: str = "GPU-a",
    *,
    index: int = 0,
    vendor: str = "NVIDIA",
    model: str = MODEL,
    memory_mib: int = 24576,
    core_percent: int = 100,
    slots: int = 10,
    numa: int = 0,
    mode: str = "hami-core",
    healthy: bool = True,
    mig_profiles: tuple[MigProfile, ...] = (),
    cordoned: bool = False,
    reserved_mib: int = 0,
) -> Device:
    """A healthy 24 GiB device for ten sharers."""
    return Device(
        uuid, index, vendor, model, memory_mib, core_percent, slots, numa, mode, healthy, mig_profiles, cordoned,
        reserved_mib,
    )  # fmt: skip


def held(slots: int = 0, memory_mib: int = 0, core_percent: int = 0, mig: tuple[MigUse, ...] = ()) -> Held:
    """What is held on a device."""
    return Held(slots, memory_mib, core_percent, mig)


def state(uuid: str = "GPU-a", *, used: Held = NOTHING, **fields: object) -> DeviceState:
    """A device with its use; fields are those of `device`."""
    return DeviceState(device(uuid, **fields), used)  # type: ignore[arg-type]


def node(
    name: str = "n1",
    *devices: DeviceState,
    blocked: Reason | None = None,
    pair_scores: Mapping[tuple[str, str], int] | None = None,
) -> NodeState:
    """A node of the devices given; indices are theirs."""
    return NodeState.of(name, devices, blocked=blocked, pair_scores=pair_scores)


def uniform_node(name: str = "n1", count: int = 8, *, used: Sequence[Held] = (), **fields: object) -> NodeState:
    """A node of `count` equal devices GPU-<node>-<i>; used[i] is held on the i-th."""
    return NodeState.of(
        name,
        [state(f"GPU-{name}-{i}", index=i, used=used[i] if i < len(used) else Held(), **fields) for i in range(count)],
    )


def cluster(*nodes: NodeState) -> dict[str, NodeState]:
    """Nodes by name."""
    return {n.name: n for n in nodes}


def ask(
    count: int = 1,
    *,
    memory_mib: int = 0,
    memory_percent: int | None = None,
    core_percent: int = 0,
    vendor: str = "NVIDIA",
) -> DeviceRequest:
    """One request; without any memory it asks for none."""
    return DeviceRequest(vendor, count, memory_mib, memory_percent, core_percent)


def container(*asks: DeviceRequest, name: str = "main", kind: ContainerKind = ContainerKind.APP) -> ContainerRequest:
    """An app container."""
    return ContainerRequest(name, kind, asks)


app = container


def init(*asks: DeviceRequest, name: str = "init") -> ContainerRequest:
    """An ordinary init container."""
    return ContainerRequest(name, ContainerKind.INIT, asks)


def sidecar(*asks: DeviceRequest, name: str = "sidecar") -> ContainerRequest:
    """An init container that keeps running."""
    return ContainerRequest(name, ContainerKind.SIDECAR, asks)


def pod(
    *parts: ContainerRequest | DeviceRequest, constraints: Constraints | None = None, **fields: object
) -> PodRequest:
    """A pod of containers; a bare request is an app container. fields are those of Constraints."""
    containers = tuple(
        part if isinstance(part, ContainerRequest) else container(part, name=f"c{i}") for i, part in enumerate(parts)
    )
    return PodRequest(containers, constraints or Constraints(**fields))  # type: ignore[arg-type]


def headroom(
    limits: Limits = NO_LIMITS,
    used: Amounts = NO_AMOUNTS,
    *,
    name: str = "nlp/default",
    vendor: str = "",
    model_pattern: str = "",
    enforced: bool = True,
) -> Headroom:
    """One quota and its use."""
    return Headroom(((Rule(name, Selector(vendor, model_pattern), limits), used),), enforced)


def profile(
    name: str, memory_mib: int, core_percent: int, slice_count: int, starts: Iterable[int], size: int
) -> MigProfile:
    """A MIG profile with one placement per start."""
    placements = tuple(MigPlacement(start, size) for start in starts)
    return MigProfile(name, memory_mib, core_percent, slice_count, placements)


A100_PROFILES = (
    profile("1g.5gb", 4864, 14, 1, range(7), 1),
    profile("2g.10gb", 9856, 28, 2, (0, 2, 4), 2),
    profile("3g.20gb", 19968, 42, 3, (0, 4), 4),
    profile("7g.40gb", 40192, 100, 7, (0,), 8),
)
"""Geometry of an A100 with 40 GB (NVIDIA MIG user guide: memory slices, placements); amounts are round figures."""


def mig_state(uuid: str = "GPU-m", *, index: int = 0, uses: tuple[MigUse, ...] = (), slots: int = 7) -> DeviceState:
    """An A100 in MIG mode with some instances in use."""
    by_name = {p.name: p for p in A100_PROFILES}
    total = Held()
    for use in uses:
        total += Held(1, by_name[use.profile].memory_mib, by_name[use.profile].core_percent, (use,))
    return DeviceState(
        device(uuid, index=index, memory_mib=40960, slots=slots, mode="mig", mig_profiles=A100_PROFILES), total
    )


def mig_use(name: str, start: int, size: int) -> MigUse:
    """One occupied placement."""
    return MigUse(name, MigPlacement(start, size))
