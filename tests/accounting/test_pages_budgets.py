"""Pages of budgets: what they say, to whom, and how one is set in the console."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from accounting import models
from accounting.models import Budget
from tests.accounting import rows
from tests.accounting.answers import csv_lines
from tests.accounting.reading import person, text_of
from tests.accounting.test_budgets import budget, standing, summed_up, this_year
from tests.accounting.test_burndown import used_up
from tests.accounting.test_usage_hours import HOUR_US, past
from tests.accounting.test_usage_pages import hour, price

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk(client: Client) -> Client:
    client.force_login(models.User.objects.create_superuser("root"))
    return client


def entered(**fields: str) -> dict[str, str]:
    names = ("amount", "currency", "first_day", "last_day", "vendor", "model_pattern")
    return dict.fromkeys(names, "") | {
        "name": "default", "device_hours": "50", "period": "month", "reason": "a plan", "version": "0",
    } | fields  # fmt: skip


def test_overview_says_what_is_used_left_and_when_it_is_spent(desk: Client) -> None:
    used_up()
    page = text_of(desk, "budgets")
    assert "122.00 of 200.00 device hours used, 61 %, 78.00 left" in page
    likely = standing().burns[0].spent[1]
    assert likely is not None
    assert f"Likely spent on {likely:%Y-%m-%d}" in page
    assert "refuses nothing" in page


def test_states_narrow_the_list_and_an_empty_one_says_why(desk: Client) -> None:
    page = text_of(desk, "budgets")
    assert "No budget is set." in page
    rows.namespace_row("nlp")
    hour(past(2), "nlp", 9 * HOUR_US)
    budget(device_hours=10, **this_year())
    assert "nlp/default" in text_of(desk, "budgets", state="nearly")
    spent = text_of(desk, "budgets", state="spent")
    assert "nlp/default" not in spent
    assert "No budget is in this state." in spent


def test_one_budget_shows_its_burn_down_and_who_used_it(desk: Client) -> None:
    used_up()
    price("*", "2")
    budget(tenant="labs", device_hours=200, amount=Decimal(1000), currency="EUR", **this_year())
    one = str(Budget.objects.get().pk)
    page = text_of(desk, "budget", one)
    for part in ("Burn-down: 78.00 of 200.00 device hours are left", "area-band", "Burn-down: 756.00 of 1 000.00 EUR",
                 "mean of the last 7 whole days", "one standard deviation", "120.00</td>", "240.00</td>"):  # fmt: skip
        assert part in page
    assert "Job/j1" in text_of(desk, "budget", one, by="owner")
    assert "H100" in text_of(desk, "budget", one, by="model")


def test_files_have_what_the_pages_show(desk: Client) -> None:
    used_up()
    (line,) = csv_lines(desk.get(reverse("console:budgets"), {"format": "csv", "table": "budgets"}))
    assert (line["tenant"], line["used"], line["percent"]) == ("labs", "122.0", "61")
    one = reverse("console:budget", args=[Budget.objects.get().pk])
    lines = csv_lines(desk.get(one, {"by": "owner", "format": "csv", "table": "holders"}))
    assert sum(float(row["device_hours"]) for row in lines) == 122
    points = csv_lines(desk.get(one, {"table": "burndown", "format": "csv"}))
    assert points[0]["left"] == "200.0"


def test_a_budget_is_set_changed_and_taken_away_in_the_console(desk: Client) -> None:
    rows.namespace_row("nlp")
    new = reverse("console:budget-new") + "?scope=namespace:nlp"
    assert desk.get(new).status_code == 200
    made = desk.post(new, entered() | {"save": ""})
    row = Budget.objects.get()
    assert made["Location"] == reverse("console:budget", args=[row.pk])
    change = reverse("console:budget-edit", args=[row.pk])
    assert 'value="50"' in desk.get(change).content.decode()
    desk.post(change, entered(device_hours="60", version="1") | {"save": ""})
    row.refresh_from_db()
    assert (row.device_hours, row.version, row.reason) == (60, 2, "a plan")
    stale = desk.post(change, entered(device_hours="70", version="1") | {"save": ""})
    assert "you saw version 1, it is now 2" in stale.content.decode()
    assert 'name="version" value="2"' in stale.content.decode()
    assert desk.post(change, entered(version="2") | {"remove": ""})["Location"] == reverse("console:budgets")
    assert not Budget.objects.exists()


@pytest.mark.parametrize(
    "field, entries",
    [("device_hours", {"device_hours": ""}), ("currency", {"amount": "3"}), ("first_day", {"period": "once"})],
)
def test_what_is_no_budget_is_told_at_its_field(desk: Client, field: str, entries: dict[str, str]) -> None:
    rows.namespace_row("nlp")
    answer: Any = desk.post(reverse("console:budget-new") + "?scope=namespace:nlp", entered(**entries))
    assert list(answer.context["form"].errors) == [field]
    assert not Budget.objects.exists()


def test_pages_of_scopes_show_their_budgets(desk: Client) -> None:
    used_up()
    budget(device_hours=7)
    assert "labs/default" in text_of(desk, "tenant", "labs")
    page = text_of(desk, "namespace", "nlp")
    assert "nlp/default" in page
    assert "labs/default" not in page


def test_member_sees_her_own_and_sets_none() -> None:
    used_up()
    mine = budget(device_hours=7)
    summed_up()
    member = person("member", namespace="nlp")
    page = text_of(member, "budgets")
    assert "nlp/default" in page
    assert "labs" not in page
    assert "New budget of" not in page
    other = Budget.objects.exclude(pk=mine.pk).get().pk
    assert member.get(reverse("console:budget", args=[other])).status_code == 404
    assert member.get(reverse("console:budget-edit", args=[mine.pk])).status_code == 403
    assert member.get(reverse("console:budget-new") + "?scope=namespace:nlp").status_code == 403
    assert member.get(reverse("console:budget-new") + "?scope=tenant:labs").status_code == 403
    for scope in ("", "namespace:cv", "tenant:nobody", "pod:x"):
        assert member.get(reverse("console:budget-new"), {"scope": scope}).status_code == 404


def test_lead_sets_budgets_of_her_namespaces_only() -> None:
    used_up()
    lead = person("tenant-admin", tenant="labs")
    assert lead.get(reverse("console:budget-new") + "?scope=namespace:nlp").status_code == 200
    assert lead.get(reverse("console:budget-new") + "?scope=tenant:labs").status_code == 403
    page = text_of(lead, "budgets")
    assert '<option value="namespace:cv">' in page
    assert '<option value="tenant:labs">' not in page
    assert "labs/default" in page


def test_poll_answers_nothing_while_nothing_changes(desk: Client) -> None:
    used_up()
    page = desk.get(reverse("console:budgets"))
    again = desk.get(reverse("console:budgets"), {"after": page.context["stamp"]}, headers={"HX-Request": "true"})
    assert again.status_code == 204
