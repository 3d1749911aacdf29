"""Who came in, who was kept out, and who was refused a change."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import AnonymousUser
from django.test import Client, RequestFactory
from django.urls import reverse

from accounting.models import AccessRecord, User
from accounting.services import access_log, namespaces, people, tokens
from tests.accounting import flow

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]

ASKED = {"namespace": "nlp", "name": "more", "memory_mib": 1, "reason": "more"}
PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def viewer() -> None:
    """A person who may look at one namespace."""
    flow.cluster()
    access_log._recent_tokens.clear()
    namespaces.namespace_save(name="nlp", mode="enforce", actor="", reason="test")
    User.objects.create_user("vera", password=PASSWORD)
    people.role_grant(role="viewer", user="vera", namespace="nlp", reason="test")


def kept() -> list[tuple[str, str, str, str, int]]:
    """(kind, who, how, what, times), oldest first."""
    return list(AccessRecord.objects.order_by("pk").values_list("kind", "who", "how", "what", "times"))


def sign_in(client: Client, password: str = PASSWORD) -> None:
    client.post(reverse("account_login"), {"login": "vera", "password": password})


def test_coming_in_and_going_out(client: Client) -> None:
    sign_in(client)
    client.post(reverse("account_logout"))
    assert [(kind, who) for kind, who, *_ in kept()] == [("signed-in", "vera"), ("signed-out", "vera")]
    assert AccessRecord.objects.first().address == "127.0.0.1"  # type: ignore[union-attr]


def test_a_wrong_password_is_one_row_however_often(client: Client) -> None:
    for _ in range(3):
        sign_in(client, "wrong")
    assert kept() == [("kept-out", "vera", "password", "", 3)]


def test_a_token_is_kept_once_an_hour() -> None:
    _, text = tokens.token_create(user="vera", name="pipeline", bounds=tokens.Bounds(scopes=("read",)))
    client = Client(headers={"authorization": f"Bearer {text}"})
    for _ in range(3):
        assert client.get("/api/v1/nodes").status_code == 200
    assert kept() == [("token", "vera", "pipeline", "", 1)]


def test_refused_changes_by_rest_and_admin_are_kept(client: Client) -> None:
    client.force_login(User.objects.get(username="vera"))
    before = len(kept())
    assert client.post("/api/v1/quotas", ASKED, content_type="application/json").status_code == 403
    client.post("/admin/accounting/quota/add/", {})
    assert client.get("/admin/").status_code in (302, 403)
    found = [(kind, who, what) for kind, who, _, what, _ in kept()[before:]]
    assert ("refused", "vera", "POST /api/v1/quotas") in found
    assert all(what.startswith("POST ") for _, _, what in found)


def test_reading_what_one_may_not_see_is_no_change(client: Client) -> None:
    client.force_login(User.objects.get(username="vera"))
    before = kept()
    assert client.get("/namespaces/other").status_code in (403, 404)
    assert kept() == before


def test_names_of_any_kind_are_kept_as_far_as_they_can_be() -> None:
    access_log.kept_out(None, {"username": "a\0b" + "x" * 500}, RequestFactory().post("/"))
    (row,) = kept()
    assert row[1].startswith("ab")
    assert len(row[1]) == 150
    access_log.signed_out(None, RequestFactory().post("/"), None)
    access_log.signed_out(None, RequestFactory().post("/"), AnonymousUser())
