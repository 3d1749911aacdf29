"""The page on which a person makes and ends her tokens."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import reverse

from accounting.models import ApiToken, User
from accounting.services import people, tokens
from tests.accounting import rows

pytestmark = pytest.mark.django_db

NEW = {"name": "pipeline", "days": 30, "scope": "read", "namespaces": "nlp cv", "networks": "127.0.0.0/8"}


@pytest.fixture
def ann() -> Client:
    """Signed in, a member of one namespace."""
    rows.namespace_row("nlp")
    user = User.objects.create_user("ann")
    people.role_grant(role="member", user="ann", namespace="nlp", reason="test")
    client = Client()
    client.force_login(user)
    return client


def page() -> str:
    return reverse("console:tokens")


def test_the_text_is_shown_once_and_works(ann: Client) -> None:
    made = ann.post(page(), NEW)
    text = re.search(r'class="secret">(\w+)<', made.content.decode())
    assert text
    assert "no-store" in made["Cache-Control"]
    assert text[1] not in ann.get(page()).content.decode()
    answer = Client().get("/api/v1/namespaces", headers={"Authorization": f"Bearer {text[1]}"})
    assert [one["name"] for one in answer.json()["results"]] == ["nlp"]
    row = ApiToken.objects.get()
    assert (row.scopes, row.namespaces, row.networks) == (["read"], ["nlp", "cv"], ["127.0.0.0/8"])


def test_what_is_wrong_is_told_at_its_field(ann: Client) -> None:
    for change, says in (
        ({"networks": "here"}, "no network"),
        ({"days": 9999}, "366"),
        ({"scope": "agent"}, "operators"),
        ({"name": ""}, "required"),
    ):
        answer = ann.post(page(), NEW | change)
        assert says in answer.content.decode(), change
    assert not ApiToken.objects.exists()


def test_one_ends_ones_own_tokens_and_no_others(ann: Client) -> None:
    User.objects.create_user("bob")
    theirs, _ = tokens.token_create(user="bob")
    mine, _ = tokens.token_create(user="ann", name="old")
    assert ann.post(page(), {"revoke": theirs.token_key}).status_code == 404
    assert ann.post(page(), {"revoke": mine.token_key}).status_code == 302
    assert list(ApiToken.objects.values_list("user__username", flat=True)) == ["bob"]
