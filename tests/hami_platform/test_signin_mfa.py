"""A second factor that is on is asked for at every door: sign-in page, admin's sign-in, and whatever a password alone
would open."""

from __future__ import annotations

import base64

import pytest
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal import auth as totp
from django.test import Client
from django.urls import reverse

from accounting import ledger
from accounting.models import User

pytestmark = pytest.mark.django_db

NAME, PASSWORD = "mia", "correct horse battery"
DOORS = ("/", "/admin/", "/admin/accounting/quota/", "/api/v1/nodes")


@pytest.fixture
def secret() -> str:
    """Of the person's authenticator."""
    ledger.cluster_id()
    person = User.objects.create_superuser(NAME, password=PASSWORD)
    found: str = totp.generate_totp_secret()
    totp.TOTP.activate(person, found)
    return found


def code(secret: str) -> str:
    """What the authenticator shows now."""
    return totp.format_hotp_value(totp.hotp_value(secret, next(totp.yield_hotp_counters_from_time())))


def opened(client: Client) -> list[str]:
    """The doors that stand open."""
    return [door for door in DOORS if client.get(door).status_code == 200]


def enter_password(client: Client, page: str) -> str:
    """Where the page leads after the right name and password."""
    answer = client.post(page, {"login": NAME, "username": NAME, "password": PASSWORD}, follow=True)
    return str(answer.request["PATH_INFO"])


@pytest.mark.parametrize("page", ["account_login", "admin:login"])
def test_a_password_alone_opens_nothing(page: str, secret: str, client: Client) -> None:
    enter_password(client, reverse(page))
    assert opened(client) == []


def test_the_password_leads_to_the_second_question(secret: str, client: Client) -> None:
    assert enter_password(client, reverse("account_login")) == reverse("mfa_authenticate")


def test_password_and_code_open_all_doors(secret: str, client: Client) -> None:
    enter_password(client, reverse("account_login"))
    client.post(reverse("mfa_authenticate"), {"code": code(secret)})
    assert opened(client) == list(DOORS)


def test_a_wrong_code_opens_nothing(secret: str, client: Client) -> None:
    enter_password(client, reverse("account_login"))
    wrong = f"{(int(code(secret)) + 1) % 1_000_000:06}"
    client.post(reverse("mfa_authenticate"), {"code": wrong})
    assert opened(client) == []


def test_a_recovery_code_opens_once(secret: str, client: Client) -> None:
    person = User.objects.get(username=NAME)
    one = RecoveryCodes.activate(person).get_unused_codes()[0]
    enter_password(client, reverse("account_login"))
    client.post(reverse("mfa_authenticate"), {"code": one})
    assert opened(client) == list(DOORS)
    other = Client()
    enter_password(other, reverse("account_login"))
    other.post(reverse("mfa_authenticate"), {"code": one})
    assert opened(other) == []


def test_a_password_in_the_header_of_a_request_opens_nothing(secret: str, client: Client) -> None:
    basic = base64.b64encode(f"{NAME}:{PASSWORD}".encode()).decode()
    assert client.get("/api/v1/nodes", headers={"authorization": f"Basic {basic}"}).status_code in (401, 403)


def test_without_a_second_factor_the_password_is_enough(client: Client) -> None:
    ledger.cluster_id()
    User.objects.create_superuser(NAME, password=PASSWORD)
    enter_password(client, reverse("account_login"))
    assert opened(client) == list(DOORS)
