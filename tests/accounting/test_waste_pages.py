"""What waste costs: the page, its file and REST say the same, to those who may see it."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from accounting import models
from accounting.selectors import waste
from tests.accounting import rows
from tests.accounting.answers import csv_lines, results
from tests.accounting.reading import person, text_of
from tests.accounting.test_api_rest import client_of, problem_of, url
from tests.accounting.test_usage_hours import HOUR_US, past
from tests.accounting.test_usage_pages import hour, price
from tests.accounting.test_waste import two_owners

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk(client: Client) -> Client:
    client.force_login(models.User.objects.create_superuser("root"))
    return client


def file_of(client: Client, page: str, **query: str) -> list[dict[str, str]]:
    return csv_lines(client.get(reverse(f"console:{page}"), query | {"format": "csv"}))


def test_the_page_says_what_waste_costs_and_what_counts_as_it(desk: Client) -> None:
    two_owners()
    price("*A10*", "10")
    page = text_of(desk, "waste", by="namespace")
    for part in (
        "Wasted, EUR",
        "<b>2.00</b>",
        "0.20</td>",
        "40.0 % of those measured",
        "100.0 %",
        "What counts as waste",
    ):
        assert part in page
    assert page.index(">cv</a>") < page.index(">nlp</a>")


@pytest.mark.parametrize("by", ["pod", "owner", "namespace", "tenant", "model"])
def test_page_file_and_rest_say_the_same(desk: Client, by: str) -> None:
    two_owners()
    price("*A10*", "10")
    root = client_of(models.User.objects.get(username="root"))
    shown = results(root.get(url("waste"), {"by": by}))
    assert sum(row["unused_us"] for row in shown) == HOUR_US // 5
    assert sum(row["unused_charges"][0]["cents"] for row in shown) == 200
    lines = file_of(desk, "waste", by=by)
    assert sum(float(line["unused_device_hours"]) for line in lines) == pytest.approx(0.2)
    assert sum(float(line["unused_amount"]) for line in lines) == 2
    page = text_of(desk, "waste", by=by)
    assert "<b>0.20</b>" in page
    assert "<b>2.00</b>" in page
    if by == "pod":
        assert {row["pod"] for row in shown} == {line["pod"] for line in lines} == {"lazy", "busy"}


def test_usage_has_it_beside_the_charge(desk: Client) -> None:
    two_owners()
    price("*A10*", "10")
    page = text_of(desk, "usage", by="namespace")
    assert "Not used, EUR" in page
    assert "0.20 · 2.00 EUR" in page.replace("</b>", "")
    found = {line["namespace"]: line for line in file_of(desk, "usage", by="namespace")}
    assert (found["cv"]["unused_device_hours"], found["cv"]["unused_amount"]) == ("0.200000", "2.00")
    root = client_of(models.User.objects.get(username="root"))
    row = next(row for row in results(root.get(url("usage"))) if row["namespace"] == "cv")
    assert (row["unused_us"], row["unused_charges"]) == (HOUR_US // 5, [{"currency": "EUR", "cents": 200}])


def test_without_measurements_nothing_is_called_waste_and_the_page_says_so(desk: Client) -> None:
    rows.namespace_row("nlp")
    hour(past(2), "nlp", HOUR_US)
    price("*", "1")
    page = text_of(desk, "waste", by="namespace")
    assert "Nothing was measured of what was held" in page
    assert "HAMI_PLATFORM_URL" in page
    assert '<td class="num">–</td>' in page


def test_made_up_hours_are_said_to_be(desk: Client) -> None:
    rows.namespace_row("nlp")
    hour(past(2), "nlp", HOUR_US, simulated=True)
    assert "are made up" in text_of(desk, "waste", by="namespace")
    assert "are made up" not in text_of(desk, "waste", by="pod")


def test_too_many_pods_are_said_to_be(desk: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    two_owners()
    monkeypatch.setattr(waste, "ROWS_MOST", 3)
    assert "Too many pods were measured" in text_of(desk, "waste", by="pod")
    root = client_of(models.User.objects.get(username="root"))
    problem: Any = problem_of(root.get(url("waste"), {"by": "pod"}), 400)
    assert problem["errors"][0]["field"] == "by"


def test_an_empty_cluster_says_why(desk: Client) -> None:
    for by in ("pod", "tenant"):
        assert "Nobody held a device on these days." in text_of(desk, "waste", by=by)


def test_members_read_their_own_waste_only() -> None:
    two_owners()
    member = person("member", namespace="nlp")
    for by in ("pod", "namespace", "owner"):
        page = text_of(member, "waste", by=by)
        assert "nlp" in page
        assert "lazy" not in page
        assert "cv" not in page
    for query in ({"namespace": "cv"}, {"namespace": "cv", "by": "pod", "format": "csv"}):
        assert member.get(reverse("console:waste"), query).status_code == 403
    ann = client_of(models.User.objects.get(username="ann"))
    problem_of(ann.get(url("waste"), {"namespace": "cv"}), 403)
    assert {row["namespace"] for row in results(ann.get(url("waste"), {"by": "pod"}))} == {"nlp"}


def test_bad_days_are_told(desk: Client) -> None:
    assert desk.get(reverse("console:waste"), {"from": "May"}).status_code == 400
    root = client_of(models.User.objects.get(username="root"))
    problem_of(root.get(url("waste"), {"window": "8d"}), 400)
    problem_of(root.get(url("waste"), {"by": "cluster"}), 400)
