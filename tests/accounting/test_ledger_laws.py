"""Laws 4 and 5 on the real services, the real binder and a real database, under any interleaving that Hypothesis finds.

After every step: no device and no quota is over-committed by us, in the ledger as in the API server; nothing is
negative; what is bound is in the ledger; one pod of a node waits for its devices; and every process's folded View
equals a fresh load. In the end nothing is leaked. Processes die between any two statements and calls, and act in each
other's pauses. What the steps and promises are made of: `law_machine`, `law_equipment`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from accounting.models import Hold, Pod
from accounting.services import errors as service_errors
from accounting.services import holds, observe, releases
from hami_platform.kube import errors
from tests.accounting import flow, kube_objects, law_equipment, law_machine
from tests.accounting.law_equipment import PODS, Object

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.ledger]

NODES = tuple(law_machine.NODES)
WHO = st.integers(0, 1)
DIES = st.one_of(st.none(), st.none(), st.integers(1, 25))
"""After how many statements and calls the process dies."""
YIELDS = st.one_of(st.none(), st.integers(0, 5))
"""In which pause another process acts."""
ACTS = st.sampled_from(["filter", "filter", "bind", "delete", "pods", "due", "limit", "show", "wake"])
WHICH = st.integers(0, 11)
"""Which of the pods there are, counted round."""
MEANWHILE = st.tuples(ACTS, WHICH, st.integers(0, 2))
"""What the other process does, to which pod, and how."""
BINDINGS = st.sampled_from(["ok", "ok", "ok", "lost", "lost and down", "late", "late and down", "never", "refused"])
"""What becomes of a Binding: see `law_equipment.Network`."""
Meanwhile = tuple[str, int, int]
WHY: dict[str, Any] = {"reason": "law", "actor": "ada"}


class Ledger(RuleBasedStateMachine):
    """What may happen to a cluster. Statuses only move on in a strict example; in others init containers run again,
    pods come past the webhook and quotas only warn, so that devices and quotas may be over."""

    def __init__(self) -> None:
        super().__init__()
        self.world = law_machine.Cluster()
        self.strict = True

    @initialize(strict=st.sampled_from([True, True, False]))
    def begin(self, strict: bool) -> None:
        self.strict = strict

    def _some(self, which: int) -> Object | None:
        found = self.world.pods()
        return found[sorted(found)[which % len(found)]] if found else None

    def _meanwhile(self, who: int, meanwhile: Meanwhile) -> Callable[[], object]:
        """What another process or person does in a pause."""
        world, other = self.world, 1 - who
        what, which, how = meanwhile

        def act() -> None:
            pod = self._some(which)
            if what in ("filter", "bind", "show", "delete") and pod is None:
                return
            if what == "filter" and pod is not None:
                world.filter(pod, NODES)
            elif what == "bind" and pod is not None:
                world.bind(pod, NODES[how % 2], other)
            elif what == "show" and pod is not None:
                world.show(pod)
            elif what == "delete" and pod is not None:
                self._delete(pod, grace=False)
            elif what == "due":
                law_machine.run_out()
            elif what == "limit":
                self._limit((20000, 40000, None)[how])
            elif what == "wake":
                world.wake(other)
            else:
                world.tick("pods")

        return act

    # -- the scheduler's way ----------------------------------------------------------------------------------------

    @rule(
        who=WHO, mem=st.sampled_from([1000, 6000, 12000, 16384, None]), init=st.sampled_from([0, 0, 15000]),
        sidecar=st.booleans(), fate=st.sampled_from(["made", "made", "made", "dry run", "denied later", "nameless"]),
        dies=DIES,
    )  # fmt: skip
    def create(self, who: int, mem: int | None, init: int, sidecar: bool, fate: str, dies: int | None) -> None:
        """A pod is created, or only its claim is: a later admission denies the pod."""
        inits = [kube_objects.container("load", mem=init)] if init else []
        inits += [kube_objects.container("side", mem=500, sidecar=True)] if sidecar else []
        name = f"p{next(self.world.numbers)}"
        body = kube_objects.pod("" if fate == "nameless" else name, kube_objects.container(mem=mem), inits=inits)
        granted: list[bool] = []
        alive = self.world.run(
            who, lambda: granted.append(self.world.admit(body, dry_run=fate == "dry run").granted), dies_in=dies
        )
        body["metadata"]["name"] = name
        if alive and granted == [True] and fate in ("made", "nameless"):
            self.world.made(body)

    @rule(
        which=WHICH, who=WHO, candidates=st.sampled_from([("n1",), ("n2",), NODES, NODES]), dies=DIES,
        yields=YIELDS, meanwhile=MEANWHILE,
    )  # fmt: skip
    def filter(
        self, which: int, who: int, candidates: tuple[str, ...], dies: int | None, yields: int | None,
        meanwhile: Meanwhile,
    ) -> None:  # fmt: skip
        """kube-scheduler asks; it knows the pod as unbound."""
        pod = self._some(which)
        if pod is not None and not pod["spec"].get("nodeName"):
            self.world.run(
                who, lambda: self.world.filter(pod, candidates), dies_in=dies, yields_in=yields,
                meanwhile=self._meanwhile(who, meanwhile),
            )  # fmt: skip

    @rule(
        which=WHICH, who=WHO, dies=DIES, yields=YIELDS, meanwhile=MEANWHILE, wrong=st.integers(0, 5),
        node=st.sampled_from(NODES), outcome=BINDINGS,
    )  # fmt: skip
    def bind(
        self, which: int, who: int, dies: int | None, yields: int | None, meanwhile: Meanwhile, wrong: int, node: str,
        outcome: str,
    ) -> None:  # fmt: skip
        """kube-scheduler binds, mostly where /filter said."""
        pod = self._some(which)
        if pod is None:
            return
        row = Pod.objects.filter(uid=pod["metadata"]["uid"]).first()
        planned = (row.node or row.expired_node) if row is not None and wrong else node
        self.world.network.binding = outcome
        self.world.run(
            who, lambda: self.world.bind(pod, planned or node, who), dies_in=dies, yields_in=yields,
            meanwhile=self._meanwhile(who, meanwhile),
        )  # fmt: skip

    @rule()
    def a_late_binding_arrives(self) -> None:
        """What timed out is carried out after all, where its preconditions still hold."""
        if self.world.network.late:
            with contextlib.suppress(errors.KubeError):
                self.world.api.answer(self.world.network.late.pop(0))

    # -- what the platform sees -------------------------------------------------------------------------------------

    @rule(which=WHICH, old=st.integers(0, 2), who=WHO, dies=DIES, yields=YIELDS, meanwhile=MEANWHILE)
    def show(self, which: int, old: int, who: int, dies: int | None, yields: int | None, meanwhile: Meanwhile) -> None:
        """A watch event: of now, repeated, or of an older version of the pod, also of one that is gone."""
        self.world.note()
        if self.world.events:
            versions = list(self.world.events.values())[which % len(self.world.events)]
            pod = versions[-3:][old % len(versions[-3:])]
            uid = pod["metadata"]["uid"]
            gone = all(one["metadata"]["uid"] != uid for one in self.world.pods().values())
            act = (lambda: observe.pods_gone([uid])) if gone else (lambda: self.world.show(pod))
            self.world.run(who, act, dies_in=dies, yields_in=yields, meanwhile=self._meanwhile(who, meanwhile))

    @rule()
    def a_cache_falls_behind(self) -> None:
        """Some API server's list of pods stays as it is now."""
        self.world.network.old_lists.append(
            self.world.api.answer(law_equipment.request("GET", "/api/v1/pods", (), None, ""))
        )

    @rule(
        who=WHO, what=st.sampled_from(["pods", "pods", "nodes", "locks"]), dies=DIES, yields=YIELDS,
        meanwhile=MEANWHILE, stale=st.one_of(st.none(), st.integers(0, 5)),
    )  # fmt: skip
    def tick(
        self, who: int, what: str, dies: int | None, yields: int | None, meanwhile: Meanwhile,
        stale: int | None,
    ) -> None:  # fmt: skip
        """A periodic task; its list of pods may be an old one."""
        self.world.network.stale = stale
        with law_machine.settled_at_once():
            self.world.run(
                who, lambda: self.world.tick(what), dies_in=dies, yields_in=yields,
                meanwhile=self._meanwhile(who, meanwhile),
            )  # fmt: skip

    @rule(who=WHO, dies=DIES)
    def time_passes(self, who: int, dies: int | None) -> None:
        """Every lease runs out."""
        self.world.run(who, law_machine.run_out, dies_in=dies)

    @rule(which=WHICH, who=WHO, dies=DIES, yields=YIELDS, meanwhile=MEANWHILE)
    def wake(self, which: int, who: int, dies: int | None, yields: int | None, meanwhile: Meanwhile) -> None:
        """The wake tick."""
        self.world.run(
            who, lambda: self.world.wake(who), dies_in=dies, yields_in=yields,
            meanwhile=self._meanwhile(who, meanwhile),
        )  # fmt: skip

    # -- kubelets and users -----------------------------------------------------------------------------------------

    @rule(which=WHICH, seen=st.booleans(), to=st.sampled_from(["next", "next", "next", "Succeeded", "Failed", "again"]))
    def kubelet_reports(self, which: int, seen: bool, to: str) -> None:
        """Its init container runs, ends, its app runs, all ends; or the sandbox is rebuilt and inits run again."""
        pod = self._some(which)
        if pod is None or not pod["spec"].get("nodeName") or pod["status"].get("phase") in ("Succeeded", "Failed"):
            return
        status = _status(pod, to if to != "again" or not self.strict else "next")
        self.world.api.merge(f"{PODS}/{pod['metadata']['name']}/status", {"status": status})
        if seen:
            self.world.run(0, lambda: self.world.show(*self.world.pods().values()))

    @rule(which=WHICH, grace=st.booleans(), told=st.booleans())
    def delete(self, which: int, grace: bool, told: bool) -> None:
        """The pod is deleted, at once or by and by; the event may be lost."""
        pod = self._some(which)
        if pod is not None:
            self._delete(pod, grace=grace)
            gone = pod["metadata"]["name"] not in self.world.pods()
            if told and gone:
                self.world.run(0, lambda: observe.pods_gone([pod["metadata"]["uid"]]))

    def _delete(self, pod: Object, *, grace: bool) -> None:
        with contextlib.suppress(errors.NotFound):
            self.world.api.call("DELETE", f"{PODS}/{pod['metadata']['name']}?gracePeriodSeconds={600 * grace}")

    @rule(which=WHICH, node=st.sampled_from(NODES), stated=st.booleans())
    def bypass(self, which: int, node: str, stated: bool) -> None:
        """Another scheduler binds a pod, without any allocation or with one of its own."""
        pod = self._some(which)
        if self.strict or pod is None or pod["spec"].get("nodeName"):
            return
        notes = {"hami.io/vgpu-devices-allocated": f"GPU-{node},NVIDIA,9000,10:;"} if stated else {}
        body = {
            "metadata": {"name": pod["metadata"]["name"], "annotations": notes},
            "target": {"kind": "Node", "name": node},
        }
        self.world.api.call("POST", f"{PODS}/{pod['metadata']['name']}/binding", body)
        self.world.forsaken.add(pod["metadata"]["uid"])

    # -- nodes ------------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NODES), how=st.sampled_from(["gone", "no plugin", "sick", "well"]), seen=st.booleans())
    def a_node_changes(self, name: str, how: str, seen: bool) -> None:
        """It goes, its plugin goes, its device breaks, or all is well again."""
        if how == "gone":
            with contextlib.suppress(errors.NotFound):
                self.world.api.call("DELETE", f"/api/v1/nodes/{name}")
        else:
            self.world.add_node(name, allocatable=0 if how == "no plugin" else 3, healthy=how != "sick")
        if how == "no plugin":
            self.world.fall_silent(name)
        if seen:
            self.world.run(0, lambda: self.world.tick("nodes"))

    # -- people -----------------------------------------------------------------------------------------------------

    @rule(mib=st.sampled_from([10000, 25000, 40000, None]))
    def the_quota_changes(self, mib: int | None) -> None:
        """A person sets another limit, or none."""
        self.world.run(0, lambda: self._limit(mib))

    def _limit(self, mib: int | None) -> None:
        flow.limit(memory_mib=mib)
        self.world.limit_mib, self.world.excused = mib, True

    @rule(mode=st.sampled_from(["enforce", "wait", "warn", "observe"]))
    def the_mode_changes(self, mode: str) -> None:
        """Warn and observe only where devices and quotas may be over anyway."""
        if self.strict and mode in ("warn", "observe"):
            mode = "wait"
        self.world.run(0, lambda: flow.limit(mode=mode, memory_mib=self.world.limit_mib))

    @rule(name=st.sampled_from(NODES), mib=st.sampled_from([2000, 16000]), end=st.booleans())
    def a_person_holds(self, name: str, mib: int, end: bool) -> None:
        """A person takes a part of a device, or gives it back."""
        running = Hold.objects.filter(in_force=True).first()

        def act() -> None:
            if end and running is not None:
                holds.hold_end(hold_id=running.pk, **WHY)
            elif running is None:
                amounts = holds.Amounts(memory_mib=mib)
                holds.hold_add(node=name, vendor="NVIDIA", uuid=f"GPU-{name}", amounts=amounts, **WHY)

        self.world.excused = True
        self.world.run(0, act)

    @rule(which=WHICH, force=st.booleans())
    def a_person_releases(self, which: int, force: bool) -> None:
        """A person takes from a pod what it holds."""
        pod = self._some(which)
        row = Pod.objects.filter(uid=pod["metadata"]["uid"]).first() if pod is not None else None
        if row is not None and not (force and self.strict):
            with contextlib.suppress(service_errors.InvalidInput):
                self.world.run(1, lambda: releases.pod_release(pod_id=row.pk, force=force, **WHY))
                if force:
                    self.world.forsaken.add(row.uid)

    @rule()
    def back_up(self) -> None:
        """The database as it is now is kept."""
        self.world.back_up()

    @rule(who=WHO)
    def restore(self, who: int) -> None:
        """The database is put back to the backup. Processes that had read on notice; else the operator says so."""
        self.world.restore(who)

    # -- promises ---------------------------------------------------------------------------------------------------

    @invariant()
    def promises_are_kept(self) -> None:
        """Law 5, against the ledger and the cluster, and law 4."""
        if not self.strict:
            self.world.excused = True
        self.world.check()

    def teardown(self) -> None:
        """Nothing leaks."""
        try:
            self.world.nothing_leaks()
        finally:
            self.world.close()


