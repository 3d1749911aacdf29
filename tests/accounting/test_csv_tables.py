"""Every table of the console as CSV: a link beside each, all rows of it, and nothing that a spreadsheet would run."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.test import Client

from accounting import ledger, models
from accounting.pages import overview
from accounting.selectors import activity
from accounting.services import findings, people
from tests.accounting.answers import csv_lines
from tests.browser import fill

pytestmark = pytest.mark.django_db

PAGES = (
    "/", "/nodes", "/nodes/n1", "/devices", "/devices/GPU-n1-0", "/pods", "/pods?state=pending", "/pods/uid-train",
    "/pods/uid-big", "/pending", "/quotas", "/quotas/as-of", "/namespaces/nlp", "/tenants/labs", "/findings",
    "/activity", "/usage", "/tokens", "/fragmentation", "/idle", "/health", "/settings", "/budgets",
    "/budgets/1", "/waste", "/waste?by=pod",
)  # fmt: skip
"""Pages with tables: one that is new is found by the walk through all pages, which looks for links as well."""
TABLE = re.compile(r"<table([^>]*)>")
LINK = re.compile(r'<a (?:class="[^"]*" )?href="([^"]*format=csv[^"]*)"[^>]*download')


@pytest.fixture
def desk() -> Client:
    fill.everything()
    client = Client()
    client.force_login(models.User.objects.get(username="root"))
    return client


def read(client: Client, path: str, link: str) -> list[dict[str, str]]:
    answer = client.get(path.partition("?")[0] + link)
    assert answer.status_code == 200, link
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"].startswith("attachment")
    return csv_lines(answer)


def links(page: str) -> list[str]:
    return [html.unescape(found) for found in LINK.findall(page)]


def without_link(page: str) -> list[str]:
    """Tables that no link of the page gives."""
    given = links(page)
    names = {(re.findall(r"[?&]table=([^&]*)", link) or [""])[0] for link in given}
    tables = [re.search(r'data-csv="([^"]*)"', found) for found in TABLE.findall(page)]
    return [found[1] if found else "unnamed" for found in tables if (found[1] if found else "") not in names]


def test_every_table_has_a_link_that_gives_its_rows(desk: Client) -> None:
    for path in PAGES:
        page = desk.get(path).content.decode()
        assert without_link(page) == [], path
        if TABLE.search(page):
            assert all(read(desk, path, link) for link in links(page)), f"{path}: a table is empty"


def test_a_table_gives_all_rows_with_the_filters_of_its_page(desk: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "SHOWN", 2)
    monkeypatch.setattr(activity, "PIECE", 3)
    cards = {row["uuid"]: row for row in read(desk, "/devices", "?format=csv&table=devices")}
    assert len(cards) == 42
    card = cards["GPU-n1-0"]
    assert (card["memory_mib"], card["memory_reserved_mib"], card["core_percent"]) == ("24576", "512", "100")
    (link,) = links(desk.get("/pods?namespace=cv&after=1-2").content.decode())
    assert "namespace=cv" in link
    assert "after" not in link
    assert {row["namespace"] for row in read(desk, "/pods", link)} == {"cv"}
    assert {row["node"] for row in read(desk, "/devices", "?text=m1&format=csv&table=devices")} == {"m1"}
    revisions = [int(row["revision"]) for row in read(desk, "/activity", "?format=csv&table=changes")]
    assert len(revisions) == models.Journal.objects.count()
    assert revisions == sorted(revisions, reverse=True)
    for path in ("/pods?format=csv", "/pods?format=csv&table=nodes", "/quotas?format=csv&table=pods"):
        assert desk.get(path).status_code == 404


def test_a_table_has_the_roles_of_its_page(desk: Client) -> None:
    people.role_grant(role="member", user="eve", namespace="cv", reason="test", actor="root")
    member = Client()
    member.force_login(models.User.objects.get(username="eve"))
    assert {row["namespace"] for row in read(member, "/pods", "?format=csv&table=pods")} == {"cv"}
    assert "train" not in str(read(member, "/devices/GPU-n1-0", "?format=csv&table=holders"))
    for path in ("/findings?format=csv&table=findings", "/settings?format=csv&table=settings", "/namespaces/nlp"):
        assert member.get(path).status_code == 403
    assert Client().get("/pods?format=csv&table=pods").status_code == 302


def test_tables_run_nothing_tell_no_secret_and_name_columns_alike_in_any_language(desk: Client) -> None:
    with ledger.transaction(cause="test") as entry:
        findings.finding_raise(entry, kind="k", subject="=1+1", message="@SUM(1)", evidence={})
    found = read(desk, "/findings", "?format=csv&table=findings")
    assert "'=1+1" in {row["subject"] for row in found}
    assert "'@SUM(1)" in {row["message"] for row in found}
    shown = {row["setting"]: row for row in read(desk, "/settings", "?format=csv&table=settings")}
    assert shown["HAMI_SECRET_KEY"]["value"] == ""
    assert shown["HAMI_CLUSTER"]["value"] == "default"
    answer: Any = desk.get("/nodes?format=csv&table=nodes", HTTP_ACCEPT_LANGUAGE="zh-hans")
    assert b"".join(answer.streaming_content).startswith(b"node,retired,cordoned_in_kubernetes")
