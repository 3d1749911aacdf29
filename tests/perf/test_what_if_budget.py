"""What explaining and simulating cost at 1,000 nodes × 8 devices with 5,000 pods: `make bench`.

The page of a waiting pod must stay under 300 ms with all that it asks. Every question is a new one: nothing is
remembered from the one before.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable

import pytest

from hami_platform.domain import explain, simulate
from hami_platform.domain.devices import Held
from hami_platform.domain.nodes import NodeState
from hami_platform.domain.quota import Limits
from hami_platform.domain.requests import PodRequest
from hami_platform.domain.view import View
from hami_platform.domain.what_if import Ask
from tests.builders import ask, pod, uniform_node
from tests.domain.views import NAMESPACE, decide, queue, view_of, waiting

pytestmark = pytest.mark.perf

BUDGET_S = 0.3
NODES, DEVICES, HELD = 1000, 8, 5


@pytest.fixture(scope="module")
def view() -> View:
    draw = random.Random(7)

    def used(k: int) -> Held:
        return Held(1, draw.choice((30000, 36000, 39000)), draw.choice((60, 80, 100))) if k < HELD else Held()

    nodes: list[NodeState] = [
        uniform_node(
            f"n{n}", DEVICES, memory_mib=40960, used=[used(k) for k in range(DEVICES)], cordoned=n % 2 == 0
        )
        for n in range(NODES)
    ]  # fmt: skip
    made = view_of(*nodes, limits=Limits(memory_mib=400_000), used_mib=1000)
    return queue(made, *(waiting(100_000 + n, pod(ask(memory_mib=41000 + n))) for n in range(100)))


QUESTIONS: dict[str, PodRequest] = {
    "fits": pod(ask(memory_mib=20000)),
    "no memory": pod(ask(4, memory_mib=40000)),
    "no cores": pod(ask(4, memory_mib=1000, core_percent=50)),
    "never": pod(ask(memory_mib=99999)),
    "quota": pod(ask(11, memory_mib=37000, core_percent=30)),
    "two containers": pod(ask(2, memory_mib=20001), ask(4, memory_mib=20002)),
    "model": pod(ask(memory_mib=20001), use_models=("H100",)),
    "numa and topology": pod(ask(5, memory_mib=39000), device_policy="topology-aware", numa_bind=True),
    "uuid": pod(ask(4, memory_mib=20002), nouse_uuids=("GPU-n1-1",)),
}


def took(action: Callable[[], object]) -> float:
    gc.collect()
    began = time.process_time()
    action()
    return time.process_time() - began


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_explanation_with_its_fixes_stays_within_a_page(view: View, question: str) -> None:
    asked = Ask(NAMESPACE, QUESTIONS[question], priority=1)
    spent_s = took(lambda: explain.explain(view, asked, decide))
    found = explain.explain(view, asked, decide)
    print(f"explain {question}: {spent_s * 1000:.0f} ms CPU, {found.verdict.value}, {len(found.fixes)} fixes")  # noqa: T201
    assert spent_s < BUDGET_S


def test_a_drain_is_simulated_within_a_page(view: View) -> None:
    spent_s = took(lambda: simulate.effect(view, simulate.node_drain(view, node="n1"), decide))
    print(f"simulate a drain with 100 waiting pods of 100 kinds: {spent_s * 1000:.0f} ms CPU")  # noqa: T201
    assert spent_s < 10 * BUDGET_S
