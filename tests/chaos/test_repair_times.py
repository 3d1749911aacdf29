"""How long each kind of drift lasts: from the moment it is there until it is found, shown, and repaired.

Everything runs as in production, watcher in office, ticks at their pace, over a PostgreSQL and a Redis of its own and a
simulated API server. Times are the database's. Found, shown by a page, REST and metrics (they read the findings), and
repaired where that is safe, within SIXTY; told by a Kubernetes event a tick of `findings` later.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from hami_platform.simulator import client
from tests.accounting.simulated import until
from tests.chaos import cluster, own_servers, stand, storm
from tests.perf import serving

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

SIXTY = 60.0
PATIENCE_S = 150
NAMESPACE = "drift"
ALLOCATED = "hami.io/vgpu-devices-allocated"
REGISTER = "hami.io/node-nvidia-register"
LOCK = "hami.io/mutex.lock"
ROLES = {"webhook": 1, "extender": 1, "watcher": 1, "worker": 1, "beat": 1}
ROW = "SELECT state, node FROM accounting_pod WHERE uid = '{}' ORDER BY id DESC"
HELD = (
    "SELECT coalesce(sum(s.memory_mib), 0) FROM accounting_share s JOIN accounting_pod p ON p.id = s.pod_id"
    " WHERE p.uid = '{}' AND p.state <> 'ended'"
)
FOUND = (
    "SELECT found_at, repaired_at, told_at, repair FROM accounting_finding WHERE kind = '{}' AND subject = '{}'"
    " ORDER BY id DESC LIMIT 1"
)
NOW = "SELECT clock_timestamp()"
JOURNALED = (
    "SELECT min(at) FROM accounting_journal WHERE kind = '{}' AND key = (SELECT id::text FROM accounting_pod"
    " WHERE uid = '{}' ORDER BY id DESC LIMIT 1) AND at > '{}'"
)


@dataclass
class World:
    """Everything that runs."""

    around: cluster.Cluster
    stand: stand.Stand
    bound: cluster.Bound

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return storm.rows(self.stand.database_url, query)

    def now(self) -> datetime:
        at: datetime = self.rows(NOW)[0][0]
        return at

    def behind(self, how: str, uid: str) -> datetime:
        """Since when the ledger is behind."""
        return datetime.fromisoformat(self.stand.run(sys.executable, "-m", "tests.chaos.behind", how, uid))

    def finding(self, kind: str, subject: str) -> tuple[Any, ...]:
        """(found, repaired, told, how repaired) of the newest one, once there is one."""
        query = FOUND.format(kind, subject)
        until(lambda: bool(self.rows(query)), f"{kind} of {subject} is found", PATIENCE_S)
        return self.rows(query)[0]

    def running(self, name: str, mem: int = 1000) -> str:
        """A pod that runs, as the ledger knows; its uid."""
        assert self.around.create(NAMESPACE, name, mem) == ""
        uid = str(self.look(name)["metadata"]["uid"])
        until(lambda: [one[0] for one in self.rows(ROW.format(uid))] == ["running"], f"{name} runs", PATIENCE_S)
        return uid

    def look(self, name: str) -> cluster.Obj:
        found: cluster.Obj = self.around.people.get(client.path_of("pods", NAMESPACE, name))
        return found

    def report(self, kind: str, began: datetime, **when: Any) -> None:
        """Print the seconds to each of these, and hold all but the event to the minute."""
        seconds = {word: (at - began).total_seconds() for word, at in when.items() if at is not None}
        serving.report(f"{kind}: " + ", ".join(f"{word} after {one:.2f} s" for word, one in seconds.items()))
        late = {word: one for word, one in seconds.items() if one > SIXTY and word != "told"}
        assert not late, late

    def closed(self, kind: str, subject: str) -> Any:
        """When the newest finding was closed."""
        until(lambda: self.finding(kind, subject)[1] is not None, f"{kind} of {subject} is closed", PATIENCE_S)
        return self.finding(kind, subject)[1]

    def told(self, kind: str, subject: str) -> Any:
        """When an event told of it."""
        until(lambda: self.finding(kind, subject)[2] is not None, f"an event tells of {kind}", PATIENCE_S)
        return self.finding(kind, subject)[2]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One of each process, three nodes of ours and one that HAMi's plugin serves."""
    folder = tmp_path_factory.mktemp("drift")
    with contextlib.ExitStack() as stack:
        database, broker = stack.enter_context(own_servers.servers())
        around = stack.enter_context(cluster.Cluster(folder))
        one = stack.enter_context(stand.standing(folder, database.url, **around.settings, HAMI_REDIS_URL=broker.url))
        for number in range(3):
            around.node(f"n{number}", 4)
        around.node("h0", 2, agent=False)
        one.prepare()
        for role, many in ROLES.items():
            one.add(role, many)
        one.wait()
        around.open(one)
        around.namespace(NAMESPACE)
        bound = stack.enter_context(cluster.Bound(around))
        yield World(around, one, bound)


