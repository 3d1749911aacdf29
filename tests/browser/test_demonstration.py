"""The first five minutes of somebody who started the demonstration, in both languages and both colour schemes.

Ten steps, each with what must be true of it. Every page is looked at by axe, and the browser must not complain.
"""

from __future__ import annotations

import json
import logging
import pathlib
import re
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import demonstration, looking
from tests.browser.demonstration import Demonstration

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

GATED = ("llm-train", "evaluate-0")
LIMIT, RAISED = 12, 16
PLACED_WITHIN_S = 5.0
NARROW_SPACE = "\u202f"


@dataclass
class Walk:
    """One walk: a page, its language, and what was found wrong so far."""

    demo: Demonstration
    page: Page
    language: str
    problems: list[str]

    def t(self, text: str) -> str:
        """The text in this walk's language."""
        return looking.said(self.language, text)

    def go(self, path: str) -> None:
        self.page.goto(self.demo.url + path)
        self.look()

    def look(self) -> None:
        self.problems += looking.serious(self.page)

    def heading(self, text: str) -> None:
        expect(self.page.get_by_role("heading", level=1)).to_contain_text(self.t(text))


@pytest.fixture(params=[("en", "light"), ("en", "dark"), ("zh-hans", "light"), ("zh-hans", "dark")], ids="-".join)
def walk(
    request: pytest.FixtureRequest, demo: Demonstration, browser: Browser, signed_in: pathlib.Path
) -> Iterator[Walk]:
    language, scheme = request.param
    expect.set_options(timeout=looking.TIMEOUT_MS)
    _waits_again(demo)
    window = {"width": 1280, "height": 800}
    context = looking.context_for(browser, language=language, scheme=scheme, storage_state=signed_in, viewport=window)
    complaints: list[str] = []
    yield (found := Walk(demo, looking.watched(context, demo.url, complaints), language, []))
    context.close()
    told = [*complaints, *found.problems]
    assert not told, "\n".join(told)


def test_five_minutes_with_the_demonstration(walk: Walk) -> None:
    _cluster(walk)
    _device(walk)
    uid = _pending(walk)
    _simulate(walk)
    _raise(walk, uid)
    _history(walk)
    _charges(walk)
    _api(walk)
    _language_and_theme(walk)
    _connect(walk)


def _cluster(walk: Walk) -> None:
    """One screen: what is simulated, four figures, a cell for each card, reasons, limits; and it changes by itself."""
    walk.go("/")
    walk.heading("Cluster")
    expect(walk.page.locator(".strip")).to_contain_text(walk.t("Simulated cluster"))
    expect(walk.page.locator(".figure")).to_have_count(4)
    expect(walk.page.locator("a.cell")).to_have_count(40)
    for part in ("#heat-title", "#quota-title"):
        expect(walk.page.locator(part)).to_be_in_viewport()
    expect(walk.page.locator("#pending-title")).to_be_visible()
    assert looking.overflow(walk.page) == 0
    before = walk.page.locator("#fresh-revision").inner_text()
    expect(walk.page.locator("#fresh-revision")).not_to_have_text(before)


def _device(walk: Walk) -> None:
    """A hot cell leads to its card, whose holders add up to the total."""
    walk.page.locator(".heat-row", has_text="gpu-h100-1").locator("a.cell").first.click()
    expect(walk.page.locator("#holders-title")).to_be_visible()
    walk.look()
    holders = walk.page.locator("section[aria-labelledby=holders-title]")
    expect(holders.get_by_role("link").first).to_be_visible()
    found = walk.page.evaluate(
        """() => ({
          cells: [...document.querySelectorAll('section[aria-labelledby=holders-title] tbody tr')]
            .map(row => row.cells[2].textContent),
          said: document.querySelector('section[aria-labelledby=memory-title] .say').textContent,
        })"""
    )
    numbers = [int(re.sub(r"\D", "", cell)) for cell in found["cells"]]
    assert f"{sum(numbers):,}".replace(",", NARROW_SPACE) in found["said"]


