"""An extender beyond loopback is called with a client certificate (see the listeners' tests) or with a token.

| token | `/filter` and `/bind` |
|---|---|
| none asked for | answered |
| of a named user or group | answered |
| missing, wrong, of somebody else | 401 |
| cannot be checked | 503: kube-scheduler asks again |
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from hami_platform import env
from scheduler_ext import callers
from tests.scheduler_ext.world import World, pod

pytestmark = pytest.mark.ledger
SCHEDULER = "system:serviceaccount:nlp:scheduler"


def token_of(world: World, name: str) -> str:
    world.kube.call("POST", "/api/v1/namespaces/nlp/serviceaccounts", {"metadata": {"name": name}})
    issued = world.kube.call("POST", f"/api/v1/namespaces/nlp/serviceaccounts/{name}/token", {"spec": {}})
    return str(issued["status"]["token"])


def ask(world: World, path: str, body: Any, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return int(world.http.post(path, json.dumps(body), content_type="application/json", headers=headers).status_code)


def test_a_named_account_may_filter_and_bind_others_may_not(world: World) -> None:
    made = world.create(pod("p"))
    meta = made["metadata"]
    asked = {"Pod": made, "NodeNames": ["n1"]}
    bind = {"PodName": "p", "PodNamespace": "nlp", "PodUID": meta["uid"], "Node": "n1"}
    friend, stranger = token_of(world, "scheduler"), token_of(world, "other")
    with env.override(extender_token_users=(SCHEDULER,)):
        for token in ("", "wrong", stranger):
            assert (ask(world, "/filter", asked, token), ask(world, "/bind", bind, token)) == (401, 401)
        assert "nodeName" not in world.get("p")["spec"]
        assert (ask(world, "/filter", asked, friend), ask(world, "/bind", bind, friend)) == (200, 200)
    assert world.get("p")["spec"]["nodeName"] == "n1"


def test_a_token_that_cannot_be_checked_is_not_believed(world: World) -> None:
    with env.override(extender_token_users=(SCHEDULER,)):
        world.api.fault.fail("tokenreviews", times=1)
        assert ask(world, "/filter", {}, "some token") == 503


def test_a_busy_caller_costs_one_review_a_minute(world: World) -> None:
    token = token_of(world, "scheduler").encode()
    now = [0.0]
    known = callers.Names(lambda: now[0])
    for _ in range(5):
        assert SCHEDULER in known.of(token)
    assert world.api.requests[("POST", "tokenreviews")] == 1
    now[0] = callers.REMEMBERED_S
    assert SCHEDULER in known.of(token)
    assert world.api.requests[("POST", "tokenreviews")] == 2
