"""What somebody who pays looks at: days, groups, the file, the chart, and what is held and not used."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Opener

pytestmark = pytest.mark.browser


def test_days_and_groups_are_chosen_and_kept_in_the_address(opened: Opener) -> None:
    page = opened("/usage")
    expect(page.get_by_role("rowheader", name="labs")).to_be_visible()
    page.get_by_role("link", name="owner", exact=True).click()
    expect(page.get_by_role("rowheader", name="nlp · Job/j0")).to_be_visible()
    page.get_by_role("link", name="30 days").click()
    expect(page).to_have_url(re.compile("by=owner.*window=30d|window=30d.*by=owner"))
    expect(page.get_by_role("row", name=re.compile("idle: nobody held it"))).to_be_visible()


def test_report_is_downloaded_as_a_file(opened: Opener) -> None:
    page = opened("/usage?by=namespace")
    with page.expect_download() as caught:
        page.get_by_role("link", name="CSV").click()
    assert caught.value.suggested_filename.startswith("usage-namespace-")
    lines = caught.value.path().read_text().splitlines()
    assert lines[0].startswith("from,to,tenant,namespace")
    assert any("(idle)" in line for line in lines)


def test_chart_is_there_as_a_table_too(opened: Opener) -> None:
    page = opened("/usage")
    expect(
        page.get_by_role("img", name=re.compile("Devices held: registered .* devices, held .* devices"))
    ).to_be_visible()
    page.get_by_text("The same as a table").click()
    expect(page.get_by_role("columnheader", name="Hour, UTC")).to_be_visible()


def test_idle_share_leads_to_its_pod(opened: Opener) -> None:
    page = opened("/usage")
    page.get_by_role("link", name="Idle and waste").click()
    page.get_by_role("link", name="nlp/train").click()
    expect(page.get_by_role("columnheader", name="% of its share")).to_be_visible()


def test_a_request_is_tried_for_fragments(opened: Opener) -> None:
    page = opened("/fragmentation")
    page.get_by_label("Request: memory on a device, MiB").fill("20000")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("A request for 20\u202f000 MiB").first).to_be_visible()


def test_a_budget_is_changed_and_its_burn_down_follows(opened: Opener) -> None:
    page = opened("/tenants/spare")
    page.get_by_role("link", name="spare/default", exact=True).last.click()
    expect(
        page.get_by_role("img", name=re.compile("Burn-down: 500.00 of 500.00 device hours are left"))
    ).to_be_visible()
    page.get_by_role("link", name="change", exact=True).click()
    page.get_by_label("Device hours").fill("700")
    page.get_by_label("Reason").fill("a larger project")
    page.get_by_role("button", name="Save").click()
    expect(
        page.get_by_role("img", name=re.compile("Burn-down: 700.00 of 700.00 device hours are left"))
    ).to_be_visible()
    page.get_by_role("group").get_by_text("The same as a table").click()
    expect(page.get_by_role("columnheader", name="Likely left")).to_be_visible()


def test_a_budget_is_set_from_the_overview(opened: Opener) -> None:
    page = opened("/budgets?state=spent")
    expect(page.get_by_role("link", name="nlp/default", exact=True).first).to_be_visible()
    expect(page.get_by_role("link", name="spare/default")).to_have_count(0)
    page.get_by_label("New budget of").select_option("namespace:edge")
    page.get_by_role("button", name="Set a budget").click()
    page.get_by_label("Reason").fill("without an amount")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("plan device hours, an amount of money, or both")
    page.get_by_label("Device hours").fill("40")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="Budget edge/default")).to_be_visible()


def test_waste_is_followed_from_namespace_to_pod(opened: Opener) -> None:
    page = opened("/waste?by=namespace")
    expect(page.get_by_role("heading", name="What counts as waste")).to_be_visible()
    page.get_by_role("rowheader", name="nlp").get_by_role("link").click()
    expect(page).to_have_url(re.compile("namespace=nlp.*by=pod"))
    expect(page.get_by_role("rowheader", name="nlp/train")).to_be_visible()
    with page.expect_download() as caught:
        page.get_by_role("link", name="CSV", exact=True).click()
    assert caught.value.suggested_filename.startswith("waste-pod-")
