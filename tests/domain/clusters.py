"""Hypothesis strategies for placement: small clusters and pods, full of ties, full devices and rare features."""

from __future__ import annotations

from hypothesis import strategies as st

from hami_platform.domain.devices import ContainerKind, Held, MigPlacement, MigUse
from hami_platform.domain.nodes import DeviceState, NodeState
from hami_platform.domain.quota import Amounts, Headroom, Limits, Rule, Selector
from hami_platform.domain.reasons import Reason
from hami_platform.domain.requests import Constraints, ContainerRequest, DeviceRequest, PodRequest, Weights
from tests import builders

VENDORS = ("NVIDIA", "MLU")
MODELS = ("NVIDIA A10", "NVIDIA A100")
POLICIES = (
    "binpack", "spread", "numa", "mutex", "topology-aware", "binpack,numa", "numa,spread", "mutex,binpack",
    "topology-aware,numa", " binpack ", "bogus", "", ",",
)  # fmt: skip


@st.composite
def easy_states(draw: st.DrawFn, uuid: str, index: int) -> DeviceState:
    """A device that takes most requests, lightly used; equal devices are frequent."""
    slots, memory, core = draw(st.sampled_from(((0, 0, 0), (1, 2, 0), (1, 4, 20), (2, 4, 20))))
    device = builders.device(
        uuid, index=index, model=draw(st.sampled_from(MODELS)), memory_mib=12, slots=4, numa=draw(st.integers(0, 1))
    )
    return DeviceState(device, Held(slots, memory, core))


@st.composite
def device_states(draw: st.DrawFn, uuid: str, index: int) -> DeviceState:
    """One device: plain, scaled, empty, broken or in MIG mode, more or less used."""
    if draw(st.integers(0, 5)) == 5:
        return draw(mig_states(uuid, index))
    slots = draw(st.sampled_from((4, 4, 2, 2, 1, 0)))
    memory = draw(st.sampled_from((12, 12, 8, 8, 4, 0)))
    core = draw(st.sampled_from((100, 100, 100, 200, 0)))
    used = Held(
        draw(st.sampled_from((0, 0, 1, slots))),
        draw(st.sampled_from((0, 0, 4, memory + 1))),
        draw(st.sampled_from((0, 0, 20, core))),
    )
    device = builders.device(
        uuid,
        index=index,
        vendor=draw(st.sampled_from(("NVIDIA", "NVIDIA", "NVIDIA", "MLU"))),
        model=draw(st.sampled_from(MODELS)),
        memory_mib=memory,
        core_percent=core,
        slots=slots,
        numa=draw(st.integers(0, 1)),
        mode=draw(st.sampled_from(("hami-core", "hami-core", ""))),
        healthy=draw(st.integers(0, 9)) < 9,
        cordoned=draw(st.integers(0, 9)) == 9,
        reserved_mib=draw(st.sampled_from((0, 0, 0, 2))),
    )
    return DeviceState(device, used)


PROFILES = (
    builders.profile("1g.1gb", 2, 15, 1, range(4), 1),
    builders.profile("2g.2gb", 4, 30, 2, (0, 2), 2),
    builders.profile("4g.4gb", 7, 100, 4, (0,), 4),
)


@st.composite
def mig_states(draw: st.DrawFn, uuid: str, index: int) -> DeviceState:
    """A device cut into instances, some of them in use; now and then a holder's place is not known."""
    used = Held()
    taken: set[int] = set()
    for start in draw(st.lists(st.integers(0, 3), max_size=2, unique=True)):
        taken.add(start)
        used += Held(1, 2, 15, (MigUse("1g.1gb", MigPlacement(start, 1)),))
    if draw(st.integers(0, 9)) == 9:
        used = Held(1, 2, 0)
    device = builders.device(
        uuid,
        index=index,
        memory_mib=8,
        slots=draw(st.sampled_from((2, 4))),
        mode="mig",
        numa=draw(st.integers(0, 1)),
        mig_profiles=draw(st.sampled_from((PROFILES, PROFILES[:1], ()))),
    )
    return DeviceState(device, used)


@st.composite
def node_states(draw: st.DrawFn, name: str = "n1") -> NodeState:
    """A node of up to four devices; uuids are its own, indices may repeat."""
    uuids = [f"GPU-{name}-{i}" for i in range(draw(st.sampled_from((4, 4, 3, 3, 2, 1, 0))))]
    state = draw(st.sampled_from((easy_states, easy_states, device_states)))
    devices = [draw(state(uuid, draw(st.integers(0, len(uuids))))) for uuid in uuids]
    pairs = {}
    if draw(st.booleans()):
        pairs = {(a, b): draw(st.sampled_from((-5, 0, 10, 10, 20))) for a in uuids for b in uuids if a != b}
    blocked = Reason.NODE_LOCKED if draw(st.integers(0, 19)) == 19 else None
    return NodeState.of(name, devices, blocked=blocked, pair_scores=pairs)


@st.composite
def busy_nodes(draw: st.DrawFn) -> NodeState:
    """A node of whole devices of one vendor, nearly full in one way or another."""

    def one(index: int) -> DeviceState:
        slots = draw(st.sampled_from((1, 1, 2, 0, 4)))
        memory, core = draw(st.sampled_from(((0, 0), (4, 0), (12, 0), (4, 20), (0, 100), (12, 100), (0, 50))))
        used = Held(slots, memory, core) if slots else Held()
        return builders.state(str(index), index=index, memory_mib=12, slots=4, used=used)

    return NodeState.of("n1", [one(index) for index in range(draw(st.integers(1, 4)))])


