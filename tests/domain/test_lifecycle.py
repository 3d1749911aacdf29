"""What a pod holds: container kind x state of its inits x device; H16, H17, H33 to H38, law 7.

A pod is written as a list of (kind, uuid, MiB, core %); None for a container without a device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_platform.domain import devices, lifecycle, requests

INIT, SIDECAR, APP = devices.ContainerKind.INIT, devices.ContainerKind.SIDECAR, devices.ContainerKind.APP
Spec = Sequence[tuple[devices.ContainerKind, str | None, int, int]]

DONE = lifecycle.ContainerFact("terminated", 0, started=True)
FAILED = lifecycle.ContainerFact("terminated", 1, started=True)
RUNNING = lifecycle.ContainerFact("running", started=True)
WAITING = lifecycle.ContainerFact("waiting")


def containers(spec: Spec) -> tuple[requests.ContainerRequest, ...]:
    return tuple(requests.ContainerRequest(f"c{i}", kind) for i, (kind, *_) in enumerate(spec))


def shares(spec: Spec) -> tuple[devices.Share, ...]:
    return tuple(
        devices.Share(i, f"c{i}", kind, "NVIDIA", uuid, memory_mib, core_percent)
        for i, (kind, uuid, memory_mib, core_percent) in enumerate(spec)
        if uuid is not None
    )


def facts(*states: lifecycle.ContainerFact | None, phase: str = "Pending", **flags: bool) -> lifecycle.PodFacts:
    known = {f"c{i}": state for i, state in enumerate(states) if state is not None}
    return lifecycle.PodFacts(phase, containers=known, **{"bound": True, **flags})


def held(spec: Spec, now: lifecycle.PodFacts, *, aligned: bool = True) -> dict[str, tuple[int, int, int]]:
    """uuid -> (MiB, core %, slots)."""
    found = lifecycle.held(shares(spec), containers(spec), now, aligned=aligned)
    return {uuid: (use.memory_mib, use.core_percent, use.slots) for (_, uuid), use in found.items()}


def memory(spec: Spec, now: lifecycle.PodFacts) -> int:
    return sum(use[0] for use in held(spec, now).values())


H16: Spec = [(INIT, "a", 20480, 10), (APP, "a", 10240, 5)]


def test_h16_an_init_holds_its_peak_until_it_ends() -> None:
    assert held(H16, facts()) == {"a": (20480, 10, 1)}
    assert held(H16, facts(RUNNING, WAITING)) == {"a": (20480, 10, 1)}
    assert held(H16, facts(DONE, WAITING)) == {"a": (10240, 5, 1)}
    assert held(H16, facts(DONE, RUNNING, phase="Running")) == {"a": (10240, 5, 1)}


def test_h17_apps_of_one_device_add_up() -> None:
    assert held([(APP, "a", 5000, 10), (APP, "a", 6000, 20)], facts()) == {"a": (11000, 30, 2)}


def test_h33_a_sidecar_and_its_app_hold_together_at_all_times() -> None:
    spec: Spec = [(SIDECAR, "a", 4000, 0), (APP, "a", 4000, 0)]
    for now in (facts(), facts(RUNNING), facts(RUNNING, RUNNING, phase="Running"), facts(DONE, RUNNING)):
        assert held(spec, now) == {"a": (8000, 0, 2)}


def test_h34_the_order_of_init_and_sidecar_decides_the_peak() -> None:
    init_first: Spec = [(INIT, "a", 20480, 0), (SIDECAR, "a", 2048, 0), (APP, "a", 10240, 0)]
    sidecar_first: Spec = [(SIDECAR, "a", 2048, 0), (INIT, "a", 20480, 0), (APP, "a", 10240, 0)]
    assert held(init_first, facts()) == {"a": (20480, 0, 2)}
    assert held(sidecar_first, facts()) == {"a": (22528, 0, 2)}
    assert held(init_first, facts(DONE, RUNNING, RUNNING)) == {"a": (12288, 0, 2)}
    assert held(sidecar_first, facts(RUNNING, DONE, RUNNING)) == {"a": (12288, 0, 2)}


def test_h35_one_reported_init_of_two_does_not_release_the_other() -> None:
    spec: Spec = [(INIT, "a", 8000, 0), (INIT, "a", 9000, 0), (APP, "a", 1000, 0)]
    assert memory(spec, facts(DONE)) == 9000
    assert memory(spec, facts(None, DONE)) == 9000
    assert memory(spec, facts(DONE, phase="Running")) == 9000
    assert memory(spec, facts(DONE, DONE)) == 1000


def test_h35_use_falls_as_each_init_ends() -> None:
    spec: Spec = [(INIT, "a", 9000, 0), (INIT, "a", 8000, 0), (APP, "a", 1000, 0)]
    assert [memory(spec, facts(*states)) for states in ((), (DONE,), (DONE, RUNNING), (DONE, DONE))] == [
        9000, 8000, 8000, 1000,
    ]  # fmt: skip


def test_h36_a_failed_init_holds_until_the_pod_has_failed() -> None:
    assert memory(H16, facts(FAILED, WAITING)) == 20480
    assert held(H16, facts(FAILED, WAITING, phase="Failed")) == {}


def test_h37_a_restarting_sidecar_changes_nothing() -> None:
    spec: Spec = [(SIDECAR, "a", 2000, 0), (APP, "a", 3000, 0)]
    states = (RUNNING, DONE, lifecycle.ContainerFact("waiting", started=True), RUNNING)
    assert [memory(spec, facts(state, RUNNING, phase="Running")) for state in states] == [5000] * 4


def test_h38_each_device_holds_what_its_own_containers_need() -> None:
    spec: Spec = [(INIT, "a", 8000, 0), (APP, "b", 5000, 0)]
    assert held(spec, facts()) == {"a": (8000, 0, 1), "b": (5000, 0, 1)}
    assert held(spec, facts(DONE)) == {"b": (5000, 0, 1)}


def test_a_rebuilt_sandbox_raises_the_use_again() -> None:
    assert memory(H16, facts(DONE, RUNNING, phase="Running")) == 10240
    assert memory(H16, facts(RUNNING, lifecycle.ContainerFact("waiting", started=True), phase="Running")) == 20480


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_h30_h32_a_terminal_pod_holds_nothing(phase: str) -> None:
    assert held(H16, facts(RUNNING, phase=phase)) == {}


def test_h31_a_bound_pod_holds_while_it_is_deleted_and_an_unbound_one_does_not() -> None:
    assert memory(H16, facts(deleting=True)) == 20480
    assert held(H16, facts(deleting=True, bound=False)) == {}
    assert memory(H16, facts(bound=False)) == 20480


def test_rows_that_do_not_align_all_count_together() -> None:
    assert held(H16, facts(DONE, RUNNING), aligned=False) == {"a": (30720, 15, 2)}
    found = lifecycle.peak(shares(H16), aligned=False)
    assert found["NVIDIA", "a"].memory_mib == 30720


def test_memory_cores_and_slots_peak_independently() -> None:
    assert held([(INIT, "a", 100, 60), (APP, "a", 60, 10), (APP, "a", 60, 10)], facts()) == {"a": (120, 60, 2)}


TABLE: list[tuple[Spec, tuple[int, int, int], tuple[int, int, int] | None]] = [
    ([(APP, "a", 100, 10), (APP, "a", 200, 20)], (300, 30, 2), (300, 30, 2)),
    ([(INIT, "a", 100, 10), (INIT, "a", 200, 30)], (200, 30, 1), None),
    ([(INIT, "a", 100, 10), (INIT, "a", 300, 30), (INIT, "a", 200, 20), (APP, "a", 50, 5)], (300, 30, 1), (50, 5, 1)),
    ([(INIT, "a", 999, 99), (APP, "a", 100, 10), (APP, "a", 200, 20)], (999, 99, 2), (300, 30, 2)),
    ([(SIDECAR, "a", 4000, 40), (APP, "a", 4000, 40)], (8000, 80, 2), (8000, 80, 2)),
    ([(SIDECAR, "a", 2000, 10), (INIT, "a", 20000, 60), (APP, "a", 10000, 30)], (22000, 70, 2), (12000, 40, 2)),
    ([(INIT, "a", 20000, 60), (SIDECAR, "a", 2000, 10), (APP, "a", 10000, 30)], (20000, 60, 2), (12000, 40, 2)),
    ([(SIDECAR, "a", 3000, 15), (SIDECAR, "a", 5000, 15), (APP, "a", 1000, 5)], (9000, 35, 3), (9000, 35, 3)),
    ([(INIT, "a", 5000, 50), (SIDECAR, "a", 8000, 80)], (8000, 80, 1), (8000, 80, 1)),
    ([(SIDECAR, "a", 8000, 80), (INIT, "a", 5000, 50)], (13000, 130, 2), (8000, 80, 1)),
    (
        [(INIT, "a", 5000, 50), (SIDECAR, "a", 3000, 30), (INIT, "a", 4000, 40), (APP, "a", 1000, 10)],
        (7000, 70, 2),
        (4000, 40, 2),
    ),
]


@pytest.mark.parametrize("spec, at_peak, steady", TABLE)
def test_peak_and_steady_use(spec: Spec, at_peak: tuple[int, int, int], steady: tuple[int, int, int] | None) -> None:
    over = [DONE if kind is INIT else RUNNING for kind, *_ in spec]
    assert held(spec, facts()) == {"a": at_peak}
    assert held(spec, facts(*over)) == ({"a": steady} if steady else {})


def mig_share(index: int, kind: devices.ContainerKind, start: int, memory_mib: int = 4864) -> devices.Share:
    use = devices.MigUse("1g.5gb", devices.MigPlacement(start, 1))
    return devices.Share(index, f"c{index}", kind, "NVIDIA", "a", memory_mib, 15, use)


def test_instances_of_one_container_add_up_before_the_peak() -> None:
    spec: Spec = [(INIT, None, 0, 0), (APP, None, 0, 0)]
    given_shares = [mig_share(0, INIT, 0), mig_share(0, INIT, 1), mig_share(1, APP, 1)]
    before = lifecycle.held(given_shares, containers(spec), facts())["NVIDIA", "a"]
    after = lifecycle.held(given_shares, containers(spec), facts(DONE))["NVIDIA", "a"]
    assert (before.slots, before.memory_mib, len(before.mig)) == (2, 9728, 2)
    assert (after.slots, after.memory_mib, after.mig) == (1, 4864, (mig_share(1, APP, 1).mig,))


# Law 7: an oracle that plays the pod's life step by step instead of walking the formula.


def stages(spec: Spec, over: int) -> list[list[int]]:
    """Which containers run together, moment by moment, when the first `over` ordinary inits are behind us."""
    moments: list[list[int]] = []
    sidecars: list[int] = []
    inits = 0
    for index, (kind, *_) in enumerate(spec):
        if kind is SIDECAR:
            sidecars.append(index)
        elif kind is INIT:
            inits += 1
            if inits > over:
                moments.append([*sidecars, index])
    moments.append([*sidecars, *(i for i, (kind, *_) in enumerate(spec) if kind is APP)])
    return moments


def oracle(spec: Spec, over: int) -> dict[str, tuple[int, int, int]]:
    found: dict[str, tuple[int, int, int]] = {}
    for uuid in {uuid for _, uuid, *_ in spec if uuid}:
        sums = [[(spec[i][2], spec[i][3], 1) for i in moment if spec[i][1] == uuid] for moment in stages(spec, over)]
        found[uuid] = (
            max(sum(c[0] for c in moment) for moment in sums),
            max(sum(c[1] for c in moment) for moment in sums),
            max(sum(c[2] for c in moment) for moment in sums),
        )
    return {uuid: use for uuid, use in found.items() if any(use)}


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    early = draw(st.lists(st.sampled_from((INIT, SIDECAR)), max_size=5))
    kinds = [*early, *[APP] * draw(st.integers(1, 3))]
    device = st.none() | st.sampled_from(("a", "b"))
    return [(kind, draw(device), draw(st.integers(0, 9)), draw(st.integers(0, 9))) for kind in kinds]


STATES = st.sampled_from((None, WAITING, RUNNING, DONE, FAILED))


@given(spec=specs(), data=st.data())
def test_law_7_held_is_the_greatest_sum_over_the_stages_still_to_come(spec: Spec, data: st.DataObject) -> None:
    now = [data.draw(STATES) for _ in spec]
    inits = [state for state, (kind, *_) in zip(now, spec, strict=True) if kind is INIT]
    over = next((i for i, state in enumerate(inits) if state != DONE), len(inits))
    assert held(spec, facts(*now)) == oracle(spec, over)


@given(spec=specs(), data=st.data())
def test_law_7_folding_statuses_one_by_one_is_computing_from_the_last(spec: Spec, data: st.DataObject) -> None:
    history = [facts(*(data.draw(STATES) for _ in spec)) for _ in range(data.draw(st.integers(1, 4)))]
    folded: Mapping[str, Any] = {}
    for seen in history:
        folded = held(spec, seen)
    assert folded == held(spec, history[-1])
    top = {key[1]: use for key, use in lifecycle.peak(shares(spec)).items()}
    assert all(use[0] <= top[uuid].memory_mib and use[2] <= top[uuid].slots for uuid, use in folded.items())


@given(specs())
def test_law_7_a_pod_without_any_status_holds_its_peak(spec: Spec) -> None:
    assert lifecycle.held(shares(spec), containers(spec), facts()) == lifecycle.peak(shares(spec), containers(spec))


# Raw pods.


def test_facts_are_read_from_a_raw_pod() -> None:
    pod = {
        "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": "n1"},
        "status": {
            "phase": "Running",
            "initContainerStatuses": [
                {"name": "i0", "state": {"terminated": {"exitCode": 0}}},
                {"name": "i1", "state": {"running": {}}, "restartCount": 1},
            ],
            "containerStatuses": [
                {"name": "c0", "state": {"waiting": {}}, "lastState": {"terminated": {"exitCode": 1}}},
                {"name": "c1", "state": {}},
                {"name": "c2"},
            ],
        },
    }
    found = lifecycle.facts_of(pod)
    assert found == lifecycle.PodFacts(
        "Running",
        deleting=True,
        bound=True,
        containers={
            "i0": DONE, "i1": RUNNING, "c1": WAITING, "c2": WAITING,
            "c0": lifecycle.ContainerFact("waiting", started=True),
        },
    )  # fmt: skip
    assert found.started


def test_a_pod_without_status_has_no_facts() -> None:
    assert lifecycle.facts_of({}) == lifecycle.PodFacts("")
    assert not lifecycle.facts_of({"status": {"phase": None}}).started
