"""Folding rows one after another gives the View that all of them give at once, whatever moves where in between."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hami_platform.domain.devices import ContainerKind, Device, Held, Share
from hami_platform.domain.lifecycle import ContainerFact, PodFacts
from hami_platform.domain.quota import Amounts, Charge
from hami_platform.domain.requests import ContainerRequest, DeviceRequest, PodRequest
from hami_platform.domain.rows import Changes, ClockRow, HoldRow, LockRow, NodeRow, PodRow
from hami_platform.domain.view import View

NODES = ("n1", "n2")
ASK = DeviceRequest("NVIDIA", 1, 1000, None, 10)
REQUEST = PodRequest(
    (ContainerRequest("init", ContainerKind.INIT, (ASK,)), ContainerRequest("main", ContainerKind.APP, (ASK,)))
)
CLAIM = (Charge("NVIDIA", "", Amounts(1, 1000, 10), 1000),)
DONE = PodFacts("Running", bound=True, containers={"init": ContainerFact("terminated", 0, True)})
FACTS = st.sampled_from([None, PodFacts("Pending", bound=True), DONE])


def shares(node: str, init_mib: int, main_mib: int) -> tuple[Share, ...]:
    return (
        Share(0, "init", ContainerKind.INIT, "NVIDIA", f"GPU-{node}", init_mib, 10, None, "A10"),
        Share(1, "main", ContainerKind.APP, "NVIDIA", f"GPU-{node}", main_mib, 10, None, "A10"),
    )


@st.composite
def pods(draw: st.DrawFn) -> PodRow:
    number = draw(st.integers(1, 3))
    state = draw(st.sampled_from(["waiting", "claimed", "reserved", "binding", "bound", "running", "releasing"]))
    node = draw(st.sampled_from(NODES)) if state not in ("waiting", "claimed") else ""
    given_ = shares(node, draw(st.sampled_from([500, 3000])), 1000) if node and draw(st.integers(0, 3)) else ()
    return PodRow(
        number, draw(st.sampled_from(["", f"u{number}"])), "c", "nlp", f"p{number}", state, REQUEST, node, given_,
        facts=draw(FACTS), claim_charges=CLAIM, unmanaged=draw(st.booleans()),
    )  # fmt: skip


def nodes() -> st.SearchStrategy[NodeRow]:
    def row(name: str, memory_mib: int, retired: bool, unknown: str) -> NodeRow:
        device = Device(f"GPU-{name}", 0, "NVIDIA", "A10", memory_mib, 100, 10)
        return NodeRow(name, (device,), retired, "1", unknown)

    return st.builds(
        row, st.sampled_from(NODES), st.sampled_from([8000, 9000]), st.booleans(), st.sampled_from(["", "x"])
    )


LOCKS = st.builds(LockRow, st.sampled_from(NODES), st.sampled_from(["u1", "u2"]), st.booleans())
HOLDS = st.builds(
    lambda node, mib, force: HoldRow(node, ("NVIDIA", f"GPU-{node}"), Held(0, mib, 0), force),
    st.sampled_from(NODES), st.sampled_from([0, 700]), st.booleans(),
)  # fmt: skip
STEP = st.fixed_dictionaries(
    {
        "nodes": st.lists(nodes(), max_size=1).map(lambda rows: {row.name: row for row in rows}),
        "pods": st.lists(pods(), max_size=2).map(lambda rows: {row.id: row for row in rows}),
        "locks": st.lists(LOCKS, max_size=1).map(lambda rows: {row.node: row for row in rows}),
        "holds": st.dictionaries(st.integers(1, 2), HOLDS, max_size=1),
    }
)
GONE = st.sets(st.tuples(st.sampled_from(["pods", "locks", "holds"]), st.sampled_from([1, 2, 3, *NODES])), max_size=1)


@given(st.lists(st.tuples(STEP, GONE), max_size=12))
def test_step_by_step_is_all_at_once(steps: list[tuple[dict[str, dict[Any, Any]], set[tuple[str, Any]]]]) -> None:
    view = View()
    rows: dict[str, dict[Any, Any]] = {"nodes": {}, "pods": {}, "locks": {}, "holds": {}}
    for number, (step, gone) in enumerate(steps, start=1):
        changes: dict[str, dict[Any, Any]] = {kind: dict(changed) for kind, changed in step.items()}
        for kind, key in gone:
            changes[kind][key] = None
        for kind, changed in changes.items():
            rows[kind] |= changed
        clock = ClockRow(number, str(number), "i", "i")
        view = view.fold(Changes(clock, **changes))
        there = {kind: {key: row for key, row in known.items() if row is not None} for kind, known in rows.items()}
        fresh = View().fold(Changes(clock, **there))
        for part in View.__dataclass_fields__:
            found, expected = getattr(view, part), getattr(fresh, part)
            assert (dict(found) == dict(expected)) if hasattr(found, "keys") else found == expected, part
