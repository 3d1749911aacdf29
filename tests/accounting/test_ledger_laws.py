"""Laws 4 and 5 on the real services and a real database, under any interleaving that Hypothesis finds.

After every step: no device and no quota is over-committed, nothing is negative, and the folded View equals a fresh
load. A crash is an exception between two statements of a service.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from django.core.management import call_command
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from accounting import guard, ledger, live_view
from accounting.models import Journal, Pod, Refusal
from accounting.services import bindings, leases, nodes, observe, wake
from hami_platform.domain.rows import HOLDS_BY_STATUS
from tests import builders
from tests.accounting import flow, kube_objects

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.ledger]

LIMIT_MIB = 30000
NODES = ("n1", "n2")
STATUSES = st.sampled_from([kube_objects.running(), kube_objects.terminated(0), kube_objects.terminated(1)])


class Crash(Exception):
    """The process died here."""


@contextlib.contextmanager
def crash_at_journal(when: bool) -> Iterator[None]:
    """The journal, the last statement before the commit, is never written: the process died before."""
    if not when:
        yield
        return
    original = Journal.objects.bulk_create

    def die(*_: Any, **__: Any) -> None:
        raise Crash

    Journal.objects.bulk_create = die  # type: ignore[method-assign]
    try:
        with contextlib.suppress(Crash):
            yield
    finally:
        Journal.objects.bulk_create = original  # type: ignore[method-assign]


class Cluster(RuleBasedStateMachine):
    """The API server's pods, and what happens to them."""

    def __init__(self) -> None:
        super().__init__()
        self.pods: dict[str, dict[str, Any]] = {}
        self.names = itertools.count()
        self.freed = wake.Freed()
        self.reinflated = False

    @initialize()
    def two_nodes_and_a_quota(self) -> None:
        """Start from an empty database."""
        flow.cluster(*(kube_objects.node(n, builders.device(f"GPU-{n}", slots=3)) for n in NODES))
        flow.limit(memory_mib=LIMIT_MIB)

    def _some(self, data: st.DataObject) -> dict[str, Any] | None:
        return self.pods[data.draw(st.sampled_from(sorted(self.pods)))] if self.pods else None

    @rule(
        mem=st.sampled_from([1000, 6000, 12000, 24576]), init=st.sampled_from([0, 15000]), dry=st.booleans(),
        crash=st.booleans(),
    )  # fmt: skip
    def admit(self, mem: int, init: int, dry: bool, crash: bool) -> None:
        """A pod is created; a crash or a denial leaves no pod."""
        inits = [kube_objects.container("load", mem=init)] if init else []
        pod = kube_objects.pod(f"p{next(self.names)}", kube_objects.container(mem=mem), inits=inits)
        granted = False
        with crash_at_journal(crash):
            granted = flow.admit(pod, dry_run=dry).granted
        if granted and not dry:
            self.pods[pod["metadata"]["name"]] = pod

    @rule(data=st.data(), crash=st.booleans(), candidates=st.sampled_from([("n1",), ("n2",), NODES]))
    def filter(self, data: st.DataObject, crash: bool, candidates: tuple[str, ...]) -> None:
        """kube-scheduler asks, also about pods that are placed already."""
        pod = self._some(data)
        if pod is not None and not pod["spec"].get("nodeName"):
            with crash_at_journal(crash):
                flow.filter_(pod, *candidates)

    @rule(data=st.data(), outcome=st.sampled_from(["bound", "conflict", "gone", "dies", "dies after success"]))
    def bind(self, data: st.DataObject, outcome: str) -> None:
        """kube-scheduler binds where the ledger reserved."""
        pod = self._some(data)
        row = live_view.live().refresh().pod(pod["metadata"]["uid"]) if pod else None
        if pod is None or row is None or not (row.node or row.expired_node) or pod["spec"].get("nodeName"):
            return
        plan = flow.bind(pod, row.node or row.expired_node)
        if not isinstance(plan, bindings.BindingPlan):
            return
        if outcome in ("bound", "dies after success"):
            pod["spec"]["nodeName"] = plan.node
            pod["metadata"]["annotations"] |= plan.annotations
        if outcome == "bound":
            bindings.binding_bound(uid=plan.uid, node=plan.node)
        elif outcome == "conflict":
            bindings.binding_returned(uid=plan.uid, attempt=plan.attempt)
        elif outcome == "gone":
            bindings.binding_ended(uid=plan.uid)
            del self.pods[plan.name]

    @rule(data=st.data(), crash=st.booleans())
    def show(self, data: st.DataObject, crash: bool) -> None:
        """A watch event, perhaps a repeated one, perhaps lost half-way."""
        pod = self._some(data)
        if pod is not None:
            with crash_at_journal(crash):
                flow.show(pod)

    @rule(data=st.data(), status=STATUSES, phase=st.sampled_from(["Pending", "Running", "Succeeded"]))
    def change_status(self, data: st.DataObject, status: dict[str, Any], phase: str) -> None:
        """The kubelet reports. An init that runs again raises what is held: then Σ ≤ capacity may break, truthfully."""
        pod = self._some(data)
        if pod is None or not pod["spec"].get("nodeName"):
            return
        before = pod["status"].get("initContainerStatuses")
        inits = pod["spec"]["initContainers"]
        pod["status"] = {"phase": phase, "initContainerStatuses": [{"name": one["name"], **status} for one in inits]}
        pod["metadata"]["resourceVersion"] = str(int(pod["metadata"]["resourceVersion"]) + 100000)
        self.reinflated = self.reinflated or bool(before and before != pod["status"]["initContainerStatuses"])
        flow.show(pod)

    @rule(data=st.data(), announced=st.booleans())
    def delete(self, data: st.DataObject, announced: bool) -> None:
        """The object goes; the event may be lost."""
        pod = self._some(data)
        if pod is not None:
            del self.pods[pod["metadata"]["name"]]
            if announced:
                observe.pods_gone([pod["metadata"]["uid"]])

    @rule()
    def relist(self) -> None:
        """A full list makes up for everything lost."""
        flow.show(*self.pods.values())
        view = live_view.live().refresh()
        uids = {pod["metadata"]["uid"] for pod in self.pods.values()}
        observe.pods_gone([row.uid for row in view.pods.values() if row.uid and row.uid not in uids])

    @rule()
    def leases_run_out(self) -> None:
        """Time passes."""
        with guard.writing():
            Pod.objects.exclude(lease_until=None).update(lease_until=ledger.database_time())
        leases.leases_tick()

    @rule()
    def wake(self) -> None:
        """The wake tick runs; it must never write more than claims."""
        wake.wake_plan(self.freed)

    @rule(name=st.sampled_from(NODES))
    def a_node_goes_and_returns(self, name: str) -> None:
        """Its devices leave and come back; pods that exist count again."""
        nodes.nodes_gone([name])
        flow.observe_nodes(kube_objects.node(name, builders.device(f"GPU-{name}", slots=3)))

    @invariant()
    def nothing_is_over_committed(self) -> None:
        """Σ held ≤ capacity per device and ≤ quota per scope; never negative."""
        view = live_view.live().refresh()
        for state in view.states.values():
            for one in state.devices:
                assert one.held.memory_mib >= 0
                assert one.held.slots >= 0
                if not self.reinflated:
                    assert one.free_memory_mib >= 0, one
                    assert one.free_slots >= 0, one
        used = flow.charged_mib()
        assert used >= 0
        if not self.reinflated:
            assert used <= LIMIT_MIB

    @invariant()
    def the_view_is_true(self) -> None:
        """Law 4."""
        flow.view_is_true()

    def teardown(self) -> None:
        """Nothing leaks: when every pod is gone and leases have run out, nothing is held."""
        if not live_view.live().refresh().ready:
            return
        self.pods.clear()
        self.relist()
        self.leases_run_out()
        view = live_view.live().refresh()
        assert not [row for row in view.pods.values() if row.state in HOLDS_BY_STATUS]
        assert flow.charged_mib() == 0
        empty_database()


def empty_database() -> None:
    """Each example starts clean."""
    call_command("flush", verbosity=0, interactive=False)
    Refusal.objects.all().delete()
    ledger.forget_cluster()
    live_view.forget()


def check(examples: int, steps: int) -> None:
    """Run the machine."""
    run_state_machine_as_test(
        Cluster, settings=hypothesis.settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    )


def test_laws_hold_under_any_interleaving() -> None:
    check(examples=15, steps=30)


@pytest.mark.soak
def test_laws_hold_for_long() -> None:
    check(examples=1000, steps=60)