def test_leaked_a_pod_is_gone_and_its_row_runs(world: World) -> None:
    uid = world.running("leaked")
    world.around.delete(NAMESPACE, "leaked")
    until(lambda: world.rows(ROW.format(uid))[0][0] == "ended", "the deletion is heard", PATIENCE_S)
    began = world.behind("leaked", uid)
    found, repaired, _, how = world.finding("drift-leaked", f"{NAMESPACE}/leaked")
    assert (how, world.rows(HELD.format(uid))) == ("released", [(0,)])
    world.report(
        "drift-leaked", began, found=found, repaired=repaired, told=world.told("drift-leaked", f"{NAMESPACE}/leaked")
    )


def test_missing_a_pod_runs_and_has_no_row(world: World) -> None:
    uid = world.running("missing")
    began = world.behind("missing", uid)
    found, repaired, _, how = world.finding("drift-missing", f"{NAMESPACE}/missing")
    assert (how, world.rows(HELD.format(uid))) == ("counted", [(1000,)])
    world.report(
        "drift-missing", began, found=found, repaired=repaired, told=world.told("drift-missing", f"{NAMESPACE}/missing")
    )


def test_changed_a_row_is_on_another_node(world: World) -> None:
    uid = world.running("changed")
    node = world.look("changed")["spec"]["nodeName"]
    began = world.behind("changed", uid)
    found, repaired, _, how = world.finding("drift-changed", f"{NAMESPACE}/changed")
    assert (how, world.rows(ROW.format(uid))[0]) == ("brought in line", ("running", node))
    world.report("drift-changed, another node", began, found=found, repaired=repaired)


def test_bound_elsewhere_than_the_ledger_planned(world: World) -> None:
    uid = world.running("elsewhere")
    node = world.look("elsewhere")["spec"]["nodeName"]
    began = world.behind("elsewhere", uid)
    found, *_ = world.finding("bound-elsewhere", f"{NAMESPACE}/elsewhere")
    until(lambda: world.rows(ROW.format(uid))[0][1] == node, "the row is where the pod is", PATIENCE_S)
    (repaired,) = world.rows(JOURNALED.format("pod", uid, began.isoformat()))[0]
    world.report("bound-elsewhere (the row is right; open for people)", began, found=found, repaired=repaired)


def test_changed_somebody_forges_a_pods_devices(world: World) -> None:
    """By the platform's own account: the webhook lets nobody else. The rows are the truth, so people decide."""
    uid = world.running("forged")
    path = client.path_of("pods", NAMESPACE, "forged")
    honest = world.look("forged")["metadata"]["annotations"][ALLOCATED]
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{cluster.NAMESPACE}")
    forger = client.Client(world.around.api.url, token=world.around.api.token(cluster.PLATFORM, *groups))
    began = world.now()
    forger.patch(path, {"metadata": {"annotations": {ALLOCATED: honest.replace(",1000,", ",1,")}}})
    found, *_ = world.finding("drift-changed", f"{NAMESPACE}/forged")
    assert world.rows(HELD.format(uid)) == [(1000,)]
    world.report("drift-changed, forged annotations (open for people)", began, found=found)
    ended = world.now()
    forger.patch(path, {"metadata": {"annotations": {ALLOCATED: honest}}})
    forger.close()
    closed = world.closed("drift-changed", f"{NAMESPACE}/forged")
    world.report("drift-changed, from the honest annotation to a closed finding", ended, closed=closed)


def test_view_a_row_is_written_past_the_ledger(world: World) -> None:
    uid = world.running("unjournaled")
    began = world.behind("unjournaled", uid)
    found, _, _, how = world.finding("drift-view", "view")
    assert how == "loaded anew"
    journaled = JOURNALED.format("pod", uid, began.isoformat())
    until(lambda: world.rows(journaled) != [(None,)], "every process reads the row anew", PATIENCE_S)
    world.report("drift-view", began, found=found, repaired=world.rows(journaled)[0][0])
    world.around.delete(NAMESPACE, "unjournaled")


