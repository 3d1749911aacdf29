"""Passkeys: with one, a password alone opens nothing; where browsers use none, pages say why."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from accounting import ledger
from accounting.models import AccessRecord, User
from hami_platform import signin
from tests.hami_platform.soft_key import SoftKey

pytestmark = pytest.mark.django_db

NAME, PASSWORD = "mia", "correct horse battery"
DOORS = ("/", "/admin/", "/admin/accounting/quota/", "/api/v1/nodes")
HERE: dict[str, Any] = {"HTTP_HOST": "localhost"}


@pytest.fixture(autouse=True)
def person() -> User:
    ledger.cluster_id()
    return User.objects.create_superuser(NAME, password=PASSWORD)


def visitor() -> Client:
    return Client(**HERE)


def opened(client: Client) -> list[str]:
    """The doors that stand open."""
    return [door for door in DOORS if client.get(door).status_code == 200]


def enter_password(client: Client, page: str = "account_login") -> str:
    """Where the page leads after the right name and password."""
    answer = client.post(reverse(page), {"login": NAME, "username": NAME, "password": PASSWORD}, follow=True)
    return str(answer.request["PATH_INFO"])


def options(answer: Any) -> dict[str, Any]:
    """What the page tells the browser to ask the authenticator."""
    found = re.search(r'<script id="js_data" type="application/json">(.*?)</script>', answer.content.decode())
    assert found is not None, answer.content.decode()
    told: dict[str, Any] = json.loads(found[1])
    asked: dict[str, Any] = told.get("creation_options") or told["request_options"]
    return asked


def with_passkey(key: SoftKey, name: str = "", *, alone: bool = False) -> Client:
    """A client that has signed in by password, said it again, and added a passkey."""
    client = visitor()
    enter_password(client)
    where = reverse("mfa_add_webauthn")
    client.post(f"{reverse('account_reauthenticate')}?next={where}", {"password": PASSWORD})
    asked = options(client.get(where))
    fields = {"name": name, "credential": key.make(asked, resident=alone)} | ({"passwordless": "on"} if alone else {})
    answer = client.post(where, fields)
    assert answer.status_code == 302, answer.content.decode()
    return client


def sign(client: Client, key: SoftKey) -> Any:
    """Use the passkey where the second factor is asked for."""
    page = reverse("mfa_authenticate")
    return client.post(page, {"credential": key.sign(options(client.get(page)))})


@pytest.mark.parametrize("page", ["account_login", "admin:login"])
def test_with_a_passkey_a_password_alone_opens_nothing(page: str) -> None:
    with_passkey(SoftKey())
    client = visitor()
    enter_password(client, page)
    assert opened(client) == []


def test_password_and_passkey_open_all_doors_and_are_recorded() -> None:
    key = SoftKey()
    with_passkey(key)
    client = visitor()
    assert enter_password(client) == reverse("mfa_authenticate")
    sign(client, key)
    assert opened(client) == list(DOORS)
    assert AccessRecord.objects.filter(kind="signed-in", how__endswith=" and passkey").exists()


def test_somebody_elses_passkey_opens_nothing() -> None:
    with_passkey(SoftKey())
    client = visitor()
    enter_password(client)
    assert sign(client, SoftKey()).status_code == 200
    assert opened(client) == []


def test_a_signature_from_another_site_opens_nothing() -> None:
    key = SoftKey()
    with_passkey(key)
    key.origin = "http://localhost.evil.example"
    client = visitor()
    enter_password(client)
    assert sign(client, key).status_code == 200
    assert opened(client) == []


def test_a_passkey_alone_signs_in_and_is_recorded() -> None:
    key = SoftKey()
    with_passkey(key, alone=True)
    client = visitor()
    page = reverse("mfa_login_webauthn")
    asked = client.get(page, headers={"accept": "application/json", "x-requested-with": "XMLHttpRequest"}).json()
    client.post(page, {"credential": key.sign(asked["request_options"])})
    assert opened(client) == list(DOORS)
    assert AccessRecord.objects.filter(kind="signed-in", how="passkey").exists()


def test_a_passkey_that_asks_nothing_of_its_owner_does_not_sign_in_alone() -> None:
    key = SoftKey()
    with_passkey(key, alone=True)
    key.verifies = False
    client = visitor()
    page = reverse("mfa_login_webauthn")
    asked = client.get(page, headers={"accept": "application/json", "x-requested-with": "XMLHttpRequest"}).json()
    client.post(page, {"credential": key.sign(asked["request_options"])})
    assert opened(client) == []


def test_the_first_passkey_brings_recovery_codes_of_which_each_opens_once() -> None:
    client = with_passkey(SoftKey())
    codes = re.findall(r"<li><code>(\d+)</code>", client.get(reverse("mfa_view_recovery_codes")).content.decode())
    assert len(codes) == 10
    for expected in (list(DOORS), []):
        other = visitor()
        enter_password(other)
        other.post(reverse("mfa_authenticate"), {"code": codes[0]})
        assert opened(other) == expected


def test_a_passkey_is_named_renamed_and_removed() -> None:
    client = with_passkey(SoftKey(), "YubiKey 5")
    row = Authenticator.objects.get(type="webauthn")
    assert "YubiKey 5" in client.get(reverse("mfa_list_webauthn")).content.decode()
    client.post(reverse("mfa_edit_webauthn", args=[row.pk]), {"name": "in the drawer"})
    page = client.get(reverse("mfa_index")).content.decode()
    assert "in the drawer" in page
    assert "On: a password alone does not sign you in." in page
    client.post(reverse("mfa_remove_webauthn", args=[row.pk]))
    assert not Authenticator.objects.exists(), "the recovery codes go with the last factor"
    other = visitor()
    enter_password(other)
    assert opened(other) == list(DOORS)


def test_a_passkey_of_somebody_else_is_neither_seen_nor_removed() -> None:
    with_passkey(SoftKey(), "mine")
    row = Authenticator.objects.get(type="webauthn")
    User.objects.create_superuser("eve", password=PASSWORD)
    eve = visitor()
    eve.post(reverse("account_login"), {"login": "eve", "password": PASSWORD})
    eve.post(reverse("account_reauthenticate"), {"password": PASSWORD})
    assert "mine" not in eve.get(reverse("mfa_list_webauthn")).content.decode()
    assert eve.post(reverse("mfa_remove_webauthn", args=[row.pk])).status_code == 404
    assert Authenticator.objects.filter(pk=row.pk).exists()


def test_who_has_no_password_adds_a_passkey_just_after_signing_in() -> None:
    """Whom the identity provider vouches for, or who came by a link."""
    client, olga = visitor(), User.objects.create_superuser("olga")
    client.force_login(olga)
    assert "publicKey" in options(client.get(reverse("mfa_add_webauthn")))
    User.objects.filter(pk=olga.pk).update(last_login=timezone.now() - timedelta(minutes=6))
    answer = client.get(reverse("mfa_add_webauthn"))
    assert answer.status_code == 403
    assert "sign out and in again" in answer.content.decode()


@pytest.mark.parametrize(
    "host,secure,why,local",
    [
        ("localhost:8000", False, "", ""),
        ("console.example.org", True, "", ""),
        ("console.example.org", False, "on pages with TLS only", ""),
        ("10.1.2.3", True, "opened by an address (10.1.2.3)", ""),
        ("127.0.0.1:8000", False, "opened by an address", "http://localhost:8000/accounts/2fa/webauthn/"),
        ("[::1]:8000", False, "opened by an address", "http://localhost:8000/accounts/2fa/webauthn/"),
    ],
)
def test_where_browsers_use_no_passkeys_pages_say_why(
    host: str, secure: bool, why: str, local: str, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    client = Client(HTTP_HOST=host)
    client.force_login(User.objects.get(username=NAME))
    page = client.get(reverse("mfa_list_webauthn"), secure=secure).content.decode()
    signing = Client(HTTP_HOST=host).get(reverse("account_login"), secure=secure).content.decode()
    assert ("Add a passkey" in page) == ("Sign in with a passkey" in signing) == (not why)
    assert why in page
    assert (f'href="{local}"' in page) if local else ("http://localhost" not in page)


@pytest.mark.parametrize("page", ["mfa_index", "mfa_list_webauthn", "mfa_add_webauthn", "mfa_activate_totp"])
def test_the_pages_are_in_both_languages(page: str) -> None:
    client = visitor()
    client.force_login(User.objects.create_superuser("olga"))
    texts = [
        client.get(reverse(page), headers={"accept-language": language}).content.decode()
        for language in ("en", "zh-hans")
    ]
    headings = [re.findall(r"<h1>(.*?)</h1>", text)[0] for text in texts]
    assert headings[0].isascii()
    assert not headings[1].isascii()


def test_a_page_without_a_usable_host_name_is_answered_all_the_same(rf: RequestFactory) -> None:
    assert signin.passkeys(rf.get("/", HTTP_HOST=""))["passkeys_refused"] == "address"
