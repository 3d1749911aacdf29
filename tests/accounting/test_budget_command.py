"""`manage.py budget`: how budgets stand, and setting one, as REST has it."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from accounting.models import Budget
from tests.accounting import rows
from tests.accounting.test_budgets import budget, this_year
from tests.accounting.test_burndown import used_up
from tests.accounting.test_usage_hours import HOUR_US, past
from tests.accounting.test_usage_pages import hour

pytestmark = pytest.mark.django_db


def said(*arguments: str) -> str:
    text = StringIO()
    call_command("budget", *arguments, stdout=text)
    return text.getvalue()


def plain(*arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(said(*arguments, "--json"))
    return found


def test_it_lists_what_is_planned_used_and_left() -> None:
    used_up()
    text = said("list")
    assert "labs/default" in text
    assert all(part in text for part in ("200.00", "122.00", "61", "78.00"))
    (one,) = plain("show", "tenant:labs")
    assert one["burns"][0]["used_us"] == 122 * HOUR_US
    assert "no budget" in said("show", "nobody")


def test_one_that_is_spent_is_exit_code_1() -> None:
    rows.namespace_row("nlp")
    hour(past(2), "nlp", 2 * HOUR_US)
    budget(device_hours=2, **this_year())
    budget(namespace="web")
    with pytest.raises(SystemExit) as ended:
        said("list", "--spent")
    assert ended.value.code == 1
    assert "no budget" in said("show", "other")


def test_it_sets_what_is_named_and_keeps_the_rest() -> None:
    why = ("--reason", "a plan", "--actor", "ann")
    said("set", "nlp", "--hours", "50", "--model", "*A100*", *why)
    said("set", "nlp", "--amount", "12.50EUR", "--period", "quarter", *why)
    row = Budget.objects.get()
    assert (row.device_hours, str(row.amount), row.currency, row.period) == (50, "12.50", "EUR", "quarter")
    assert (row.model_pattern, row.version, row.reason) == ("*A100*", 2, "a plan")
    said("set", "nlp", "--amount", "none", "--from", "2026-05-01", "--to", "2026-05-31", *why)
    row.refresh_from_db()
    assert (row.amount, row.period, str(row.last_day)) == (None, "once", "2026-05-31")
    said("remove", "nlp", *why)
    assert not Budget.objects.exists()


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["set", "nlp"], "device_hours"),
        (["set", "nlp", "--hours", "many"], "hours"),
        (["set", "nlp", "--amount", "EUR"], "amount"),
        (["set", "nlp", "--amount", "5"], "currency"),
        (["set", "nlp", "--hours", "5", "--from", "May"], "from"),
        (["set", "nlp", "--hours", "5", "--from", "2026-05-01"], "last_day"),
        (["set", "tenant:nobody", "--hours", "5"], "tenant"),
        (["remove", "nlp"], "no budget"),
    ],
)
def test_wrong_input_is_exit_code_2_and_named(arguments: list[str], told: str) -> None:
    with pytest.raises(CommandError, match=told) as fault:
        said(*arguments, "--reason", "x")
    assert fault.value.returncode == 2
