"""A person raises a quota in the admin, through a web listener of its own, and the pod that waits for it is placed."""

from __future__ import annotations

import html
import http.cookiejar
import re
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator

import pytest

from tests.cluster import nodes, processes
from tests.cluster import platform as platform_processes
from tests.cluster.space import Space

PASSWORD = "correct horse battery"
LIMIT_MIB = 20480
FIELD = re.compile(r"<input[^>]*>|<textarea[^>]*>[^<]*</textarea>|<option[^>]*selected[^>]*>")


class Desk:
    """A browser without a screen that has signed in."""

    def __init__(self, url: str) -> None:
        self.url = url
        jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), jar)

    def read(self, path: str, form: dict[str, str] | None = None) -> str:
        """A page, or the page after a form was sent. Raises OSError for an error status."""
        data = urllib.parse.urlencode(form).encode() if form is not None else None
        asked = urllib.request.Request(self.url + path, data, {"Referer": self.url + path})  # noqa: S310  (our own)
        with self._opener.open(asked, timeout=30) as answer:
            text: str = answer.read().decode()
        return text

    def sign_in(self, person: str) -> None:
        """By the form, as people do."""
        form = entries(self.read("/accounts/login/"))
        self.read("/accounts/login/", form | {"login": person, "password": PASSWORD})

    def limit_set(self, quota: str, **limits: str) -> None:
        """Find the quota in the admin's list, change it, save."""
        shown = self.read(f"/admin/accounting/quota/?q={quota}")
        found = re.search(r'href="(/admin/accounting/quota/\d+/change/)[^"]*"', shown)
        assert found is not None, shown[:2000]
        form = entries(self.read(found.group(1)))
        after = self.read(found.group(1), form | limits | {"reason": "the team grew", "_save": "Save"})
        assert "was changed successfully" in after


def entries(page: str) -> dict[str, str]:
    """What a page's form holds, but for its buttons."""
    found = {}
    for tag in FIELD.findall(page):
        name, value = re.search(r'name="([^"]*)"', tag), re.search(r'value="([^"]*)"', tag)
        if name and 'type="submit"' not in tag and 'type="checkbox"' not in tag:
            found[name.group(1)] = html.unescape(value.group(1)) if value else ""
    return found


@pytest.fixture
def desk(platform: platform_processes.Platform) -> Iterator[Desk]:
    """A web listener on the platform's database, and an operator's browser."""
    (port,) = processes.free_ports(1)
    tls = ("HAMI_TLS_CERT_FILE", "HAMI_TLS_KEY_FILE", "HAMI_TLS_CLIENT_CA_FILE")
    environment = {name: value for name, value in platform.environment("tool").items() if name not in tls}
    environment |= {"HAMI_ROLE": "web", "HAMI_WEB_BIND": f"127.0.0.1:{port}", "DJANGO_SUPERUSER_PASSWORD": PASSWORD}
    user = [
        sys.executable,
        "manage.py",
        "createsuperuser",
        "--no-input",
        "--username",
        "desk",
        "--email",
        "d@e.invalid",
    ]
    log = platform.logs / "web.log"
    made = processes.Process("user", user, log=log, environment=environment, directory=platform_processes.ROOT)
    made.start()
    serve = [sys.executable, "manage.py", "serve", "--role", "web"]
    web = processes.Process("web", serve, log=log, environment=environment, directory=platform_processes.ROOT)
    web.start()
    browser = Desk(f"http://127.0.0.1:{port}")
    try:
        web.wait_until(lambda: bool(browser.read("/accounts/login/")), 60)
        web.wait_until(lambda: not made.alive(), 60)
        browser.sign_in("desk")
        yield browser
    finally:
        web.stop()


def test_quota_raised_in_the_admin_places_the_waiting_pod_within_five_seconds(team: Space, desk: Desk) -> None:
    def ask(name: str) -> dict[str, object]:
        return nodes.pod(name, nodes.container(gpu=1, gpumem=10240, gpucores=30))

    team.ledger.quota_set(team.name, mode="wait", memory_mib=LIMIT_MIB)
    for name in ("one", "two"):
        team.create(ask(name))
        team.await_phase(name, "Running")
    team.create(ask("three"))
    assert team.pod("three")["spec"]["schedulingGates"]
    desk.limit_set(team.name, memory_mib=str(LIMIT_MIB + 10240))
    team.await_bound("three", within_s=5)
