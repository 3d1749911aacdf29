"""Laws of Allocate under any order of events, with a record on a real disk.

The ledger lets one pod at a time wait on the node; kubelet calls once for each container, in order; the agent may be
killed between any two calls; images are pulled for any time.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from deviceplugin import refusals
from tests.deviceplugin.builders import GPU_A, GPU_B, pod, row, running
from tests.deviceplugin.test_allocate import Bench

CONTAINERS = st.lists(st.sampled_from([(), (GPU_A,), (GPU_B,), (GPU_A, GPU_B)]), min_size=1, max_size=3).filter(any)


class Node(RuleBasedStateMachine):
    """Model: of the waiting pod, the cards its containers are still to get, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="dp"))
        self.bench = Bench(self.folder)
        self.numbers = iter(range(1000))
        self.waiting: str | None = None
        self.left: list[tuple[str, ...]] = []
        self.pulling: list[str] = []
        self.ran: list[str] = []

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @precondition(lambda self: self.waiting is None)
    @rule(containers=CONTAINERS)
    def bind(self, containers: list[tuple[str, ...]]) -> None:
        """The scheduler binds the next pod."""
        self.waiting = f"p{next(self.numbers)}"
        self.left = [cards for cards in containers if cards]
        rows = "".join(row(*[(uuid, 1000, 10) for uuid in cards]) for cards in containers)
        self.bench.cluster.put(pod(self.waiting, rows, containers=[f"c{n}" for n in range(len(containers))]))

    @precondition(lambda self: self.waiting is not None)
    @rule()
    def allocate(self) -> None:
        """kubelet asks for the next container: it gets exactly that container's cards."""
        cards = self.left.pop(0)
        (grant,) = self.bench.granted(len(cards))
        assert grant.envs["NVIDIA_VISIBLE_DEVICES"] == ",".join(cards)
        if not self.left:
            self.pulling.append(self.waiting or "")
            self.waiting = None

    @precondition(lambda self: self.waiting is not None)
    @rule(count=st.integers(1, 4))
    def ask_wrongly(self, count: int) -> None:
        """A call for another number of devices gets nothing, and the pod fails."""
        if count == len(self.left[0]):
            return
        assert self.bench.refused(count).reason is refusals.Reason.COUNT_MISMATCH
        self.bench.cluster.pod(self.waiting or "")["status"] = {"phase": "Failed"}
        self.waiting = None

    @precondition(lambda self: self.waiting is None)
    @rule()
    def call_without_a_pod(self) -> None:
        assert self.bench.refused(1).reason is refusals.Reason.NO_POD

    @precondition(lambda self: self.pulling)
    @rule()
    def start(self) -> None:
        """An image has arrived."""
        name = self.pulling.pop(0)
        self.bench.cluster.pod(name)["status"] = {"phase": "Running", **running("c0")}
        self.ran.append(name)

    @precondition(lambda self: self.pulling or self.ran)
    @rule()
    def delete(self) -> None:
        """Any pod that has its devices goes."""
        self.bench.cluster.remove_pod((self.ran or self.pulling).pop())

    @rule()
    def kill(self) -> None:
        """The agent starts anew from its disk."""
        self.bench.restart()

    @invariant()
    def every_container_was_served_once(self) -> None:
        for entry in self.bench.record.pods.values():
            names = [one.container for one in entry.given]
            assert len(names) == len(set(names))

    @invariant()
    def who_has_its_devices_is_on_record(self) -> None:
        assert {f"uid-{name}" for name in (*self.pulling, *self.ran)} <= set(self.bench.record.pods)


Node.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
test_every_container_gets_its_own_row_exactly_once = Node.TestCase
