"""A browser's page that is watched: what the browser complains about, whom it asks, and what axe objects to."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from django.utils import translation
from playwright.sync_api import Browser, BrowserContext, Page

LANGUAGES = {"en": "English", "zh-hans": "简体中文"}
LOCALES = {"en": "en-GB", "zh-hans": "zh-CN"}
TIMEOUT_MS = 30_000

_TELL = "document.addEventListener('securitypolicyviolation', e => console.error(`CSP ${e.violatedDirective}`))"


def context_for(browser: Browser, *, language: str, scheme: str, **options: Any) -> BrowserContext:
    """A new browser window of somebody who prefers this language and colour scheme."""
    context = browser.new_context(locale=LOCALES[language], color_scheme=scheme, **options)  # type: ignore[arg-type]
    context.set_default_timeout(TIMEOUT_MS)
    context.add_init_script(_TELL)
    return context


def watched(context: BrowserContext, url: str, complaints: list[str]) -> Page:
    """A new page. Errors on its console, violations of the policy, exceptions, failed requests and requests to anybody
    else than `url` are noted, each with the address of the page."""
    page = context.new_page()

    def note(what: str) -> None:
        complaints.append(f"{page.url.removeprefix(url)}: {what}")

    page.on("console", lambda line: note(line.text) if line.type == "error" else None)
    page.on("pageerror", lambda error: note(str(error)))
    page.on("request", lambda sent: None if sent.url.startswith((url + "/", "data:")) else note(f"asked {sent.url}"))
    page.on("response", lambda got: note(f"{got.status} {got.url}") if got.status >= 400 else None)
    return page


def serious(page: Page) -> list[str]:
    """What axe finds serious or critical, one line each."""
    found = Axe().run(page).response["violations"]
    return [
        f"{page.url}: {one['id']}: {node['html'][:160]}"
        for one in found
        if one["impact"] in {"serious", "critical"}
        for node in one["nodes"][:3]
    ]


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than the screen."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def said(language: str, text: str) -> str:
    """A text of the console in this language."""
    with translation.override(language):
        return translation.gettext(text)
