"""Every page that there is, visited in the demonstration: console, admin, history, import, API docs.

Pages are found by their links, as people find them, and compared with the addresses that the platform routes: one that
nobody links to, or that was forgotten here, fails the test.
"""

from __future__ import annotations

import pathlib
import re
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from django.urls import Resolver404, URLPattern, URLResolver, get_resolver, resolve
from playwright.sync_api import Browser, Page

from tests.browser import looking
from tests.browser.demonstration import Demonstration

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

START = ("/", "/admin/", "/api/docs", "/settings", "/admin/accounting/quota/import/")
ALIKE = 2
"""Pages of one kind that are visited."""
NOT_VISITED = {
    "account_logout": "it would end the visit",
    "console:language": "a form's target",
    "console:login-link": "used up by signing in",
    "admin:logout": "it would end the visit",
    "admin:login": "for who is not signed in",
    "admin:view_on_site": "no model has a page of its own there",
    "admin:autocomplete": "answers scripts",
    "admin:jsi18n": "a script, loaded by pages",
    "admin:password_change": "nobody in the demonstration has a password",
    "admin:password_change_done": "follows a changed password",
    "admin:auth_user_password_change": "accounts are ours",
    "admin:accounting_quota_process_import": "follows an import that was looked at",
    "mfa_add_webauthn": "asks anew who it is, five minutes after signing in",
    "mfa_activate_totp": "the same",
    "mfa_generate_recovery_codes": "the same",
    "console:quota-new": "linked where a scope has no quota yet",
    "console:budget-new": "a form leads there",
}
ROWLESS = ("nativequota", "nodelock", "idempotencykey", "group", "apitoken", "accessrecord", "finding")
"""Models of which the demonstration may have no row."""
_HREFS = "all => all.map(one => new URL(one.getAttribute('href'), location).href)"
READ_ONLY = re.compile("_(add|delete|history|simple_history)$")


@dataclass
class Visit:
    """What was seen so far."""

    demo: Demonstration
    page: Page
    waiting: deque[str] = field(default_factory=lambda: deque(START))
    seen: Counter[str] = field(default_factory=Counter)
    known: set[str] = field(default_factory=lambda: set(START))
    problems: list[str] = field(default_factory=list)

    def walk(self) -> None:
        """Until no link leads to a kind of page that was not visited often enough."""
        while self.waiting:
            path = self.waiting.popleft()
            name = named(path)
            if self.seen[name] >= ALIKE:
                continue
            self.seen[name] += 1
            self.look(path, name)

    def look(self, path: str, name: str) -> None:
        answer = self.page.goto(self.demo.url + path)
        if answer is None or answer.status != 200:
            self.problems.append(f"{path}: answered {answer.status if answer else 'nothing'}")
            return
        if name.startswith("console:"):
            self.problems += looking.serious(self.page)
        for found in self.links():
            if found not in self.known:
                self.known.add(found)
                self.waiting.append(found)

    def links(self) -> list[str]:
        """Paths of this page's links within the platform that answer with a page."""
        hrefs = self.page.eval_on_selector_all("a[href]:not([download])", _HREFS)
        return [path for path in map(self.path_of, hrefs) if path and named(path) not in NOT_VISITED and named(path)]

    def path_of(self, href: str) -> str:
        parts = urlsplit(href)
        if not href.startswith(self.demo.url + "/") or "/export/" in parts.path or "format=csv" in parts.query:
            return ""
        return parts.path + (f"?{parts.query}" if parts.query else "")


def named(path: str) -> str:
    """The name of the address's view, or nothing."""
    try:
        return resolve(path.partition("?")[0]).view_name
    except Resolver404:
        return ""


def addresses(patterns: list[URLPattern | URLResolver] | None = None, space: str = "") -> Iterator[str]:
    """Names of all pages of console and admin."""
    for one in get_resolver().url_patterns if patterns is None else patterns:
        if isinstance(one, URLResolver):
            inner = ":".join(part for part in (space, one.namespace) if part)
            yield from addresses(one.url_patterns, inner)
        elif one.name and space in {"admin", "console"}:
            yield f"{space}:{one.name}"


def expected(name: str) -> bool:
    """Whether the visit must have come there: not where only a row that may not be there leads, or a form."""
    model = name.partition("_")[2].partition("_")[0]
    return name not in NOT_VISITED and not READ_ONLY.search(name) and model not in ROWLESS and "export" not in name


def test_no_page_complains_and_none_is_left_out(demo: Demonstration, browser: Browser, signed_in: pathlib.Path) -> None:
    complaints: list[str] = []
    context = looking.context_for(browser, language="en", scheme="light", storage_state=signed_in)
    visit = Visit(demo, looking.watched(context, demo.url, complaints))
    visit.walk()
    context.close()
    left_out = sorted({name for name in addresses() if expected(name)} - set(visit.seen))
    told = [*complaints, *visit.problems, *(f"not visited: {name}" for name in left_out)]
    assert not told, "\n".join(told)
    assert sum(visit.seen.values()) > 80
    assert any(name.endswith("_simple_history") for name in visit.seen)
