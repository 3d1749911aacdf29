"""Usage and prices over REST: the page's figures, the same reach, prices set with a reason."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from accounting import ledger, models
from tests.accounting.answers import csv_lines, results
from tests.accounting.test_api_rest import client_of, person, problem_of, url
from tests.accounting.test_usage_hours import HOUR_US
from tests.accounting.test_usage_pages import price, report, used

pytestmark = pytest.mark.django_db

WHY: dict[str, Any] = {"reason": "set up"}


@pytest.fixture
def root() -> Any:
    return client_of(models.User.objects.create_superuser("root"))


def test_usage_is_the_reports(root: Any) -> None:
    used()
    price("*A10*", "1.0001")
    rows = results(root.get(url("usage"), {"by": "tenant"}))
    said = report("tenant")
    assert [row["device_us"] for row in rows] == [*(line.card_us for line in said.lines), said.idle.card_us]  # type: ignore[union-attr]
    assert [row["idle"] for row in rows] == [False, False, True]
    assert sum(row["charges"][0]["cents"] for row in rows) == said.total.cents["EUR"]


def test_usage_is_narrowed_and_given_as_csv(root: Any) -> None:
    used()
    price("*", "1")
    answer = root.get(url("usage"), {"by": "owner", "tenant": "labs", "format": "csv"})
    assert answer["Content-Type"].startswith("text/csv")
    lines = csv_lines(answer)
    assert {(line["namespace"], line["owner"]) for line in lines} == {("nlp", "Job/j0"), ("nlp", "Job/j1"), ("cv", "")}
    one = results(root.get(url("usage"), {"namespace": "nlp"}))
    assert [(row["tenant"], row["namespace"], row["device_us"]) for row in one] == [("labs", "nlp", 2 * (HOUR_US // 3))]


def test_another_tenants_usage_is_forbidden() -> None:
    used()
    ann = person("member", namespace="nlp")
    assert [row["namespace"] for row in results(ann.get(url("usage")))] == ["nlp"]
    for query in ({"namespace": "web"}, {"tenant": "labs"}, {"namespace": "web", "format": "csv"}):
        problem_of(ann.get(url("usage"), query), 403)


def test_bad_questions_name_the_parameter(root: Any) -> None:
    for query in ({"window": "8d"}, {"from": "x"}, {"by": "pod"}, {"nmespace": "nlp"}):
        body = problem_of(root.get(url("usage"), query), 400)
        assert next(iter(query)) in str(body["errors"])


def test_operators_set_change_and_delete_prices(root: Any) -> None:
    day = ledger.database_time().date()
    body = {"vendor": "NVIDIA", "model_pattern": "*A100*", "device_hour": "2.5", "valid_from": str(day), **WHY}
    made = root.post(url("prices"), body, format="json")
    assert made.status_code == 201, made.content
    assert (made.json()["device_hour"], made.json()["currency"]) == ("2.5000", "EUR")
    problem_of(root.post(url("prices"), body, format="json"), 400)
    address = url("price", made.json()["id"])
    problem_of(root.patch(address, {"device_hour": "3", **WHY}, format="json"), 428)
    changed = root.patch(address, {"device_hour": "3", **WHY}, format="json", HTTP_IF_MATCH=made["ETag"])
    assert changed.json()["device_hour"] == "3.0000"
    problem_of(root.patch(address, {"device_hour": "4", **WHY}, format="json", HTTP_IF_MATCH=made["ETag"]), 412)
    assert [row["device_hour"] for row in results(root.get(url("prices")))] == ["3.0000"]
    assert root.delete(address, WHY, format="json", HTTP_IF_MATCH="*").status_code == 204
    assert results(root.get(url("prices"))) == []


def test_prices_are_read_by_everybody_and_set_by_operators() -> None:
    used()
    price("*", "1")
    ann = person("member", namespace="nlp")
    assert len(results(ann.get(url("prices")))) == 1
    day = str(ledger.database_time().date() - timedelta(days=1))
    body = {"vendor": "NVIDIA", "model_pattern": "x", "device_hour": "1", "valid_from": day, **WHY}
    problem_of(ann.post(url("prices"), body, format="json"), 403)
