"""A node's lock between two extenders, whose owner is stopped, killed, or waits for an agent that is dead.

| owner | the next pod of the node |
|---|---|
| its extender is stopped while the API server still carries its Binding out | bound as soon as the owner has started |
| its extender is killed before the Binding was sent | bound once a tick has settled the owner, which is placed again |
| bound, but no container ever starts | refused as NodeLocked after 30 s; placed at once when the owner is deleted |

Beside them 12 pods bind to one node through both extenders at once: no bind fails.
"""

from __future__ import annotations

import contextlib
import http.client
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import pytest

from tests.accounting.simulated import until
from tests.chaos import cluster, stand, storm
from tests.perf import serving

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

SPACE = "locks"
STATE = "SELECT state FROM accounting_pod WHERE name = '{}' AND state <> 'ended'"
LOCKS = "SELECT count(*) FROM accounting_nodelock"


class World:
    """A cluster without a scheduler: the tests ask the extenders themselves."""

    def __init__(self, around: cluster.Cluster, one: stand.Stand) -> None:
        self.around, self.stand = around, one
        self.first, self.second = one.of("extender")

    def pod(self, name: str, **annotations: str) -> cluster.Obj:
        """Created; annotations are the simulated kubelet's."""
        notes = {f"simulator/{key}": value for key, value in annotations.items()}
        return self.around.made(SPACE, name, 1000, annotations=notes)

    def filter(self, target: stand.Member, pod: cluster.Obj, node: str = "n1") -> cluster.Obj:
        found: cluster.Obj = target.ask("/filter", {"Pod": pod, "Nodes": None, "NodeNames": [node]})
        return found

    def bind(self, target: stand.Member, pod: cluster.Obj, node: str = "n1") -> str:
        """Why not, or "". "gone" where the extender ended meanwhile."""
        meta = pod["metadata"]
        args = {"PodName": meta["name"], "PodNamespace": SPACE, "PodUID": meta["uid"], "Node": node}
        try:
            return str(target.ask("/bind", args, timeout_s=60)["Error"])
        except (OSError, http.client.HTTPException):
            return "gone"

    def insist(self, target: stand.Member, pod: cluster.Obj) -> str:
        """As kube-scheduler does: filter and bind again until it is bound; "" then."""
        for _ in range(20):
            if self.filter(target, pod)["NodeNames"] and not self.bind(target, pod):
                return ""
            time.sleep(1)
        return "never bound"

    def placed(self, target: stand.Member, name: str, node: str = "n1", **annotations: str) -> cluster.Obj:
        """Created, and reserved by this extender."""
        made = self.pod(name, **annotations)
        assert self.filter(target, made, node)["NodeNames"] == [node]
        return made

    def state(self, name: str) -> str:
        """What the ledger says of the pod."""
        found = storm.rows(self.stand.database_url, STATE.format(name))
        return str(found[0][0]) if found else ""

    def on_node(self, name: str) -> bool:
        """What the API server says of it."""
        pods = {pod["metadata"]["name"]: pod for pod in self.around.pods(SPACE)}
        return bool(pods[name]["spec"].get("nodeName"))

    def right(self) -> None:
        """Nothing is given twice, nothing differs, no lock is left."""
        url = self.stand.database_url
        assert storm.rows(url, storm.OVER) == []
        until(lambda: "no difference" in self.stand.manage("selfcheck"), "the self check finds no difference", 60)
        until(lambda: storm.rows(url, LOCKS) == [(0,)], "no lock is left", 60)


@pytest.fixture
def world(fresh_postgres: str, tmp_path: Path) -> Iterator[World]:
    """Two extenders, the watcher and the ticks, and two nodes of eight cards: ours, and one of HAMi's plugin."""
    with cluster.Cluster(tmp_path) as around, stand.standing(tmp_path, fresh_postgres, **around.settings) as one:
        around.node("n1", 8)
        around.node("hami", 8, agent=False)
        around.namespace(SPACE)
        one.prepare()
        for role, many in (("extender", 2), ("watcher", 1), ("worker", 1), ("beat", 1)):
            one.add(role, many)
        one.wait()
        yield World(around, one)


@pytest.mark.parametrize("node", ["n1", "hami"])
def test_two_extenders_bind_to_one_node_without_a_failure(world: World, node: str) -> None:
    """Whose lock is a row, or HAMi's annotation."""
    pods = [world.placed(world.first, f"p{number}", node) for number in range(12)]
    targets = [world.first, world.second] * 6
    with futures.ThreadPoolExecutor(12) as pool:
        assert list(pool.map(world.bind, targets, pods, [node] * 12)) == [""] * 12
    world.right()


def test_a_stopped_owner_whose_binding_is_carried_out_late_gives_the_lock_up_by_starting(world: World) -> None:
    owner, later = world.placed(world.first, "owner"), world.placed(world.second, "later")
    world.around.api.fault.delay("/pods/owner/binding", 6.0, method="POST")
    with futures.ThreadPoolExecutor(2) as pool, _paused_once_binding(world, owner, pool) as asked:
        began = time.monotonic()
        assert world.bind(world.second, later) == ""
        serving.report(f"node lock of a stopped extender, Binding 6 s late: waited {time.monotonic() - began:.1f} s")
        assert world.on_node("owner")
        world.first.resume()
        assert asked.result(60) == ""
    world.right()


def test_a_killed_owner_whose_binding_was_never_sent_is_settled_and_placed_again(world: World) -> None:
    owner, later = world.placed(world.first, "owner"), world.placed(world.second, "later")
    world.around.api.fault.delay("^/version", 300.0, times=None)  # asked between taking the lock and the first Binding
    with futures.ThreadPoolExecutor(2) as pool, _paused_once_binding(world, owner, pool) as asked:
        world.first.kill()
        world.around.api.fault.lift()
        assert asked.result(60) == "gone"
        began = time.monotonic()
        assert world.insist(world.second, later) == ""
        serving.report(f"node lock of a killed extender, Binding not sent: free after {time.monotonic() - began:.1f} s")
    assert not world.on_node("owner")
    assert world.insist(world.second, owner) == ""
    world.right()


def test_where_no_container_starts_the_node_is_refused_until_its_lock_falls(world: World) -> None:
    owner = world.placed(world.first, "owner", manual="true")
    assert world.bind(world.first, owner) == ""
    later = world.pod("later")
    until(lambda: not world.filter(world.second, later)["NodeNames"], "the node takes nothing new", 60)
    assert set(world.filter(world.second, later)["FailedNodes"].values()) == {"NodeLocked"}
    assert world.state("owner") == "bound"
    world.around.delete(SPACE, "owner")
    until(lambda: bool(world.filter(world.second, later)["NodeNames"]), "the node is free", 10)
    assert world.bind(world.second, later) == ""
    world.right()


@contextlib.contextmanager
def _paused_once_binding(
    world: World, owner: cluster.Obj, pool: futures.ThreadPoolExecutor
) -> Iterator[futures.Future[str]]:
    """The first extender stops while it binds the owner; its answer comes when it goes on, or ends."""
    asked = pool.submit(world.bind, world.first, owner)
    until(lambda: world.state("owner") == "binding", "the owner has the lock", 30)
    world.first.pause()
    try:
        yield asked
    finally:
        world.first.resume()
