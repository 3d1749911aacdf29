"""Usage on the command line: the numbers of the page, in a terminal."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from accounting import ledger
from accounting.models import UsageHour
from tests.accounting import flow

pytestmark = pytest.mark.django_db

HOUR_US = 3_600_000_000


@pytest.fixture(autouse=True)
def used() -> None:
    """One hour of two cards, of which half a one was idle."""
    flow.cluster()
    at = ledger.database_time().replace(minute=0, second=0, microsecond=0)
    for namespace, card_us in (("nlp", HOUR_US), ("vision", HOUR_US // 2), ("", HOUR_US // 2)):
        UsageHour.objects.create(
            cluster_id=ledger.cluster_id(), hour=at, namespace=namespace, vendor="NVIDIA", model="A10", card_us=card_us
        )


def said(*arguments: str) -> str:
    text = StringIO()
    call_command("usage", *arguments, stdout=text)
    return text.getvalue()


def plain(*arguments: str) -> Any:
    return json.loads(said(*arguments, "--json"))


def test_holders_and_idle_time_are_the_whole() -> None:
    found = plain("--by", "namespace")
    assert {tuple(line["holder"]): line["device_hours"] for line in found["lines"]} == {("nlp",): 1.0, ("vision",): 0.5}
    assert found["idle"]["device_hours"] == 0.5
    assert found["total"]["device_hours"] == 2.0


def test_one_namespace_has_no_idle_row() -> None:
    found = plain("--by", "namespace", "--namespace", "nlp")
    assert [line["holder"] for line in found["lines"]] == [["nlp"]]
    assert found["idle"] is None


def test_a_table_for_people_says_what_is_missing() -> None:
    text = said("--by", "namespace")
    assert [line.split()[:2] for line in text.splitlines()[2:6]] == [
        ["nlp", "1.00"], ["vision", "0.50"], ["(idle)", "0.50"], ["(all)", "2.00"],
    ]  # fmt: skip
    assert "without a price" in text
    assert "never been summed up" in text


@pytest.mark.parametrize("arguments", [("--window", "fortnight"), ("--from", "yesterday"), ("--from", "2026-13-01")])
def test_bad_days_are_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError) as fault:
        said(*arguments)
    assert fault.value.returncode == 2
