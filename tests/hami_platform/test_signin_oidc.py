"""Signing in at an identity provider: a real one over HTTP, a real listener, and a visitor who follows links."""

from __future__ import annotations

import http.client
import http.cookiejar
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import processes

ROOT = Path(__file__).parents[2]
PREPARE = """
import django; django.setup()
from django.contrib.auth.models import Group
from accounting import ledger
from accounting.models import User
from accounting.services import people, tenants, namespaces
ledger.cluster_id()
for name in ("nlp", "vision"):
    namespaces.namespace_save(name=name, mode="enforce", actor="", reason="test")
    Group.objects.create(name=name)
    people.role_grant(role="viewer", group=name, namespace=name, reason="test")
User.objects.create_superuser("alice", password="break glass")
with ledger.transaction(cause="test") as entry:
    ledger.compared_set(entry)
"""


class Visitor:
    """A browser without a screen: keeps cookies, follows redirections."""

    def __init__(self) -> None:
        self._cookies = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._cookies))
        self.visited: list[str] = []

    def open(self, url: str, **form: str) -> tuple[int, str, str]:
        """(status, where it ended, text); a form is posted."""
        data = urllib.parse.urlencode(form).encode() if form else None
        request = urllib.request.Request(url, data, {"Referer": url})  # noqa: S310 - loopback
        self.visited.append(url)
        try:
            with self._opener.open(request, timeout=20) as answer:
                return answer.status, answer.url, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.url or url, error.read().decode()

    def submit(self, url: str, page: str, **fields: str) -> tuple[int, str, str]:
        """Post the page's form with its token."""
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        return self.open(url, **({"csrfmiddlewaretoken": token.group(1)} if token else {}), **fields)


class Site:
    """The console, and the provider that signs people in."""

    def __init__(self, url: str, provider: str) -> None:
        self.url = url
        self.provider = provider

    def tell(self, who: str, **claims: Any) -> None:
        """What the provider says of a person from now on."""
        request = urllib.request.Request(  # noqa: S310 - loopback
            f"{self.provider}/users/{who}",
            json.dumps(claims).encode(),
            {"Content-Type": "application/json"},
            method="PUT",
        )
        with urllib.request.urlopen(request, timeout=20):  # noqa: S310
            pass

    def sign_in(self, who: str) -> tuple[Visitor, str]:
        """Through the provider; the visitor, and the address at the provider by which she came there."""
        visitor = Visitor()
        start = f"{self.url}/accounts/oidc/oidc/login/"
        _, _, page = visitor.open(start)
        status, there, _ = visitor.submit(start, page)
        assert status == 200, there
        assert there.startswith(self.provider)
        status, ended, page = visitor.open(there, sub=who)
        assert status in (200, 403), page  # 403: signed in, without a role
        assert ended.startswith(self.url), ended
        return visitor, there


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("oidc")
    web, provider = processes.free_ports(2)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HAMI_")} | {
        "DJANGO_SETTINGS_MODULE": "hami_platform.settings",
        "PYTHONWARNINGS": "ignore",
        "HAMI_STATE_DIR": str(folder),
        "HAMI_SECRET_KEY": "only for tests",
        "HAMI_WEB_BIND": f"127.0.0.1:{web}",
        "HAMI_OIDC_SERVER_URL": f"http://127.0.0.1:{provider}",
        "HAMI_OIDC_CLIENT_ID": "console",
        "HAMI_OIDC_CLIENT_SECRET": "secret",
        "AUTHLIB_INSECURE_TRANSPORT": "1",
    }
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=environment, check=True)
    subprocess.run([sys.executable, "-c", PREPARE], cwd=ROOT, env=environment, check=True)
    commands = (
        [sys.executable, "-m", "oidc_provider_mock", "--port", str(provider)],
        [sys.executable, "manage.py", "serve", "--role", "web"],
    )
    started = [
        processes.Process(command[2], command, log=folder / f"{number}.log", environment=environment, directory=ROOT)
        for number, command in enumerate(commands)
    ]
    found = Site(f"http://127.0.0.1:{web}", f"http://127.0.0.1:{provider}")
    try:
        for process, url in zip(
            started, (f"{found.provider}/.well-known/openid-configuration", f"{found.url}/healthz"), strict=True
        ):
            process.start()
            process.wait_until(lambda url=url: _answers(url), 60)  # type: ignore[misc]
        yield found
    finally:
        for process in started:
            process.stop()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - loopback
            return bool(answer.status == 200)
    except http.client.HTTPException:
        return False


def _sees(site: Site, visitor: Visitor) -> set[str]:
    """Namespaces whose page opens, instead of an error or the sign-in page."""
    pages = {name: f"{site.url}/namespaces/{name}" for name in ("nlp", "vision")}
    return {name for name, page in pages.items() if visitor.open(page)[:2] == (200, page)}


def test_code_flow_with_proof_key_gives_what_the_groups_may_see(site: Site) -> None:
    site.tell("u-1", preferred_username="bea", email="bea@example.org", groups=["nlp", "unknown here"])
    visitor, there = site.sign_in("u-1")
    asked = urllib.parse.parse_qs(urllib.parse.urlsplit(there).query)
    assert asked["response_type"] == ["code"]
    assert asked["code_challenge_method"] == ["S256"]
    assert _sees(site, visitor) == {"nlp"}


def test_changed_groups_count_from_the_next_sign_in(site: Site) -> None:
    site.tell("u-2", preferred_username="cem", groups=["nlp"])
    assert _sees(site, site.sign_in("u-2")[0]) == {"nlp"}
    site.tell("u-2", preferred_username="cem", groups=["vision"])
    assert _sees(site, site.sign_in("u-2")[0]) == {"vision"}
    site.tell("u-2", preferred_username="cem")
    assert _sees(site, site.sign_in("u-2")[0]) == set()
    site.tell("u-2", preferred_username="cem", groups="nlp")
    assert _sees(site, site.sign_in("u-2")[0]) == set()


def test_nobody_becomes_a_local_account_by_its_name(site: Site) -> None:
    site.tell("u-3", preferred_username="alice", groups=[])
    visitor, _ = site.sign_in("u-3")
    assert _sees(site, visitor) == set()
    assert visitor.open(f"{site.url}/admin/")[0] in (403, 404)


def test_the_local_account_still_opens_the_door(site: Site) -> None:
    visitor = Visitor()
    _, login, page = visitor.open(f"{site.url}/accounts/login/")
    status, ended, _ = visitor.submit(login, page, login="alice", password="break glass")
    assert (status, ended) == (200, f"{site.url}/")
    assert visitor.open(f"{site.url}/admin/")[0] == 200


def test_a_made_up_answer_of_the_provider_lets_nobody_in(site: Site) -> None:
    visitor = Visitor()
    status, _, page = visitor.open(f"{site.url}/accounts/oidc/oidc/login/callback/?code=made-up&state=made-up")
    assert status in (200, 401, 403)
    assert "made-up" not in page
    assert _sees(site, visitor) == set()
