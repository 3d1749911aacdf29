"""Law: whatever crashes when, after a sweep a card has exactly the instances of living pods that were given theirs."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from deviceplugin import by_checkpoint, checkpoint, grants, inventory, mig_made, restore
from hami_platform.domain import devices
from tests.deviceplugin.builders import GPU_A, card, pod, typed

STARTS = range(3)
MOMENTS = ("never", "before it is made", "when it is made", "when it is recorded")


class Killed(Exception):
    """The agent is gone from this moment on."""


def partition(start: int) -> inventory.Partition:
    instance = inventory.MigInstance(f"MIG-{start}", start, 0)
    return inventory.Partition(instance, "1g.5gb", devices.MigPlacement(start, 1))


class Hardware:
    """One card's instances, by start. `busy` ones cannot be destroyed. `dies`: the moment at which the agent does."""

    def __init__(self) -> None:
        self.there: set[int] = set()
        self.busy: set[int] = set()
        self.dies = ""

    def scan(self) -> tuple[inventory.Card, ...]:
        found = tuple(
            inventory.Partition(
                inventory.MigInstance(f"MIG-{start}", start, 0), "1g.5gb", devices.MigPlacement(start, 1)
            )
            for start in sorted(self.there)
        )
        return (card(GPU_A, mode="mig", partitions=found),)

    def realise(self, uuid: str, use: devices.MigUse) -> inventory.MigInstance:
        if self.dies == MOMENTS[1]:
            raise Killed
        self.there.add(use.placement.start)
        if self.dies == MOMENTS[2]:
            raise Killed
        return partition(use.placement.start).instance

    def dissolve(self, uuid: str, use: devices.MigUse) -> None:
        if use.placement.start in self.busy:
            raise inventory.InventoryError("in use")
        self.there.discard(use.placement.start)

    def cut(self, uuid: str) -> None:
        raise NotImplementedError


class Instances(RuleBasedStateMachine):
    """Pods come, are given an instance each or see the agent die over it, end, vanish, and linger on the hardware."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.hardware = Hardware()
        self.pods: dict[int, dict[str, Any]] = {}
        self.given: set[int] = set()
        self.restart()

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def restart(self) -> None:
        """Only the disk remains."""
        self.hardware.dies = ""
        self.record = checkpoint.Checkpoint(self.folder / "agent.json")
        self.cards = mig_made.Recorded(self.hardware, self.record)

    def sweep(self) -> None:
        by_checkpoint.sweep(self.record, self.cards, [typed(one) for one in self.pods.values()])

    @rule(start=st.sampled_from(STARTS), dies=st.sampled_from(MOMENTS))
    def allocate(self, start: int, dies: str) -> None:
        """A pod whose reservation no living pod has gets its instance, unless the agent dies over it."""
        self.sweep()
        if start in self.pods:
            return
        if start in self.hardware.busy:
            with pytest.raises(inventory.InventoryError, match="still held"):
                self.cards.realise(GPU_A, devices.MigUse("1g.5gb", devices.MigPlacement(start, 1)))
            return
        self.pods[start] = pod(f"p{start}", metadata={"uid": f"uid-{start}"})
        use = devices.MigUse("1g.5gb", devices.MigPlacement(start, 1))
        self.hardware.dies = dies
        try:
            made = self.cards.realise(GPU_A, use)
            given = checkpoint.Given("main", (GPU_A,), (mig_made.placed(GPU_A, use),), instances=(made.uuid,))
            self.record.add(f"uid-{start}", "nlp", f"p{start}", [given])
            self.given.add(start)
            if dies == MOMENTS[3]:
                raise Killed
        except Killed:
            self.restart()
        self.hardware.dies = ""

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), gone=st.booleans(), lingers=st.booleans())
    def end(self, data: st.DataObject, gone: bool, lingers: bool) -> None:
        """A pod ends; its object may stay, and its processes may for a while."""
        start = data.draw(st.sampled_from(sorted(self.pods)))
        if lingers and start in self.given:
            self.hardware.busy.add(start)
        self.given.discard(start)
        if gone:
            del self.pods[start]
        else:
            self.pods[start]["status"] = {"phase": "Failed"}

    @rule()
    def settle(self) -> None:
        """What lingered is over, and objects of ended pods are deleted."""
        self.hardware.busy.clear()
        self.pods = {start: one for start, one in self.pods.items() if one["status"]["phase"] != "Failed"}

    @rule(lost=st.booleans())
    def restore(self, lost: bool) -> None:
        """A reboot takes every instance; those of living pods are made again."""
        self.hardware.busy.clear()
        self.hardware.there = set() if lost else self.hardware.there
        restorer = restore.Restorer(self.record, self.hardware, grants.Enforcement(), shared=False)
        restorer.for_pods([typed(one) for one in self.pods.values()])

    @rule()
    def crash(self) -> None:
        self.restart()

    @invariant()
    def only_living_pods_have_instances(self) -> None:
        self.sweep()
        assert self.given <= self.hardware.there
        assert self.hardware.there <= self.given | self.hardware.busy
        assert self.record.begun <= {(GPU_A, "1g.5gb", start, 1) for start in self.hardware.busy}


Instances.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
test_instances_are_those_of_living_pods = Instances.TestCase
