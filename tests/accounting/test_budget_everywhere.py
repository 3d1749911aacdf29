"""The same figures of budgets and waste on pages, over REST, on the command line and as metrics."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from accounting import live_view, models
from accounting.meters import budgets as meters
from tests.accounting.answers import results
from tests.accounting.reading import text_of
from tests.accounting.test_api_rest import client_of, url
from tests.accounting.test_budgets import budget, this_year
from tests.accounting.test_burndown import used_up
from tests.accounting.test_usage_pages import price
from tests.accounting.test_waste import two_owners

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]


@pytest.fixture
def desk(client: Client) -> Client:
    client.force_login(models.User.objects.create_superuser("root"))
    return client


def command(*arguments: str) -> Any:
    text = StringIO()
    call_command(*arguments, "--json", stdout=text)
    return json.loads(text.getvalue())


def metric(name: str, unit: str) -> float:
    lines = "\n".join(meters.ours(live_view.live().refresh()))
    found = re.search(
        rf'^{name}{{budget="labs/default",scope="labs",scope_kind="tenant",unit="{unit}"}} (\S+)$', lines, re.M
    )
    assert found, lines
    return float(found[1])


def test_a_budget_is_the_same_everywhere(desk: Client) -> None:
    used_up()
    price("*", "2")
    budget(tenant="labs", device_hours=200, amount=Decimal(1000), currency="EUR", **this_year())
    (rest,) = results(client_of(models.User.objects.get(username="root")).get(url("budgets")))
    (said,) = command("budget", "list")
    page = text_of(desk, "budgets")
    for burn, told in zip(rest["burns"], said["burns"], strict=True):
        assert burn == told
        unit = burn["unit"]
        assert metric("hami_platform_budget_used", unit) == burn["used"]
        assert metric("hami_platform_budget_limit", unit) == burn["limit"]
        assert metric("hami_platform_budget_forecast", unit) == pytest.approx(burn["forecast"]["middle"])
        words = "device hours" if unit == "device_hours" else unit
        limit = f"{burn['limit']:,.2f}".replace(",", " ")
        assert f"{burn['used']:.2f} of {limit} {words} used, {burn['percent']} %" in page


def test_waste_is_the_same_everywhere(desk: Client) -> None:
    two_owners()
    price("*A10*", "10")
    rest = results(client_of(models.User.objects.get(username="root")).get(url("waste"), {"by": "namespace"}))
    said = {line["holder"][0]: line for line in command("usage", "--by", "namespace")["lines"]}
    page = text_of(desk, "waste", by="namespace")
    for row in rest:
        line = said[row["namespace"]]
        assert (row["unused_us"], row["cores_idle_us"]) == (line["unused_us"], line["cores_idle_us"])
        cents = row["unused_charges"][0]["cents"]
        assert cents == line["unused_cents"]["EUR"]
        assert f'<td class="num">{cents / 100:.2f}</td></tr>' in page
