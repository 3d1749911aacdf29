"""The console in Chinese: nothing is cut or set one character a line, and two people who change one thing are told."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser import looking
from tests.browser.conftest import Opener
from tests.browser.test_console import NARROW, PAGES

pytestmark = pytest.mark.browser

CHINESE = {"locale": looking.LOCALES["zh-hans"]}
TALL = "all => all.filter(one => one.innerText.trim() && one.clientHeight > 60).map(one => one.innerText)"


@pytest.mark.parametrize("path", PAGES)
def test_page_works_in_chinese_from_360_pixels(opened: Opener, path: str) -> None:
    page = opened(path, **NARROW, **CHINESE)
    expect(page.locator("html")).to_have_attribute("lang", "zh-hans")
    assert looking.overflow(page) == 0
    assert page.eval_on_selector_all(".side a, thead th, button", TALL) == []


@pytest.mark.parametrize("size", [{}, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_admin_shows_both_versions_to_who_saves_second(opened: Opener, size: dict[str, object], scheme: str) -> None:
    options = {**size, **CHINESE, "color_scheme": scheme}
    first, second = _form(opened, **options), _form(opened, **options)
    before = int(first.locator("#id_devices").input_value())
    _save(first, before + 1)
    expect(first.locator(".success")).to_be_visible()
    _save(second, before + 100)
    told = second.locator("section.conflict")
    expect(told).to_contain_text("其他人已先保存")
    row = told.locator("tbody tr").filter(has_text="设备")
    expect(row).to_have_text(re.compile(rf"{before}\s*{before + 1}\s*▲ 期间已更改\s*{before + 100}\s*将更改"))
    shown, card = row.bounding_box(), told.bounding_box()
    assert shown is not None
    assert card is not None
    assert shown["x"] + shown["width"] <= card["x"] + card["width"]
    _save(second, before + 2)
    expect(second.locator(".success")).to_be_visible()


def _form(opened: Opener, **options: object) -> Page:
    page = opened("/admin/accounting/quota/?q=desk", **options)
    page.get_by_role("link", name="desk/default").click()
    return page


def _save(page: Page, devices: int) -> None:
    page.locator("#id_devices").fill(str(devices))
    page.locator("#id_reason").fill("for a look")
    page.locator("input[name=_save]").click()
