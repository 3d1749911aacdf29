"""What a person sees and does in the console: sign in, look, change a quota, on any screen and with any device."""

from __future__ import annotations

import pathlib
import re
import time

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Opener, Site, sign_in, site_in, watch

pytestmark = pytest.mark.browser

PAGES = (
    "/", "/nodes", "/nodes/n1", "/devices", "/devices/GPU-n1-0", "/devices/GPU-m1-0", "/pods", "/pods?state=pending",
    "/pods/uid-train", "/pods/uid-big", "/quotas", "/quotas/1", "/quotas/as-of", "/namespaces/nlp", "/tenants/labs",
    "/findings", "/activity", "/usage", "/usage?by=owner&namespace=nlp", "/tokens", "/fragmentation", "/idle",
    "/budgets", "/budgets/1", "/budgets/1/change", "/waste", "/waste?by=pod",
    "/health", "/settings", "/connect", "/?colour=temperature", "/?colour=health", "/nodes/n4",
    "/pending", "/simulate", "/simulate?devices=2&memory_mib=30000&change=drain&node=n1",
)  # fmt: skip
NARROW = {"viewport": {"width": 360, "height": 740}}


def test_person_signs_in_and_sees_the_devices(site: Site, browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    sign_in(page, site, "root")
    expect(page.get_by_role("heading", name="Cluster", level=1)).to_be_visible()
    assert page.locator("a.cell").count() == 42
    expect(page.locator("#d-GPU-n1-0")).to_have_accessible_name(re.compile("n1/0: .* % of memory.*cordoned"))
    context.close()


def test_first_screen_fits_without_scrolling_sideways(opened: Opener) -> None:
    page = opened("/", viewport={"width": 1280, "height": 800})
    assert _overflow(page) == 0
    for heading in ("Devices", "Limits", "Pending by reason", "Findings"):
        expect(page.get_by_role("heading", name=heading, exact=True)).to_be_in_viewport()


def test_cell_shows_its_card_on_focus_and_leads_to_the_device(opened: Opener) -> None:
    page = opened("/")
    cell = page.locator("#d-GPU-n1-0")
    page.keyboard.press("Tab")
    cell.focus()
    cell.hover()
    expect(cell.locator(".tip")).to_be_visible()
    expect(cell.locator(".tip")).to_contain_text("nlp/train")
    cell.click()
    expect(page).to_have_url(re.compile("/devices/GPU-n1-0$"))


def test_device_page_draws_holders_to_scale(opened: Opener) -> None:
    page = opened("/devices/GPU-n1-0")
    bar = page.locator("svg.bar").first
    total = bar.bounding_box()
    steady = bar.locator("rect.seg-solid").first.bounding_box()
    assert total is not None
    assert steady is not None
    assert steady["width"] / total["width"] == pytest.approx(8192 / 24576, abs=0.01)
    for kind in ("init", "releasing", "person", "kept", "free"):
        expect(bar.locator(f"rect.seg-{kind}")).to_have_count(1)


def test_quota_changed_in_the_admin_shows_on_the_open_cluster_page(opened: Opener) -> None:
    watching = opened("/")
    expect(watching.get_by_text("of 40 960 MiB".replace(" ", "\u202f", 1))).to_be_visible()
    desk = opened("/admin/accounting/quota/?q=nlp")
    desk.get_by_role("link", name="nlp/default").click()
    desk.get_by_label("Memory (MiB):", exact=True).fill("50000")
    desk.get_by_label("Reason").fill("the team grew")
    desk.get_by_role("button", name="Save", exact=True).click()
    saved = time.monotonic()
    expect(watching.get_by_text("of 50\u202f000 MiB")).to_be_visible(timeout=5000)
    assert time.monotonic() - saved < 2.5
    expect(desk.get_by_text("was changed successfully")).to_be_visible()


def test_limits_are_set_in_the_console_with_their_effect_shown_first(opened: Opener) -> None:
    watching = opened("/quotas")
    page = opened("/tenants/spare")  # no other test asks about it
    page.get_by_role("link", name="Change quota spare/default").first.click()
    page.get_by_label("Shares of devices").fill("1")
    page.get_by_label("Reason").fill("a smaller share")
    page.get_by_role("button", name="Show the effect").click()
    expect(page.get_by_text(re.compile(r"pods with devices stay; over by \d devices"))).to_be_visible()
    assert _violations(page) == []
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved. Every open page shows it")).to_be_visible()
    expect(watching.get_by_text(re.compile(r"over by \d devices")).first).to_be_visible()


def test_quota_in_bytes_is_refused_in_the_form(opened: Opener) -> None:
    page = opened("/namespaces/nlp")
    page.get_by_role("link", name="Change quota nlp/default").first.click()
    page.get_by_label("Memory, MiB").fill(str(16 * 2**30))
    page.get_by_label("Reason").fill("more")
    page.get_by_role("button", name="Show the effect").click()
    expect(page.get_by_text("MiB, not bytes: 16 GiB is 16384 (")).to_be_visible()


def test_page_follows_the_ledger_and_keeps_what_is_open(opened: Opener, site: Site) -> None:
    page = opened("/pods/uid-train")
    page.locator("#shares summary").click()
    table = opened("/pods")
    site.run("-m", "tests.browser.fill", "late")
    expect(table.get_by_role("link", name="latecomer")).to_be_visible()
    expect(page.locator("#shares")).to_have_attribute("open", "")


def test_hidden_tabs_do_not_poll(opened: Opener) -> None:
    page = opened("/")
    page.evaluate("Object.defineProperty(document, 'hidden', {get: () => true})")
    page.wait_for_timeout(500)
    polls: list[str] = []
    page.on("request", lambda sent: polls.append(sent.url))
    page.wait_for_timeout(3500)
    assert polls == []


def test_poll_answers_nothing_while_nothing_changes(opened: Opener) -> None:
    page = opened("/nodes")
    with page.expect_response(lambda answer: "after=" in answer.url) as caught:
        pass
    assert caught.value.status == 204


@pytest.mark.parametrize("path", PAGES)
def test_page_is_accessible(opened: Opener, path: str) -> None:
    page = opened(path)
    assert _violations(page) == []


@pytest.mark.parametrize("path", ["/", "/devices/GPU-n1-0", "/quotas", "/budgets/1", "/waste"])
def test_dark_page_is_accessible(opened: Opener, path: str) -> None:
    page = opened(path, color_scheme="dark")
    assert _violations(page) == []


@pytest.mark.parametrize("path", PAGES)
def test_page_works_from_360_pixels(opened: Opener, path: str) -> None:
    page = opened(path, **NARROW)
    assert _overflow(page) == 0


@pytest.mark.parametrize("path", ["/accounts/login/", "/nowhere"])
def test_pages_without_a_frame_are_accessible(site: Site, browser: Browser, path: str) -> None:
    context = browser.new_context(**NARROW)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(site.url + path)
    assert _violations(page) == []
    context.close()


def test_somebody_without_a_role_is_told_whom_to_ask(site: Site, browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    sign_in(page, site, "eve")
    expect(page.get_by_text("Ask an operator for one")).to_be_visible()
    context.close()


def test_member_sees_no_links_that_change(opened: Opener) -> None:
    page = opened("/namespaces/nlp", person="ann")
    expect(page.get_by_role("heading", name="nlp", level=1)).to_be_visible()
    expect(page.locator("a[href*='/admin/']")).to_have_count(0)


def test_policy_forbids_inline_code(opened: Opener, site: Site) -> None:
    page = opened("/")
    answer = page.request.get(site.url + "/")
    policy = answer.headers["content-security-policy"]
    for part in ("default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"):
        assert part in policy
    assert "unsafe" not in policy


def test_keys_search_and_go(opened: Opener) -> None:
    page = opened("/")
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("train")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="train")).to_be_visible()
    page.locator("h1").click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("q")
    expect(page.get_by_role("heading", name="Quotas", level=1)).to_be_visible()


def test_theme_is_kept(opened: Opener) -> None:
    page = opened("/", color_scheme="light")
    page.locator("#theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


@pytest.mark.parametrize(
    "path", ["", "accounting/quota/", "accounting/quota/add/", "accounting/device/", "accounting/pod/"]
)
def test_admin_obeys_the_policy_too(opened: Opener, path: str) -> None:
    page = opened(f"/admin/{path}")
    expect(page.locator("#content")).to_be_visible()


def test_collected_static_files_serve_the_console(tmp_path: pathlib.Path, browser: Browser) -> None:
    with site_in(tmp_path, collected=True) as site:
        context = browser.new_context()
        page = context.new_page()
        complaints: list[str] = []
        watch(page, site, complaints)
        sign_in(page, site, "root")
        expect(page.get_by_role("heading", name="Cluster", level=1)).to_be_visible()
        assert re.search(r"console\.[0-9a-f]{12}\.css", page.content())
        with page.expect_response(lambda answer: "after=" in answer.url) as caught:
            pass
        assert caught.value.status == 204
        assert complaints == []
        context.close()


def _violations(page: Page) -> list[str]:
    """What axe objects to, one line each."""
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]


def _overflow(page: Page) -> int:
    """By how many pixels the page is wider than the screen."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