def _status(pod: Object, to: str) -> Object:
    """The next status that a kubelet would report: inits one by one, then the app."""
    spec, status = pod["spec"], pod["status"]
    if to in ("Succeeded", "Failed"):
        return {"phase": to}
    inits = [one["name"] for one in spec.get("initContainers") or ()]
    shown = {one["name"]: one for one in status.get("initContainerStatuses") or ()}
    if to == "again":
        again = [{"name": name, **kube_objects.running()} for name in inits[:1]]
        return {"phase": "Pending", "initContainerStatuses": again, "containerStatuses": []}
    for name in inits:
        ends = {"name": name, **kube_objects.terminated(0)}
        state = shown.get(name, {}).get("state", {})
        if name == "side" and "running" not in state:
            shown[name] = {"name": name, **kube_objects.running()}
        elif name != "side" and "terminated" not in state:
            shown[name] = ends if "running" in state else {"name": name, **kube_objects.running()}
        else:
            continue
        return {"phase": "Pending", "initContainerStatuses": list(shown.values())}
    apps = [{"name": one["name"], **kube_objects.running()} for one in spec["containers"]]
    return {"phase": "Running", "containerStatuses": apps}


def check(examples: int, steps: int) -> None:
    """Run the machine."""
    run_state_machine_as_test(
        Ledger, settings=hypothesis.settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    )


def test_laws_hold_under_any_interleaving() -> None:
    check(examples=10, steps=24)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_laws_hold_for_long() -> None:
    check(examples=1000, steps=60)
