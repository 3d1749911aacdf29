"""From a pod that waits to what would make it run, and to the form in which it is done; and questions of what if."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Opener

pytestmark = pytest.mark.browser

MANIFEST = """kind: Pod
metadata: {namespace: nlp}
spec: {containers: [{name: a, image: b, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 3000}}}]}
"""


def test_pending_leads_to_the_pod_and_to_what_would_make_it_run(opened: Opener) -> None:
    page = opened("/pending")
    page.get_by_role("link", name="big").click()
    expect(page.get_by_text(re.compile("can never fit here"))).to_be_visible()
    expect(page.get_by_role("list", name="Checks, in order")).to_contain_text("Fits on none of")
    box = page.get_by_role("list", name="What would make it run").get_by_role("listitem").first
    expect(box).to_contain_text("Then it is placed on")
    page.get_by_role("link", name="Try other amounts").click()
    expect(page.get_by_label("Devices", exact=True)).to_have_value("9")
    expect(page.get_by_label("Memory on each, MiB")).to_have_value("90000")


def test_a_question_fits_or_says_what_is_missing(opened: Opener) -> None:
    page = opened("/simulate")
    page.get_by_label("Namespace", exact=True).fill("cv")
    page.get_by_label("Memory on each, MiB").fill("60000")
    page.get_by_role("button", name="Simulate", exact=True).click()
    expect(page.locator("#answer")).to_contain_text("Needs 60\u202f000 MiB on a device")
    expect(page).to_have_url(re.compile("memory_mib=60000"))
    page.get_by_label("Memory on each, MiB").fill("6000")
    page.get_by_role("button", name="Simulate", exact=True).click()
    expect(page.locator("#answer")).to_contain_text("Fits now on")
    expect(page.locator(".near-device.chosen")).to_have_count(1)


def test_only_the_fields_of_the_chosen_change_are_shown(opened: Opener) -> None:
    page = opened("/simulate")
    expect(page.get_by_label("Limit of")).to_be_hidden()
    page.get_by_label("What changes").select_option("quota")
    expect(page.get_by_label("Limit of")).to_be_visible()
    expect(page.get_by_label("Node", exact=True)).to_be_hidden()
    page.get_by_label("What changes").select_option("drain")
    expect(page.get_by_label("Node", exact=True)).to_be_visible()
    expect(page.get_by_label("or device, by uuid")).to_be_hidden()
    page.get_by_label("Node", exact=True).fill("n1")
    page.get_by_role("button", name="Simulate", exact=True).click()
    expect(page.locator("#answer")).to_contain_text("would find another place")


def test_a_manifest_is_pasted(opened: Opener) -> None:
    page = opened("/simulate")
    page.get_by_label("Manifest, YAML or JSON").fill(MANIFEST)
    page.get_by_role("button", name="Simulate the manifest").click()
    expect(page.locator("#answer")).to_contain_text("Fits now on")


def test_a_raised_limit_is_proposed_and_filled_in(opened: Opener) -> None:
    page = opened("/simulate?namespace=nlp&devices=5&memory_mib=9000")
    page.get_by_role("link", name=re.compile("Do it.*Raise nlp.default")).first.click()
    expect(page.get_by_label("Reason")).to_be_visible()
    page.get_by_label("Reason").fill("the team grew")
    page.get_by_role("button", name="Show the effect").click()
    expect(page.get_by_role("heading", name="What it would do")).to_be_visible()


def test_keys_lead_to_pending_and_simulate(opened: Opener) -> None:
    page = opened("/")
    page.keyboard.press("g")
    page.keyboard.press("p")
    expect(page.get_by_role("heading", name="Pending", level=1)).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page.get_by_role("heading", name="Simulate", level=1)).to_be_visible()


def test_keys_go_from_row_to_row(opened: Opener) -> None:
    page = opened("/pods")
    links = page.locator("#live tbody th a:first-child")
    page.keyboard.press("j")
    expect(links.nth(0)).to_be_focused()
    page.keyboard.press("j")
    expect(links.nth(1)).to_be_focused()
    page.keyboard.press("k")
    expect(links.nth(0)).to_be_focused()
