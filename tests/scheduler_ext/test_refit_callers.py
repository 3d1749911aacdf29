"""Who may call `/refit`: the installation's own token, or a service account that may write what the scheduler owns."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
import pytest

from deviceplugin import align, refusals, rows
from deviceplugin import refit as agents_refit
from hami_platform import env
from hami_platform.kube import objects
from scheduler_ext import refit
from tests.scheduler_ext.refitting import TOKEN, bound, other, send
from tests.scheduler_ext.world import World, pod

pytestmark = pytest.mark.ledger


@pytest.fixture(autouse=True)
def with_token() -> Iterator[None]:
    """A process that has served nobody yet."""
    refit.the_refitter.cache_clear()
    with env.override(internal_token=TOKEN):
        yield
    refit.the_refitter.cache_clear()


@pytest.mark.parametrize("authorization", ["", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", TOKEN])
def test_nobody_else_may_ask(world: World, authorization: str) -> None:
    answer = send(world, {}, authorization)
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("writer, status", [("system:serviceaccount:nlp:plugin", 200), ("somebody", 401)])
def test_a_service_account_may_ask_if_it_may_write_what_the_scheduler_owns(
    world: World, writer: str, status: int
) -> None:
    world.kube.call("POST", "/api/v1/namespaces/nlp/serviceaccounts", {"metadata": {"name": "plugin"}})
    issued = world.kube.call("POST", "/api/v1/namespaces/nlp/serviceaccounts/plugin/token", {"spec": {}})
    with env.override(internal_token="", owned_key_writers=(writer,)):
        assert send(world, {}, f"Bearer {issued['status']['token']}").status_code == status


def test_an_empty_internal_token_lets_nobody_in(world: World) -> None:
    with env.override(internal_token=""):
        assert send(world, {}, "Bearer ").status_code == 401


def test_tokens_that_cannot_be_checked_are_not_believed(world: World) -> None:
    world.api.fault.outage()
    assert send(world, {}, "Bearer some-account").status_code == 503
    world.api.fault.lift()


def test_an_unreadable_body_is_answered_in_band(world: World) -> None:
    answer = world.http.post("/refit", b"x", content_type="application/json", HTTP_AUTHORIZATION=f"Bearer {TOKEN}")
    assert answer.status_code == 200
    assert json.loads(answer.content)["succeeded"] is False


class Mover:
    """The agent's request, sent as it is."""

    def __init__(self, world: World) -> None:
        self.world = world

    def move(self, ask: agents_refit.Ask) -> None:
        answer = json.loads(send(self.world, msgspec.to_builtins(ask)).content)
        if not answer["succeeded"]:
            raise agents_refit.RefitFailed(answer["failureReason"])


def test_our_agent_moves_a_pod_that_asks_for_its_numa_node(world: World) -> None:
    body = pod("p")
    body["metadata"]["annotations"] = {align.NUMA_ALIGNMENT: "strict"}
    bound(world, body)
    own, free = other(world)
    aligner = align.Aligner("n1", Mover(world))

    def waiting() -> rows.Row:
        found = objects.decode(json.dumps(world.get("p")).encode(), objects.Pod)
        (row,) = rows.left(found, frozenset(), "nvidia.com/gpu")
        return row

    assert aligner.align(waiting(), {own, free}) is False
    assert aligner.align(waiting(), {free}) is True
    assert [device.uuid for device in waiting().devices] == [free]
    refused = aligner.align(waiting(), {"GPU-elsewhere"})
    assert isinstance(refused, refusals.Refusal)
    assert refused.reason is refusals.Reason.NUMA