def busy_asks() -> st.SearchStrategy[DeviceRequest]:
    """A request that a busy node may just meet, or just not."""
    memory = st.sampled_from(((1, None), (8, None), (12, None), (13, None), (0, 100), (0, 50), (0, None)))
    return st.builds(
        lambda count, amount, cores: DeviceRequest("NVIDIA", count, amount[0], amount[1], cores),
        st.integers(1, 4),
        memory,
        st.sampled_from((0, 20, 60, 100)),
    )


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, NodeState]:
    """Up to four nodes by name, in any order."""
    names = draw(st.permutations(["n1", "n2", "n3", "n4"]))[: draw(st.integers(1, 4))]
    return {name: draw(node_states(name)) for name in names}


def easy_asks(vendor: str = "NVIDIA") -> st.SearchStrategy[DeviceRequest]:
    """One small request."""
    return st.builds(
        DeviceRequest,
        st.just(vendor),
        st.sampled_from((1, 1, 2)),
        st.sampled_from((2, 3)),
        st.none(),
        st.sampled_from((0, 20)),
    )


def asks(vendor: str = "NVIDIA") -> st.SearchStrategy[DeviceRequest]:
    """One request for one to three devices."""
    memory = st.sampled_from(((2, None), (2, None), (4, None), (0, 50), (0, None), (8, None), (0, 100)))
    core = st.sampled_from((0, 0, 20, 50, 100, 150))
    return st.builds(
        lambda count, amount, cores: DeviceRequest(vendor, count, amount[0], amount[1], cores),
        st.sampled_from((1, 1, 2, 3)),
        memory,
        core,
    )


@st.composite
def containers(draw: st.DrawFn) -> tuple[ContainerRequest, ...]:
    """Init containers and sidecars, then apps; any of them may ask for nothing or for two vendors."""
    early = draw(st.lists(st.sampled_from((ContainerKind.INIT, ContainerKind.SIDECAR)), max_size=2))
    kinds = [*early, *[ContainerKind.APP] * draw(st.integers(1, 2))]
    ask = draw(st.sampled_from((easy_asks, easy_asks, asks)))
    found = []
    for i, kind in enumerate(kinds):
        vendors = draw(st.sampled_from((("NVIDIA",), ("NVIDIA",), ("NVIDIA",), ("NVIDIA",), (), (), ("NVIDIA", "MLU"))))
        found.append(ContainerRequest(f"c{i}", kind, tuple(draw(ask(vendor)) for vendor in vendors)))
    return tuple(found)


def constraints() -> st.SearchStrategy[Constraints]:
    """Constraints, mostly absent."""
    return st.builds(
        Constraints,
        node_policy=st.sampled_from((None, "binpack", "spread", "bogus")),
        device_policy=st.none() | st.sampled_from(POLICIES),
        use_models=st.sampled_from((None, None, None, ("a100",), ("a10",), ())),
        nouse_models=st.sampled_from((None, None, None, ("A100",))),
        use_uuids=st.sampled_from((None, None, None, None, ("GPU-n1-0", "GPU-n1-1", "GPU-n2-0"))),
        nouse_uuids=st.sampled_from((None, None, None, ("GPU-n1-0",))),
        numa_bind=st.booleans(),
        vgpu_mode=st.sampled_from((None, None, None, None, "mig", "hami-core", "mig,hami-core")),
        weights=st.sampled_from((Weights(), Weights(1, 1, 3), Weights(0, 1, 0))),
    )


def policies() -> st.SearchStrategy[Constraints]:
    """Preferences, and nothing that forbids a device but numa-bind and the policies that filter."""
    return st.builds(
        Constraints,
        node_policy=st.sampled_from((None, "binpack", "spread", "bogus")),
        device_policy=st.none() | st.sampled_from(POLICIES),
        numa_bind=st.booleans(),
        weights=st.sampled_from((Weights(), Weights(1, 1, 3), Weights(0, 1, 0))),
    )


def pods() -> st.SearchStrategy[PodRequest]:
    """Whole pod requests."""
    return st.builds(PodRequest, containers(), st.just(Constraints()) | policies() | constraints())


def amounts() -> st.SearchStrategy[Amounts]:
    """Some use."""
    return st.builds(Amounts, st.integers(0, 2), st.integers(0, 6), st.integers(0, 80))


def limits() -> st.SearchStrategy[Limits]:
    """Any limits, most of them absent."""

    def bound(*values: int) -> st.SearchStrategy[int | None]:
        return st.sampled_from((None, None, None, None, *values, *values, 0))

    return st.builds(
        Limits,
        bound(2, 4, 8),
        bound(8, 16, 24),
        bound(100, 200, 400),
        bound(2, 4),
        bound(8, 16),
        bound(100, 150),
        bound(4, 8),
    )


def headrooms() -> st.SearchStrategy[Headroom]:
    """No rule, or a few with their use."""
    selector = st.builds(Selector, st.sampled_from(("", "NVIDIA", "MLU")), st.sampled_from(("", "*a100*", "*A10*")))
    rule = st.builds(Rule, st.sampled_from(("team/a", "team/b")), selector, limits())
    rules = st.lists(st.tuples(rule, amounts()), max_size=2).map(tuple)
    return st.just(Headroom()) | st.builds(Headroom, rules, st.booleans())
