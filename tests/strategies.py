"""Hypothesis strategies for the domain's values. Small sizes on purpose: laws break on small examples too."""

from __future__ import annotations

from hypothesis import strategies as st

from hami_platform.domain import devices, lifecycle, requests
from hami_platform.domain.wire import mig_allocations, node_lock, pod_devices

NAMES = st.text(st.characters(exclude_characters=",:;\0", exclude_categories=("Cs",)), min_size=1, max_size=12)  # type: ignore[arg-type]
"""Device names as the wire can carry them."""
INT32 = st.integers(0, 2**31 - 1)
SIGNED_INT32 = st.integers(-(2**31), 2**31 - 1)


def rows() -> st.SearchStrategy[tuple[tuple[pod_devices.Row, ...], ...]]:
    """Rows of a pod: some containers, each with some devices."""
    row = st.builds(pod_devices.Row, NAMES, NAMES, INT32, INT32)
    return st.lists(st.lists(row, max_size=3).map(tuple), max_size=4).map(tuple)


def placements() -> st.SearchStrategy[devices.MigPlacement]:
    """MIG placements."""
    return st.builds(devices.MigPlacement, st.integers(0, 7), st.integers(1, 8))


def mig_profiles() -> st.SearchStrategy[devices.MigProfile]:
    """MIG profiles, not necessarily sensible ones."""
    spots = st.lists(placements(), max_size=2).map(tuple)
    return st.builds(devices.MigProfile, NAMES, INT32, INT32, INT32, spots)


def registered(vendor: str = "NVIDIA") -> st.SearchStrategy[tuple[devices.Device, ...]]:
    """Devices as a plugin registers them, sorted by uuid, distinct."""
    one = st.builds(
        devices.Device,
        uuid=NAMES,
        index=INT32,
        vendor=st.just(vendor),
        model=NAMES | st.just(""),
        memory_mib=INT32,
        core_percent=INT32,
        slots=INT32,
        numa=SIGNED_INT32,
        mode=NAMES | st.just(""),
        healthy=st.booleans(),
        mig_profiles=st.lists(mig_profiles(), max_size=2).map(tuple),
    )
    distinct = st.lists(one, max_size=4, unique_by=lambda device: device.uuid)
    return distinct.map(lambda found: tuple(sorted(found, key=lambda device: device.uuid)))


def mig_reservations() -> st.SearchStrategy[tuple[mig_allocations.Allocation, ...]]:
    """MIG allocations of one pod, with and without runtime ids."""
    runtime = st.none() | st.builds(mig_allocations.Runtime, NAMES, INT32, INT32)
    place = st.tuples(st.integers(0, 5), st.integers(0, 7))
    one = st.builds(
        lambda at, *rest: mig_allocations.Allocation(*at, *rest), place, NAMES, NAMES, placements(), runtime
    )
    distinct = st.lists(one, max_size=4, unique_by=lambda found: (found.container_index, found.device_index))
    return distinct.map(tuple)


def locks() -> st.SearchStrategy[node_lock.NodeLock]:
    """Node locks in years 1 to 9999, owned or not."""
    name = st.text(st.characters(exclude_characters=","), min_size=1, max_size=12)
    owned = st.builds(node_lock.NodeLock, st.integers(-(6 * 10**10), 2 * 10**11), name, name)
    return owned | st.builds(node_lock.NodeLock, st.integers(-(6 * 10**10), 2 * 10**11))


def weights() -> st.SearchStrategy[requests.Weights]:
    """Scoring weights, at least one of them positive."""
    weight = st.integers(0, 2**63 - 1)
    return st.builds(requests.Weights, weight, weight, weight).filter(lambda w: w.slot or w.core or w.memory)


def pod_facts() -> st.SearchStrategy[lifecycle.PodFacts]:
    """What is known of a pod, any combination."""
    state = st.sampled_from(("waiting", "running", "terminated", "missing"))
    fact = st.builds(lifecycle.ContainerFact, state, st.none() | st.integers(0, 255), st.booleans())
    phases = st.sampled_from(("", "Pending", "Running", "Succeeded", "Failed", "Unknown"))
    containers = st.dictionaries(st.text(max_size=4), fact, max_size=3)
    return st.builds(lifecycle.PodFacts, phases, st.booleans(), st.booleans(), containers)


def device_requests(vendor: str = "NVIDIA") -> st.SearchStrategy[requests.DeviceRequest]:
    """What one container asks of a vendor: absolute memory, a percentage, or neither."""
    cores = st.sampled_from((0, 10, 50, 100))
    absolute = st.builds(
        requests.DeviceRequest, st.just(vendor), st.integers(1, 3), st.integers(1, 9000), st.none(), cores
    )
    percent = st.builds(
        requests.DeviceRequest, st.just(vendor), st.integers(1, 3), st.just(0), st.integers(1, 100), cores
    )
    return absolute | percent


@st.composite
def container_requests(
    draw: st.DrawFn, ask: st.SearchStrategy[bool] | None = None
) -> tuple[requests.ContainerRequest, ...]:
    """Containers of a pod in spec order: inits and sidecars in any order, then at least one app."""
    early = st.sampled_from((devices.ContainerKind.INIT, devices.ContainerKind.SIDECAR))
    kinds = draw(st.lists(early, max_size=3)) + [devices.ContainerKind.APP] * draw(st.integers(1, 2))
    asking = [draw(ask or st.booleans()) for _ in kinds]
    return tuple(
        requests.ContainerRequest(f"c{i}", kind, (draw(device_requests()),) if asks else ())
        for i, (kind, asks) in enumerate(zip(kinds, asking, strict=True))
    )


def constraints() -> st.SearchStrategy[requests.Constraints]:
    """Constraints, each of them absent or present."""
    names = st.none() | st.lists(NAMES, max_size=2).map(tuple)
    policy = st.none() | st.sampled_from(("binpack", "spread"))
    return st.builds(
        requests.Constraints, policy, policy, names, names, names, names, st.booleans(), st.none() | NAMES, weights()
    )


def pod_requests() -> st.SearchStrategy[requests.PodRequest]:
    """Whole pod requests."""
    return st.builds(requests.PodRequest, container_requests(), constraints())
