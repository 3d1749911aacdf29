"""Tokens: told once, stored as a hash, and never able to do more than their user and their own bounds allow."""

from __future__ import annotations

from datetime import timedelta

import pytest
from rest_framework.test import APIClient

from accounting import ledger, models
from accounting.services import people, tokens
from tests.accounting import rows
from tests.accounting.test_api_conventions import client_of, named, url

pytestmark = pytest.mark.django_db


@pytest.fixture
def root() -> APIClient:
    models.User.objects.create_superuser("root")
    return client_of("root")


def test_a_token_is_told_once_and_stored_as_a_hash(root: APIClient) -> None:
    new, once = {"name": "ci", "days": 30, "scopes": ["read"]}, {"Idempotency-Key": "t"}
    made = root.post(url("tokens"), new, headers=once)
    text = made.json()["token"]
    assert made["Cache-Control"] == "no-store"
    assert text not in str(models.ApiToken.objects.values()) + str(models.IdempotencyKey.objects.values())
    assert root.post(url("tokens"), new, headers=once).json()["token"] is None
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    assert client.get(url("cluster")).status_code == 200
    assert client.post(url("tenants"), {"name": "x", "reason": "x"}).status_code == 403
    assert root.delete(url("token", made.json()["key"])).status_code == 204
    assert client.get(url("cluster")).status_code == 401


def test_an_ended_token_is_no_token(root: APIClient) -> None:
    models.ApiToken.objects.update(expiry=ledger.database_time() - timedelta(seconds=1))
    assert root.get(url("cluster")).status_code == 401


def test_a_token_of_some_roles_and_namespaces_reaches_no_further(root: APIClient) -> None:
    for name in ("nlp", "cv"):
        rows.namespace_row(name)
    looks = client_of("root", roles=("viewer",))
    assert named(looks.get(url("namespaces"))) == ["cv", "nlp"]
    assert looks.post(url("tenants"), {"name": "x", "reason": "x"}).status_code == 403
    assert looks.get(url("access")).status_code == 403
    narrow = client_of("root", namespaces=("nlp", "elsewhere"))
    assert narrow.get(url("findings")).status_code == 403
    assert named(narrow.get(url("namespaces"))) == ["elsewhere", "nlp"][1:]
    assert narrow.post(url("quotas"), {"namespace": "nlp", "devices": 1, "reason": "x"}).status_code == 201
    assert narrow.post(url("quotas"), {"namespace": "cv", "devices": 1, "reason": "x"}).status_code == 403


def test_a_token_of_a_network_works_from_there_only(root: APIClient) -> None:
    bound = client_of("root", networks=("10.1.0.0/16", "2001:db8::/32"))
    for address in ("10.1.2.3", "::ffff:10.1.2.3", "2001:db8::7"):
        assert bound.get(url("cluster"), REMOTE_ADDR=address).status_code == 200, address
    for address in ("", "10.2.0.1"):
        assert bound.get(url("cluster"), REMOTE_ADDR=address).status_code == 401, address
    assert models.AccessRecord.objects.filter(kind="kept-out", who="root", address="10.2.0.1").exists()


def test_a_person_makes_no_token_that_does_more_than_she(root: APIClient) -> None:
    models.User.objects.create_user("ann")
    rows.namespace_row("nlp")
    people.role_grant(role="member", user="ann", namespace="nlp", reason="x")
    ann = client_of("ann")
    assert ann.post(url("tokens"), {"name": "a", "scopes": ["agent"]}).status_code == 400
    assert ann.post(url("tokens"), {"name": "a", "user": "root"}).status_code == 403
    assert ann.post(url("tokens"), {"name": "a", "days": 4000}).status_code == 400
    assert client_of("ann", namespaces=("nlp",)).post(url("tokens"), {"name": "a"}).status_code == 400
    mine = ann.get(url("tokens")).json()
    assert {one["user"] for one in mine["results"]} == {"ann"}
    theirs = models.ApiToken.objects.filter(user__username="root").first()
    assert theirs is not None
    assert ann.delete(url("token", theirs.token_key)).status_code == 404


def test_a_superusers_narrowed_token_ends_nobody_elses(root: APIClient) -> None:
    models.User.objects.create_user("bob")
    theirs, _ = tokens.token_create(user="bob")
    looks = client_of("root", roles=("auditor",))
    assert looks.get(url("token", theirs.token_key)).status_code == 200
    assert looks.delete(url("token", theirs.token_key)).status_code == 403
    assert root.delete(url("token", theirs.token_key)).status_code == 204


def test_a_token_outlives_not_the_one_that_made_it(root: APIClient) -> None:
    _, text = tokens.token_create(user="root", lives_s=86_400 * 5)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    assert client.post(url("tokens"), {"name": "a", "days": 6}).status_code == 400
    assert client.post(url("tokens"), {"name": "a", "days": 4}).status_code == 201
