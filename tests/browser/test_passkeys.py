"""Passkeys in a browser: chromium's own virtual authenticator, over the protocol of its tools.

Kay signs in here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import fill, looking
from tests.browser.conftest import MINE_MS, Site

pytestmark = pytest.mark.browser

KEY: dict[str, Any] = {
    "protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
    "isUserVerified": True, "automaticPresenceSimulation": True,
}  # fmt: skip
SMALL: dict[str, Any] = {"viewport": {"width": 360, "height": 740}}


@pytest.fixture
def url(site: Site) -> str:
    """The site by a name: an address has no passkeys."""
    return site.url.replace("127.0.0.1", "localhost")


@pytest.fixture
def page(url: str, browser: Browser) -> Iterator[Page]:
    """A window with an authenticator in the machine. Afterwards: the browser complained about nothing."""
    complaints: list[str] = []
    context = looking.context_for(browser, language="en", scheme="dark", **SMALL)
    context.set_default_timeout(MINE_MS)
    made = looking.watched(context, url, complaints)
    tools = context.new_cdp_session(made)
    tools.send("WebAuthn.enable")
    tools.send("WebAuthn.addVirtualAuthenticator", {"options": KEY})
    yield made
    context.close()
    assert complaints == []


def password(page: Page, url: str) -> None:
    page.goto(f"{url}/accounts/login/")
    page.get_by_label("Username").fill("kay")
    page.get_by_label("Password").fill(fill.PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()


def sign_out(page: Page, url: str) -> None:
    page.goto(f"{url}/accounts/logout/")
    page.get_by_role("button").last.click()


def fine(page: Page) -> None:
    """Nobody is kept out, and it fits on a small screen."""
    assert looking.serious(page) == []
    assert looking.overflow(page) <= 0


def test_a_passkey_is_added_named_used_both_ways_and_removed(page: Page, url: str) -> None:
    password(page, url)
    page.get_by_role("link", name="Second factor").click()
    expect(page.get_by_text("your password alone signs you in")).to_be_visible()
    fine(page)
    page.get_by_role("link", name="Passkeys: add, name, remove").click()
    fine(page)
    page.get_by_role("link", name="Add a passkey").click()
    page.get_by_label("Password").fill(fill.PASSWORD)
    fine(page)
    page.get_by_role("button", name="Go on").click()
    page.get_by_label("Name").fill("this laptop")
    page.get_by_label("It alone signs me in").check()
    fine(page)
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    codes = page.locator("#codes code").all_inner_texts()
    assert len(codes) == 10
    fine(page)

    sign_out(page, url)
    password(page, url)
    expect(page.get_by_role("heading", name="Second factor")).to_be_visible()
    fine(page)
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("link", name="Sign out kay")).to_be_visible()

    sign_out(page, url)
    page.goto(f"{url}/accounts/login/")
    fine(page)
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_role("link", name="Sign out kay")).to_be_visible()

    sign_out(page, url)
    password(page, url)
    page.get_by_label("Code of the authenticator app, or a recovery code").fill(codes[0])
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("link", name="Sign out kay")).to_be_visible()

    page.goto(f"{url}/accounts/2fa/webauthn/")
    page.get_by_role("link", name="Remove this laptop").click()
    if page.get_by_role("heading", name="Is it you?").is_visible():
        page.goto(page.url)
        with_password = page.get_by_role("link", name="With the password")
        if with_password.count():
            with_password.click()
        page.get_by_label("Password").fill(fill.PASSWORD)
        page.get_by_role("button", name="Go on").click()
    fine(page)
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_text("The passkey was removed.")).to_be_visible()
    sign_out(page, url)
    password(page, url)
    expect(page.get_by_role("link", name="Sign out kay")).to_be_visible()


def test_a_browser_that_gives_no_passkey_is_told_so_on_the_page(page: Page, url: str) -> None:
    page.goto(f"{url}/accounts/login/")
    page.evaluate("() => { navigator.credentials.get = () => Promise.reject(new DOMException('', 'NotAllowedError')) }")
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_role("alert")).to_contain_text("The browser gave no passkey")


def test_by_an_address_the_page_says_why_there_are_none(site: Site, browser: Browser) -> None:
    complaints: list[str] = []
    context = looking.context_for(browser, language="zh-hans", scheme="light", **SMALL)
    page = looking.watched(context, site.url, complaints)
    page.goto(f"{site.url}/accounts/login/")
    expect(page.locator("#passkey_login")).to_have_count(0)
    page.locator("input[name=login]").fill("ann")
    page.locator("input[name=password]").fill(fill.PASSWORD)
    page.locator("button.main").click()
    page.goto(f"{site.url}/accounts/2fa/webauthn/")
    expect(page.get_by_text(looking.said("zh-hans", "Passkeys")).last).to_be_visible()
    assert page.locator(".notice.warn").inner_text().startswith("▲ 通行密钥属于主机名")
    assert page.locator("main a[href^='http://localhost']").count() == 1
    fine(page)
    context.close()
    assert complaints == []