def _pending(walk: Walk) -> str:
    """From the reasons to one pod that waits for quota: the sentence, the checks, the changes that would help. Page,
    command line and API say the same."""
    walk.go("/pending")
    walk.heading("Pending")
    expect(walk.page.locator("table.reason-bars tbody tr")).not_to_have_count(0)
    walk.page.get_by_role("link", name=GATED[1], exact=True).click()
    expect(walk.page.locator("p.headline")).to_be_visible()
    walk.look()
    expect(walk.page.get_by_role("list", name=walk.t("Checks, in order")).get_by_role("listitem")).not_to_have_count(0)
    expect(walk.page.get_by_role("list", name=walk.t("What would make it run"))).to_be_visible()
    uid = walk.page.url.rpartition("/")[2]
    if walk.language == "en":
        told = json.loads(walk.demo.manage("why", "/".join(GATED), "--json", codes=(0, 1)))
        assert told["headline"] in walk.page.locator("p.headline").inner_text()
        rest = walk.page.request.get(f"{walk.demo.url}/api/v1/pods/{uid}/explain").json()
        assert rest["headline"] == told["headline"]
    return uid


def _simulate(walk: Walk) -> None:
    """Half as many cards would fit now; nothing is written by the question."""
    walk.page.get_by_role("link", name=walk.t("Try other amounts")).click()
    walk.heading("Simulate")
    walk.page.get_by_label(walk.t("Devices"), exact=True).fill("4")
    walk.page.get_by_role("button", name=walk.t("Simulate"), exact=True).click()
    expect(walk.page.locator(".near-device.chosen")).to_have_count(4)
    walk.look()
    placed = walk.demo.pod(*GATED)
    assert placed is not None
    assert "nodeName" not in placed["spec"]


def _raise(walk: Walk, uid: str) -> None:
    """Raised in the admin, with the effect shown first and a reason: the gated pod is bound within seconds."""
    walk.go("/admin/accounting/quota/?q=llm-train")
    walk.page.get_by_role("link", name="llm-train/default").click()
    walk.page.locator("#id_devices").fill(str(RAISED))
    walk.page.locator("#id_reason").fill("the evaluation must run")
    walk.page.locator("input[name=_preview]").click()
    expect(walk.page.locator("section.effect")).to_contain_text("/".join(GATED))
    walk.page.locator("input[name=_save]").click()
    took = demonstration.until(lambda: _node(walk.demo), "the gated pod is bound", PLACED_WITHIN_S)
    logging.getLogger(__name__).info("bound %.1f s after the answer to the saved quota", took)
    walk.go(f"/pods/{uid}")
    expect(walk.page.locator("#live a", has_text=str(_node(walk.demo))).first).to_be_visible()


def _node(demo: Demonstration) -> str:
    pod = demo.pod(*GATED)
    return str(pod["spec"].get("nodeName", "")) if pod else ""


def _waits_again(demo: Demonstration) -> None:
    """The pod is deleted where it has a node, and made again by who keeps it; the limit of 12 gates it."""
    if _node(demo):
        demo.pod_delete(*GATED)
    demonstration.until(lambda: demo.pod(*GATED) and not _node(demo), "the pod waits", 60)


def _history(walk: Walk) -> None:
    """Who, when, why and what; back again is a change like any other. Afterwards the pod waits as before."""
    walk.go("/admin/accounting/quota/?q=llm-train")
    walk.page.get_by_role("link", name="llm-train/default").click()
    walk.page.locator("a.historylink").click()
    rows = walk.page.locator("#change-history tbody tr")
    expect(rows.first).to_contain_text("the evaluation must run")
    expect(rows.first).to_contain_text(f"{LIMIT} → {RAISED}")
    expect(rows.first).to_contain_text("admin")
    walk.page.locator("#change-history tbody tr").nth(1).get_by_role("link").click()
    walk.page.locator("#id_reason").fill("the evaluation is over")
    walk.page.locator("input[type=submit]").first.click()
    walk.go("/quotas/as-of")
    walk.go("/namespaces/llm-train")
    expect(walk.page.locator("#live")).to_contain_text(re.compile(rf"\b{LIMIT} "))
    answer = walk.page.request.get(f"{walk.demo.url}/api/v1/quotas?namespace=llm-train").json()
    assert [one["devices"] for one in answer["results"]] == [LIMIT]
    _waits_again(walk.demo)


