"""REST callers are limited each for themselves, told what is left, and believed nothing about where they come from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth import get_user_model
from django.test import Client, RequestFactory
from rest_framework.request import Request

from accounting.api import limits
from hami_platform import env
from tests.accounting import flow

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def four_a_minute() -> Iterator[None]:
    """Two at once, and nobody has asked yet."""
    limits.forget()
    with env.override(rest_requests_per_minute=4, internal_token="t"):
        yield
    limits.forget()


def signed_in(name: str) -> Client:
    client = Client()
    client.force_login(get_user_model().objects.create_superuser(name, password="x"))
    return client


def test_who_asks_too_often_is_told_when_to_come_back() -> None:
    flow.cluster()
    client = signed_in("ada")
    answers = [client.get("/api/v1/cluster") for _ in range(3)]
    assert [one.status_code for one in answers] == [200, 200, 429]
    assert answers[0]["RateLimit-Policy"] == '"requests";q=2;w=30'
    assert answers[0]["RateLimit"].startswith('"requests";r=1;t=')
    assert answers[2]["Content-Type"] == "application/problem+json"
    assert 1 <= int(answers[2]["Retry-After"]) <= 15
    assert signed_in("bob").get("/api/v1/cluster").status_code == 200, "others are not touched"


def test_no_header_makes_one_caller_look_like_many() -> None:
    def asked(claims: str) -> str:
        return limits.caller(
            Request(RequestFactory().get("/", headers={"X-Forwarded-For": claims}, REMOTE_ADDR="10.0.0.9"))
        )

    assert asked("1.1.1.1") == asked("2.2.2.2") == "address 10.0.0.9"


def test_agents_that_share_a_token_have_no_limit() -> None:
    flow.cluster()
    body = {"node": "n1", "namespace": "nlp", "name": "p", "devices": ["GPU-a"]}
    for _ in range(5):
        answer = Client().post("/api/agent/unmanaged", body, "application/json", headers={"Authorization": "Bearer t"})
        assert answer.status_code == 503, "nobody knows the pod"
        assert "RateLimit" not in answer


def test_a_bucket_fills_again_and_old_callers_are_forgotten() -> None:
    now = [0.0]
    buckets = limits.Buckets(lambda: now[0], most=2)
    taken = [buckets.take("a", per_minute=4).allowed for _ in range(3)]
    assert taken == [True, True, False]
    now[0] = 15.0
    assert buckets.take("a", per_minute=4).allowed
    for who in ("b", "c"):
        buckets.take(who, per_minute=4)
    assert len(buckets._tokens) == 2


def test_what_a_client_says_of_proxies_is_not_believed() -> None:
    """Not the scheme, not the host: unless the operator says that a proxy is there."""
    request = RequestFactory().get("/", headers={"X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil.example"})
    assert not request.is_secure()
    assert request.get_host() == "testserver"
