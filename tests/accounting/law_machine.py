"""A cluster whose API server, kubelets, people and processes do anything in any order, for Hypothesis to drive.

The ledger's promise is held against two things after every step: its own rows, and what the API server has. Whatever
may break a promise truthfully (an init container that runs again, a person's hold, a pod that came past us) is
excused for that step alone: what is over may then stay over, but never grows by a step of ours.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

from django.core.management import call_command

from accounting import ledger, live_view
from accounting.models import Clock, NodeLiveness, NodeLock, Pod, PodState, Quota, Refusal
from accounting.services import (
    claims,
    leases,
    lock_repair,
    observe,
    placements,
    pod_rows,
    reconcile,
    seen,
    wake,
    wake_calls,
    wire_texts,
)
from hami_platform.domain import lifecycle
from hami_platform.domain.view import View
from hami_platform.kube import errors
from hami_platform.simulator.apiserver import ApiServer
from scheduler_ext import protocol
from tests import builders
from tests.accounting import flow, kube_objects, law_equipment
from tests.accounting.law_equipment import PODS, Killed, Object

CONFIG = kube_objects.CONFIG
CARD_MIB, SMALL_MIB = 24576, 16384
NODES = {"n1": ("1.0", CARD_MIB), "n2": ("", SMALL_MIB)}
"""Name → (agent: the row is the lock; without one the annotation is, memory of its card)."""
BOUND = ("binding", "bound", "running", "releasing")


class Cluster:
    """The cluster and the platform's two processes."""

    def __init__(self) -> None:
        call_command("flush", verbosity=0, interactive=False)
        ledger.forget_cluster()
        live_view.forget()
        self.server = ApiServer()
        self.network = law_equipment.Network()
        self.steps = law_equipment.Steps()
        self.api = law_equipment.DirectApi(self.server, self.network, self.steps)
        self.processes = [law_equipment.Process(self.api) for _ in range(2)]
        self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "nlp"}})
        self.numbers = itertools.count()
        self.events: dict[str, list[Object]] = {}
        self.excused = False
        self.forsaken: set[str] = set()  # uids that a person took out of the ledger, or that a restore lost
        self.backup: law_equipment.Backup | None = None
        self.limit_mib: int | None = 40000
        for name in NODES:
            self.add_node(name)
        with self.processes[0].acting():
            flow.limit(memory_mib=self.limit_mib)
            reconcile.everything_reconcile(self.api, config=CONFIG)
        self.before = self.over()

    def close(self) -> None:
        """Give back what the next example needs."""
        if self.backup is not None:
            self.backup.drop()
        self.server._http._listener.close()
        Refusal.objects.all().delete()
        ledger.forget_cluster()
        live_view.forget()

    # -- objects ----------------------------------------------------------------------------------------------------

    def add_node(self, name: str, *, allocatable: int = 3, healthy: bool = True) -> None:
        """The node with its one card, for three sharers."""
        agent, memory_mib = NODES[name]
        card = builders.device(f"GPU-{name}", slots=3, memory_mib=memory_mib, healthy=healthy)
        made = kube_objects.node(name, card, agent=agent, allocatable=allocatable)
        for field in ("uid", "resourceVersion"):
            del made["metadata"][field]
        with contextlib.suppress(errors.NotFound):
            self.api.call("DELETE", f"/api/v1/nodes/{name}")
        self.api.call("POST", "/api/v1/nodes", made)

    @staticmethod
    def fall_silent(name: str) -> None:
        """Nothing was heard of the node's plugin for an hour."""
        long_ago = ledger.database_time() - timedelta(hours=1)
        NodeLiveness.objects.filter(node__name=name).update(
            first_seen_at=long_ago, handshake_at=None, lease_at=None, report_at=None
        )

    def pods(self) -> dict[str, Object]:
        """Name → pod, as the API server has them now."""
        return {one["metadata"]["name"]: one for one in self.api.call("GET", PODS)["items"]}

    def made(self, body: Object) -> Object:
        """Create a pod; whatever the server adds is in the answer."""
        body = {**body, "metadata": {**body["metadata"]}}
        for field in ("uid", "resourceVersion", "creationTimestamp"):
            body["metadata"].pop(field, None)
        body.pop("status", None)
        return self.api.call("POST", PODS, body)

    def note(self) -> None:
        """Every version that pods went through can be shown as an event, also late."""
        for one in self.pods().values():
            versions = self.events.setdefault(one["metadata"]["uid"], [])
            if not versions or versions[-1]["metadata"]["resourceVersion"] != one["metadata"]["resourceVersion"]:
                versions.append(one)

    # -- processes --------------------------------------------------------------------------------------------------

    def run(
        self,
        process: int,
        act: Callable[[], object],
        *,
        dies_in: int | None = None,
        yields_in: int | None = None,
        meanwhile: Callable[[], object] | None = None,
    ) -> bool:
        """The process does something; False when it died of it. Another process may act in one of its pauses."""
        other = self.processes[1 - process]

        def interrupted() -> None:
            with other.acting():
                (meanwhile or (lambda: None))()

        self.note()
        try:
            with (
                self.processes[process].acting(),
                self.steps.fate(dies_in, yields_in, interrupted),
            ):
                act()
        except Killed:
            return False
        except Exception:
            if not self.steps.died:  # what a dying process still runs into on its way out is nobody's fault
                raise
            return False
        finally:
            self.network.down = False
            self.network.binding = "ok"
            self.network.stale = None
        return True

    def filter(self, pod: Object, candidates: tuple[str, ...]) -> None:
        """kube-scheduler asks where the pod may go, with the object it knows."""
        placements.placement_reserve(seen=seen.from_object(pod, CONFIG), candidates=candidates, config=CONFIG)

    def bind(self, pod: Object, node: str, process: int) -> None:
        """kube-scheduler binds."""
        meta = pod["metadata"]
        args = protocol.BindArgs(pod_name=meta["name"], pod_namespace=meta["namespace"], pod_uid=meta["uid"], node=node)
        self.processes[process].binder.bind(args)

    def show(self, *objects: Object) -> None:
        """The watcher sees these."""
        observe.pods_observe([seen.from_object(one, CONFIG) for one in objects], config=CONFIG)

    def admit(self, body: Object, *, dry_run: bool = False) -> claims.ClaimAnswer:
        """The webhook's answer; a claim and a gate are written into the pod as its patch would."""
        one = seen.from_object(body, CONFIG)
        ask = claims.ClaimAsk(f"review-{next(self.numbers)}", one.namespace, one.request, name=one.name)
        answer = claims.claim_take(ask, dry_run=dry_run)
        if answer.granted and not dry_run:
            if answer.gated:
                body["spec"]["schedulingGates"] = [{"name": seen.GATE}]
            elif answer.claim_id:
                body["metadata"]["annotations"][seen.CLAIM] = answer.claim_id
        return answer

    def tick(self, name: str) -> None:
        """One periodic task."""
        ticks: dict[str, Callable[[], object]] = {
            "pods": lambda: reconcile.pods_or_everything(self.api, config=CONFIG),
            "nodes": lambda: reconcile.nodes_reconcile(self.api, config=CONFIG),
            "locks": lambda: lock_repair.locks_release_dead(self.api),
        }
        with contextlib.suppress(errors.KubeError):
            ticks[name]()

    def wake(self, process: int) -> None:
        """The wake tick; what it writes to the API server it writes."""
        wake_calls.wake_send(self.api, wake.wake_plan(self.processes[process].freed))

    def converge(self) -> None:
        """Nothing more happens from outside; the platform's ticks come right."""
        for asked in self.network.late:
            with contextlib.suppress(errors.KubeError):
                self.api.answer(asked)
        self.network.late.clear()
        with self.processes[0].acting(), settled_at_once():
            for _ in range(2):
                reconcile.everything_reconcile(self.api, config=CONFIG)
                lock_repair.locks_release_dead(self.api)

    def back_up(self) -> None:
        """Keep the database as it is."""
        if self.backup is not None:
            self.backup.drop()
        self.backup = law_equipment.Backup()

    def restore(self, who: int) -> None:
        """Put it back. A process that had read on notices; if none had, `manage.py restored` must be run. What was
        under way then has long arrived or failed."""
        if self.backup is None:
            return
        for asked in self.network.late:
            with contextlib.suppress(errors.KubeError):
                self.api.answer(asked)
        self.network.late.clear()
        self.backup.restore()
        self.limit_mib = Quota.objects.values_list("memory_mib", flat=True).get()
        self.excused = True
        order = (self.processes[who], self.processes[1 - who])
        ahead = [one for one in order if one.view is not None and not one.view.now.clock.revision <= self._revision()]
        with (ahead or order)[0].acting():
            if not ahead:
                with ledger.transaction(cause="restored") as entry:
                    ledger.incarnation_draw(entry)
            assert not live_view.live().refresh().ready

    @staticmethod
    def _revision() -> int:
        return int(Clock.objects.values_list("revision", flat=True).get())

    # -- promises ---------------------------------------------------------------------------------------------------

    def over(self) -> Counter[str]:
        """How much is over what may be: of devices and the quota by the ledger, of devices by the API server."""
        with self.processes[0].acting():
            view = live_view.live().refresh()
        found: Counter[str] = Counter()
        for state in view.states.values():
            for one in state.devices:
                assert one.held.memory_mib >= 0
                assert one.held.slots >= 0
                found[f"ledger {one.device.uuid} MiB"] = max(0, one.held.memory_mib - one.device.memory_mib)
                found[f"ledger {one.device.uuid} slots"] = max(0, one.held.slots - one.device.slots)
        used = sum(amounts.memory_mib for amounts in view.usage.get("nlp", {}).values())
        assert used >= 0
        found["quota"] = max(0, used - self.limit_mib) if self.limit_mib is not None else 0
        for uuid, (memory_mib, slots) in self.truly_held().items():
            found[f"true {uuid} MiB"] = max(0, memory_mib - NODES[uuid.removeprefix("GPU-")][1])
            found[f"true {uuid} slots"] = max(0, slots - 3)
        return found

    def truly_held(self) -> Mapping[str, tuple[int, int]]:
        """uuid → (MiB, slots) that the bound pods of the API server hold, by their annotations and statuses."""
        total: Counter[tuple[str, str]] = Counter()
        for pod in self.pods().values():
            one = seen.from_object(pod, CONFIG)
            if not one.node or one.terminal:
                continue
            shares, aligned = wire_texts.shares_from(one.annotations, one.request.containers, {}, CONFIG)
            for (_, uuid), held in lifecycle.held(shares, one.request.containers, one.facts, aligned=aligned).items():
                total[uuid, "MiB"] += held.memory_mib
                total[uuid, "slots"] += held.slots
        return {uuid: (total[uuid, "MiB"], total[uuid, "slots"]) for uuid, _ in total}

    def check(self) -> None:
        """What must hold after every step."""
        self.note()
        now = self.over()
        if not self.excused:
            grown = {what: (self.before[what], much) for what, much in now.items() if much > self.before[what]}
            assert not grown, grown
        self.before, self.excused = now, False
        for process in self.processes:
            with process.acting():
                flow.view_is_true()
                view = live_view.live().now
        if view.ready:
            self._covered(view)
            self._one_waits_for_devices(view)

    def _covered(self, view: View) -> None:
        """Whatever is bound in the cluster by us is held in the ledger, on that node."""
        for pod in self.pods().values():
            meta, node = pod["metadata"], pod["spec"].get("nodeName")
            if not node or meta["uid"] in self.forsaken or pod["status"].get("phase") in ("Succeeded", "Failed"):
                continue
            row = view.pod(meta["uid"])
            assert row is not None, f"{meta['name']} is on {node} and not in the ledger"
            assert (row.state in BOUND, row.node) == (True, node), (meta["name"], row.state, row.node, node)

    def _one_waits_for_devices(self, view: View) -> None:
        """D8: at most one pod of a node waits for its devices, while its lock is held."""
        for name in NODES:
            waiting = [
                pod["metadata"]["name"]
                for pod in self.pods().values()
                if pod["spec"].get("nodeName") == name
                and pod["metadata"]["uid"] not in self.forsaken
                and not seen.from_object(pod, CONFIG).facts.started
                and pod["status"].get("phase") == "Pending"
            ]
            assert len(waiting) <= 1, f"{waiting} all wait for their devices on {name}"

    def nothing_leaks(self) -> None:
        """When every pod is gone and the ticks have run, nothing is held, nor locked."""
        self.converge()
        for name in self.pods():
            self.api.merge(f"{PODS}/{name}", {"metadata": {"finalizers": None}})
            with contextlib.suppress(errors.NotFound):
                self.api.call("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
        run_out()
        self.converge()
        with self.processes[0].acting():
            view = live_view.live().refresh()
            held = [row for row in view.pods.values() if row.state != "waiting"]
            assert not held, held
            assert flow.charged_mib() == 0
        assert not NodeLock.objects.exists(), list(NodeLock.objects.values())


def run_out() -> None:
    """All leases end now."""
    with ledger.transaction(cause="law") as entry:
        for pod in Pod.objects.exclude(lease_until=None).exclude(state=PodState.ENDED):
            pod_rows.pod_move(entry, pod, pod.state, lease_until=entry.at)
    leases.leases_tick()


@contextlib.contextmanager
def settled_at_once() -> Iterator[None]:
    """Bindings count as left behind at once, not after half a minute."""
    before = reconcile.BINDING_SETTLES_S
    reconcile.BINDING_SETTLES_S = -1
    try:
        yield
    finally:
        reconcile.BINDING_SETTLES_S = before