@pytest.mark.parametrize("kind,text", [("unmanaged-pod", ""), ("undecodable-pod", "GPU-1;,;:")])
def test_a_pod_that_came_past_the_webhook(world: World, kind: str, text: str) -> None:
    """Somebody binds it by hand; nobody knows which devices it uses, so its node takes no more while it lives."""
    name, hooks = kind, client.path_of("namespaces", name=NAMESPACE)
    world.around.people.patch(hooks, {"metadata": {"labels": {"hami.io/webhook": "ignore"}}})
    began = world.now()
    world.around.people.create(client.path_of("pods", NAMESPACE), _past_the_webhook(name, text))
    found, *_ = world.finding(kind, f"{NAMESPACE}/{name}")
    world.report(f"{kind} (its node takes no more)", began, found=found, told=world.told(kind, f"{NAMESPACE}/{name}"))
    world.around.people.patch(hooks, {"metadata": {"labels": {"hami.io/webhook": None}}})
    ended = world.now()
    world.around.delete(NAMESPACE, name)
    world.report(f"{kind}, from its end to a closed finding", ended, closed=world.closed(kind, f"{NAMESPACE}/{name}"))


def _past_the_webhook(name: str, text: str) -> cluster.Obj:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}
    spec = {"containers": [{"name": "main", "image": "i", "resources": {"limits": limits}}], "nodeName": "n2"}
    notes = {ALLOCATED: text} if text else {}
    return {
        "apiVersion": "v1", "kind": "Pod", "spec": spec | {"terminationGracePeriodSeconds": 0},
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": notes},
    }  # fmt: skip


def test_node_lock_left_behind(world: World) -> None:
    """HAMi's annotation lock of a pod that is not there."""
    path = client.path_of("nodes", name="h0")
    began = world.now()
    stamp = began.strftime("%Y-%m-%dT%H:%M:%SZ")
    world.around.people.patch(path, {"metadata": {"annotations": {LOCK: f"{stamp},{NAMESPACE},nobody"}}})
    found, repaired, _, how = world.finding("node-lock-left-behind", "h0")
    assert how == "taken off"
    assert LOCK not in world.around.people.get(path)["metadata"]["annotations"]
    world.report(
        "node-lock-left-behind", began, found=found, repaired=repaired, told=world.told("node-lock-left-behind", "h0")
    )


def test_unreadable_registration(world: World) -> None:
    path = client.path_of("nodes", name="n1")
    honest = world.around.people.get(path)["metadata"]["annotations"][REGISTER]
    began = world.now()
    world.around.people.patch(path, {"metadata": {"annotations": {REGISTER: "[{"}}})
    found, *_ = world.finding("unreadable-registration", "n1")
    world.report("unreadable-registration", began, found=found)
    ended = world.now()
    world.around.people.patch(path, {"metadata": {"annotations": {REGISTER: honest}}})
    closed = world.closed("unreadable-registration", "n1")
    world.report("unreadable-registration, from the repaired one on", ended, closed=closed)


def test_a_device_on_two_nodes(world: World) -> None:
    first, second = (client.path_of("nodes", name=name) for name in ("n0", "n1"))
    theirs, honest = (world.around.people.get(path)["metadata"]["annotations"][REGISTER] for path in (first, second))
    began = world.now()
    world.around.people.patch(second, {"metadata": {"annotations": {REGISTER: theirs}}})
    anything = "SELECT min(found_at) FROM accounting_finding WHERE kind = 'device-on-two-nodes' AND repaired_at IS NULL"
    until(lambda: world.rows(anything)[0][0] is not None, "it is found", PATIENCE_S)
    world.report("device-on-two-nodes (used on neither)", began, found=world.rows(anything)[0][0])
    ended = world.now()
    world.around.people.patch(second, {"metadata": {"annotations": {REGISTER: honest}}})
    until(lambda: world.rows(anything)[0][0] is None, "it is closed", PATIENCE_S)
    closed = "SELECT max(repaired_at) FROM accounting_finding WHERE kind = 'device-on-two-nodes'"
    world.report("device-on-two-nodes, from the end of it", ended, closed=world.rows(closed)[0][0])


def test_a_resource_quota_in_another_unit(world: World) -> None:
    path = client.path_of("resourcequotas", NAMESPACE)
    began = world.now()
    hard = {"limits.nvidia.com/gpumem": "16Gi"}
    world.around.people.create(path, {"metadata": {"name": "bytes", "namespace": NAMESPACE}, "spec": {"hard": hard}})
    anything = "SELECT min(found_at), max(repaired_at) FROM accounting_finding WHERE kind = 'quota-unit'"
    until(lambda: world.rows(anything)[0][0] is not None, "it is found", PATIENCE_S)
    world.report("quota-unit (limits nothing)", began, found=world.rows(anything)[0][0])
    ended = world.now()
    world.around.people.delete(client.path_of("resourcequotas", NAMESPACE, "bytes"))
    until(lambda: world.rows(anything)[0][1] is not None, "it is closed", PATIENCE_S)
    world.report("quota-unit, from its end on", ended, closed=world.rows(anything)[0][1])
