"""Two processes bind the same pod: a kube-scheduler failed over, or asked again, while the first answer was on its way.

| the later try | the earlier try | the pod | the ledger | the node's lock |
|---|---|---|---|---|
| refused | still unsent | unassigned | its claim | free |
| under way | refused | unassigned | binding | stays |
| bound | bound | bound | bound | stays |
| of another pod of the name | gone | | nothing | stays the other's |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from accounting import ledger
from accounting.services import bindings, cluster_api, device_config, holds
from hami_platform.domain.wire import node_lock as wire
from hami_platform.kube import api as ports
from hami_platform.kube import calls
from scheduler_ext import binder, node_queue, protocol
from tests.scheduler_ext.world import World, row, total_mib

T = TypeVar("T")
NODE = "/api/v1/nodes/hami"

pytestmark = pytest.mark.ledger


class Before:
    """The API server's client, with something that happens right before the first call of a kind."""

    def __init__(self, api: ports.Api, ending: str, act: Callable[[], object]) -> None:
        self._api, self._ending, self._act, self._done = api, ending, act, False

    def send(self, call: calls.KubeCall[T], *, timeout_s: float | None = None) -> T:
        """As the client's."""
        if call.path.endswith(self._ending) and not self._done:
            self._done = True
            self._act()
        return self._api.send(call, timeout_s=timeout_s)

    def watch(self, call: calls.KubeCall[T], *, idle_s: float) -> ports.Stream[T]:
        """As the client's."""
        return self._api.watch(call, idle_s=idle_s)


def another(api: ports.Api) -> binder.Binder:
    """Another process's binder."""
    return binder.Binder(api, device_config.device_config(), node_queue.NodeQueue(4))


def bind(engine: binder.Binder, made: dict[str, Any]) -> str:
    meta = made["metadata"]
    args = protocol.BindArgs(pod_name=meta["name"], pod_namespace=meta["namespace"], pod_uid=meta["uid"], node="hami")
    return engine.bind(args)


def lock_of(world: World) -> str | None:
    found: dict[str, str] = world.kube.get(NODE)["metadata"].get("annotations", {})
    return found.get(wire.KEY)


@pytest.fixture
def hami(world: World) -> World:
    """A node on which HAMi's plugin runs."""
    world.node("hami", labels={})
    world.compare()
    return world


def test_a_later_try_that_is_refused_makes_sure_that_the_earlier_one_must_fail(hami: World) -> None:
    made, api = hami.placed("p", "hami"), cluster_api.cluster_api()

    def later() -> None:
        hami.api.fault.fail("/binding$", status=403)
        assert "was not carried out" in bind(another(api), made)

    assert "another bind of pod nlp/p has taken over" in bind(another(Before(api, "/binding", later)), made)
    assert "nodeName" not in hami.get("p")["spec"]
    assert (row(made["metadata"]["uid"]).state, total_mib()) == ("claimed", 0)
    assert lock_of(hami) is None


def test_an_earlier_try_that_is_refused_gives_nothing_back_while_a_later_one_decides(hami: World) -> None:
    made, api = hami.placed("p", "hami"), cluster_api.cluster_api()
    meta = made["metadata"]

    def later_begins() -> None:
        hami.api.fault.fail("/binding$", status=403)
        begun = bindings.binding_begin(
            uid=meta["uid"], namespace="nlp", name="p", node="hami", mode="annotation", lock_value=lock_of(hami) or "",
            config=device_config.device_config(),
        )  # fmt: skip
        assert isinstance(begun, bindings.BindingPlan)
        assert begun.joined

    assert "403" in bind(another(Before(api, "/binding", later_begins)), made)
    assert wire.decode(lock_of(hami) or "").owned_by("nlp", "p")
    assert (row(meta["uid"]).state, row(meta["uid"]).bind_attempt) == ("binding", 2)


def test_both_tries_may_succeed(hami: World) -> None:
    made, api = hami.placed("p", "hami"), cluster_api.cluster_api()
    answers: list[str] = []
    first = another(Before(api, "/binding", lambda: answers.append(bind(another(api), made))))
    assert (bind(first, made), answers) == ("", [""])
    assert (row(made["metadata"]["uid"]).state, total_mib()) == ("bound", 3000)
    assert wire.decode(lock_of(hami) or "").owned_by("nlp", "p")


def test_a_pod_of_the_same_name_keeps_its_lock_when_its_forerunner_is_asked_about(hami: World) -> None:
    before = hami.placed("p", "hami")
    hami.delete("p")
    made = hami.placed("p", "hami")
    assert hami.bind(made, "hami") == ""
    assert "another uid" in hami.bind(before, "hami")
    assert wire.decode(lock_of(hami) or "").owned_by("nlp", "p")


def test_nothing_is_bound_before_the_ledger_was_compared(world: World) -> None:
    made = world.placed("p")
    with ledger.transaction(cause="restored") as entry:
        ledger.incarnation_draw(entry)
    assert "not ready" in world.bind(made)
    assert "nodeName" not in world.get("p")["spec"]
    world.compare()
    assert world.bind(made) == ""


def test_a_reservation_whose_device_is_over_used_by_others_is_not_bound(world: World) -> None:
    """A person holds the whole device between /filter and /bind."""
    made = world.placed("p")
    for index in range(2):
        amounts = holds.Amounts(memory_mib=24576)
        holds.hold_add(
            node="n1", vendor="NVIDIA", uuid=f"GPU-n1-{index}", amounts=amounts, reason="maintenance", actor="ada"
        )
    assert "over-used by others" in world.bind(made)
    assert row(made["metadata"]["uid"]).state == "claimed"
    assert not world.filter(made)["NodeNames"]
