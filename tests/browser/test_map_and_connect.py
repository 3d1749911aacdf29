"""The map's colours, how devices are, and connecting a cluster, as a person uses them."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser import looking
from tests.browser.conftest import Opener, Site

pytestmark = pytest.mark.browser

NARROW = {"width": 360, "height": 740}


def test_what_the_colours_tell_is_chosen_by_keyboard_and_kept_in_the_address(opened: Opener) -> None:
    page = opened("/")
    page.get_by_role("link", name="temperature", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/\?colour=temperature$"))
    expect(page.locator("#d-GPU-n4-4")).to_have_accessible_name("n4/4: temperature: 71 °C")
    expect(page.locator("#d-GPU-n4-4 .cell-number")).to_have_text("71")
    expect(page.locator("#d-GPU-n2-0")).to_have_accessible_name("n2/0: temperature: not known")
    expect(page.locator("section[aria-labelledby=heat-title] .legend")).to_contain_text("70–79 °C")
    page.locator("#d-GPU-n4-4").focus()
    expect(page.locator("#d-GPU-n4-4 .tip")).to_contain_text("temperature: 71 °C")


@pytest.mark.parametrize("colour, cell, words", [
    ("use", "GPU-n4-6", "n4/6: measured use: 84 %"),
    ("cores", "GPU-n4-6", "n4/6: cores held: 0 %"),
    ("health", "GPU-n4-6", "n4/6: slowed down"),
    ("health", "GPU-n4-7", "n4/7: unhealthy"),
])  # fmt: skip
def test_each_choice_is_told_in_words(opened: Opener, colour: str, cell: str, words: str) -> None:
    page = opened(f"/?colour={colour}")
    expect(page.locator(f"#d-{cell}")).to_have_accessible_name(words)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "path", ["/?colour=temperature", "/?colour=health", "/nodes/n4", "/devices/GPU-n4-6", "/connect"]
)
def test_nothing_is_wider_than_a_telephone_nor_hard_to_read(opened: Opener, scheme: str, path: str) -> None:
    page = opened(path, color_scheme=scheme, viewport=NARROW)
    assert looking.overflow(page) == 0
    assert looking.serious(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_numbers_can_be_read_on_every_colour(opened: Opener, scheme: str) -> None:
    """axe does not look into drawings: contrast is worked out here, 4.5 : 1 for each step."""
    page = opened("/?colour=temperature", color_scheme=scheme)
    ratios = page.evaluate(
        """() => {
          const light = colour => {
            const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(one => one / 255)
              .map(one => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const fill = (tag, css) => {
            const one = document.createElementNS('http://www.w3.org/2000/svg', tag);
            one.setAttribute('class', css);
            document.querySelector('.heat svg').append(one);
            return light(getComputedStyle(one).fill);
          };
          const ink = fill('text', 'cell-number');
          const steps = [0, 1, 2, 3, 4, 5].flatMap(n => [`held-${n}`, `heat-${n}`]);
          return [...steps, 'well', 'off', 'slow', 'ill'].map(css => {
            const back = fill('rect', `cell-back ${css}`);
            return [css, (Math.max(ink, back) + 0.05) / (Math.min(ink, back) + 0.05)];
          });
        }"""
    )
    assert len(ratios) == 16
    assert [css for css, ratio in ratios if ratio < 4.5] == []


def test_a_node_and_a_device_tell_how_they_are(opened: Opener) -> None:
    for path in ("/devices/GPU-n4-6", "/nodes/n4"):
        page = opened(path)
        reading = page.locator(".reading", has_text="89 °C")
        expect(reading).to_contain_text("300 W (allowed 300)")
        expect(reading).to_contain_text("slowed by heat, by the driver")
    expect(page.locator(".reading", has_text="XID 79").first).to_contain_text("✕ XID 79")


def test_looks_are_asked_for_once_and_the_page_follows_them(opened: Opener, site: Site) -> None:
    """Without a cluster the looks are in vain, and the page says so."""
    page = opened("/health")
    page.get_by_role("link", name="Connect a cluster").click()
    expect(page.get_by_text("Nobody has looked yet.")).to_be_visible()
    page.get_by_role("button", name="Look now").click()
    expect(page.get_by_text("Asked for by root")).to_be_visible()
    expect(page.get_by_role("button", name="Look now")).to_have_count(0)
    site.run("-c", "import django; django.setup(); from accounting import tasks; tasks.examine()")
    expect(page.get_by_text("HAMI_KUBECONFIG:")).to_be_visible()
    expect(page.get_by_role("button", name="Look again")).to_be_visible()


def test_who_is_no_operator_is_not_led_to_connect(opened: Opener) -> None:
    page = opened("/nodes", person="ann")
    expect(page.get_by_role("link", name="Connect a cluster")).to_have_count(0)