def _charges(walk: Walk) -> None:
    """Last month by tenant: charges and idle time are the sum, to the cent, and the same as a spreadsheet."""
    walk.go("/usage?window=last-month&by=tenant")
    walk.heading("Usage")
    columns = walk.page.locator("table.charges thead th.num").count()
    place = 1 + walk.page.locator("table.charges thead th").all_inner_texts().index("EUR")
    cents = [
        int(re.sub(r"\D", "", text))
        for text in walk.page.locator(f"table.charges tbody tr td:nth-child({place})").all_inner_texts()
    ]
    total = walk.page.locator(f"table.charges tfoot td:nth-child({place})").inner_text()
    assert columns > 4
    assert sum(cents) == int(re.sub(r"\D", "", total)) > 0
    expect(walk.page.locator("tr.idle-row")).to_be_visible()
    href = walk.page.locator("a[download]").first.get_attribute("href")
    csv = walk.page.request.get(urllib.parse.urljoin(walk.page.url, str(href)))
    assert csv.headers["content-type"].startswith("text/csv")


def _api(walk: Walk) -> None:
    """A token, the command that stands beside it, and the API's own page."""
    walk.go("/tokens")
    walk.page.locator("#id_name").fill("a try")
    walk.page.locator("button[name=make]").click()
    walk.look()
    command = walk.page.locator("pre code").inner_text()
    found = re.fullmatch(r'curl -H "Authorization: (Bearer \S+)" (\S+)', command)
    assert found is not None, command
    asked = urllib.request.Request(found.group(2), headers={"Authorization": found.group(1)})  # noqa: S310  (our own)
    with urllib.request.urlopen(asked, timeout=30) as answer:  # noqa: S310
        assert json.load(answer)["devices"]
    walk.page.goto(f"{walk.demo.url}/api/docs")
    expect(walk.page.get_by_text("/api/v1/cluster").first).to_be_visible()


def _language_and_theme(walk: Walk) -> None:
    """The other language and the other scheme are a button each; they stay, and nothing is left untranslated."""
    other = next(code for code in looking.LANGUAGES if code != walk.language)
    walk.go("/quotas")
    walk.page.locator(f"form.language button[value={other}]").click()
    expect(walk.page.get_by_role("heading", level=1)).to_have_text(looking.said(other, "Quotas"))
    walk.look()
    walk.page.locator("#theme").click()
    theme = walk.page.evaluate("document.documentElement.dataset.theme")
    walk.page.reload()
    assert walk.page.evaluate("document.documentElement.dataset.theme") == theme
    walk.look()
    walk.page.locator(f"form.language button[value={walk.language}]").click()
    walk.heading("Quotas")


def _connect(walk: Walk) -> None:
    """What a real cluster would need is looked at by the worker, and by a command; here both find the simulated one."""
    walk.page.goto(walk.demo.url + "/")
    walk.page.locator(".strip").get_by_role("link", name=walk.t("Connect a cluster")).click()
    walk.heading("Connect a cluster")
    walk.page.locator("#look").click()
    expect(walk.page.get_by_role("button", name=walk.t("Look again"))).to_be_visible()
    expect(walk.page.locator(".connect .chip.ok")).not_to_have_count(0)
    expect(walk.page.locator(".connect", has_text=walk.t("Make the tables"))).to_contain_text(walk.t("done"))
    walk.look()
    if walk.language == "en":
        told = json.loads(walk.demo.manage("doctor", "--json", codes=(0, 1, 2)))
        assert len(json.dumps(told)) > 500
