"""Budgets over REST: the page's figures, the same reach, and writes as for limits."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounting import models
from accounting.models import Budget, Journal
from accounting.services import namespaces, tenants
from tests.accounting import rows
from tests.accounting.answers import csv_lines, results
from tests.accounting.changes import WHY
from tests.accounting.test_api_rest import client_of, person, problem_of, url
from tests.accounting.test_budgets import budget, standing, summed_up, this_year
from tests.accounting.test_burndown import used_up
from tests.accounting.test_usage_hours import HOUR_US, past
from tests.accounting.test_usage_pages import hour, price

pytestmark = pytest.mark.django_db


@pytest.fixture
def root() -> Any:
    return client_of(models.User.objects.create_superuser("root"))


def test_a_budget_is_shown_as_it_stands(root: Any) -> None:
    used_up()
    price("*", "2")
    budget(tenant="labs", device_hours=200, amount=Decimal(1000), currency="EUR", **this_year())
    (row,) = results(root.get(url("budgets")))
    assert (row["tenant"], row["namespace"], row["device_hours"], row["amount"]) == ("labs", None, 200, "1000.00")
    said = {burn.unit: burn for burn in standing().burns}
    assert [burn["unit"] for burn in row["burns"]] == ["device_hours", "EUR"]
    hours, money = row["burns"]
    assert (hours["used"], hours["used_us"], hours["percent"], hours["left"]) == (122, 122 * HOUR_US, 61, 78)
    assert (money["used_cents"], money["limit"]) == (24400, 1000)
    assert hours["forecast"]["middle"] == pytest.approx(said["device_hours"].end.middle)  # type: ignore[union-attr]
    assert row["burns"] == root.get(url("budget", row["id"])).json()["burns"]


def test_a_long_list_takes_no_more_statements_than_a_short_one(root: Any) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as caught:
            root.get(url("budgets"))
        return len(caught)

    for n in range(2):
        budget(name=f"b{n}")
    statements()
    short = statements()
    for n in range(2, 12):
        budget(name=f"b{n}")
    statements()
    assert statements() == short


def test_budgets_are_filtered_ordered_and_given_as_csv(root: Any) -> None:
    for name in ("nlp", "cv"):
        budget(namespace=name)
    assert [row["namespace"] for row in results(root.get(url("budgets"), {"namespace": "cv"}))] == ["cv"]
    answer = root.get(url("budgets"), {"format": "csv", "ordering": "-name"})
    lines = csv_lines(answer)
    assert {line["namespace"] for line in lines} == {"nlp", "cv"}
    problem_of(root.get(url("budgets"), {"nmespace": "nlp"}), 400)


def test_burn_down_and_holders_are_the_pages(root: Any) -> None:
    used_up()
    one = Budget.objects.get().pk
    points = results(root.get(url("budget-burndown", one), {"limit": 500}))
    assert points[0]["left"] == 200
    assert points[-1]["left"] is None
    assert points[-1]["at"] == standing().period.until.isoformat().replace("+00:00", "Z")
    found = results(root.get(url("budget-holders", one), {"by": "owner"}))
    assert sum(row["device_us"] for row in found) == 122 * HOUR_US
    assert ("nlp", "Job/j0") in {(row["namespace"], row["owner"]) for row in found}
    problem_of(root.get(url("budget-holders", one), {"by": "pod"}), 400)
    text = b"".join(root.get(url("budget-burndown", one), {"format": "csv"}).streaming_content).decode()
    assert text.startswith("unit,at,even,left,low,middle,high")


def test_budgets_are_set_changed_and_taken_away(root: Any) -> None:
    rows.namespace_row("nlp")
    body = {"namespace": "nlp", "device_hours": 50, "reason": "a first guess"}
    tried = root.post(url("budgets") + "?dry_run=true", body, format="json")
    assert (tried.status_code, Budget.objects.count()) == (201, 0)
    made = root.post(url("budgets"), body, format="json")
    assert made.status_code == 201, made.content
    problem_of(root.post(url("budgets"), body, format="json"), 409)
    address = url("budget", made.json()["id"])
    problem_of(root.patch(address, {"device_hours": 60, "reason": "more"}, format="json"), 428)
    more = {"amount": "10.50", "currency": "eur", "reason": "more"}
    changed = root.patch(address, more, format="json", HTTP_IF_MATCH=made["ETag"]).json()
    assert (changed["device_hours"], changed["amount"], changed["currency"]) == (50, "10.50", "EUR")
    problem_of(root.patch(address, more, format="json", HTTP_IF_MATCH=made["ETag"]), 412)
    put = root.put(address, {"device_hours": 1, "version": changed["version"], "reason": "all of it"}, format="json")
    assert (put.json()["device_hours"], put.json()["amount"]) == (1, None)
    assert root.delete(address, {"reason": "over"}, format="json", HTTP_IF_MATCH="*").status_code == 204
    assert Budget.history.count() == 4  # type: ignore[attr-defined]
    assert list(Journal.objects.filter(kind="budget").values_list("cause", flat=True)) == [
        "budget_set", "budget_set", "budget_set", "budget_delete"
    ]  # fmt: skip


def test_a_wrong_budget_names_what_is_wrong(root: Any) -> None:
    for field, body in (
        ("device_hours", {}),
        ("currency", {"amount": "3"}),
        ("first_day", {"device_hours": 3, "period": "once"}),
        ("period", {"device_hours": 3, "period": "week"}),
        ("tenant", {"device_hours": 3, "tenant": "nobody"}),
    ):
        scope = {} if "tenant" in body else {"namespace": "nlp"}
        found = problem_of(root.post(url("budgets"), scope | body | {"reason": "x"}, format="json"), 400)
        assert found["errors"][0]["field"] == field


def test_another_tenants_budget_is_not_there_and_who_reads_does_not_write() -> None:
    tenants.tenant_save(name="labs", **WHY)
    namespaces.namespace_save(name="nlp", tenant="labs", **WHY)
    rows.namespace_row("web")
    hour(past(2), "nlp", HOUR_US)
    summed_up()
    mine, other, above = budget(), budget(namespace="web"), budget(tenant="labs")
    ann = person("member", namespace="nlp")
    assert [row["id"] for row in results(ann.get(url("budgets")))] == [mine.pk]
    for row in (other, above):
        for page in ("budget", "budget-burndown", "budget-holders"):
            problem_of(ann.get(url(page, row.pk)), 404)
    change = {"device_hours": 1, "reason": "mine"}
    problem_of(ann.patch(url("budget", mine.pk), change, format="json", HTTP_IF_MATCH="*"), 403)
    problem_of(ann.post(url("budgets"), {"namespace": "nlp", "name": "b", **change}, format="json"), 403)
    lead = person("tenant-admin", tenant="labs")
    assert lead.patch(url("budget", mine.pk), change, format="json", HTTP_IF_MATCH="*").status_code == 200
    problem_of(lead.patch(url("budget", above.pk), change, format="json", HTTP_IF_MATCH="*"), 403)
