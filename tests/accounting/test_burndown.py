"""The burn-down of a budget: its line ends at what is left, and who used it comes to what is used."""

from __future__ import annotations

import itertools
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest

from accounting import ledger
from accounting.models import UsageHour
from accounting.selectors import burndown
from accounting.services import namespaces, tenants
from tests.accounting import rows
from tests.accounting.changes import WHY
from tests.accounting.test_budgets import budget, standing, summed_up, this_year
from tests.accounting.test_usage_hours import HOUR, HOUR_US, past
from tests.accounting.test_usage_pages import hour, price

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]


def used_up() -> None:
    """Half a device for ten days by nlp, a whole one by cv for two hours; 100 hours are planned by their tenant."""
    tenants.tenant_save(name="labs", **WHY)
    for name in ("nlp", "cv"):
        namespaces.namespace_save(name=name, tenant="labs", **WHY)
    now, kind = past(0), {"cluster_id": ledger.cluster_id(), "vendor": "NVIDIA", "model": "A10"}
    UsageHour.objects.bulk_create(
        UsageHour(hour=now - back * HOUR, namespace="nlp", owner=f"Job/j{back % 2}", card_us=HOUR_US // 2, **kind)
        for back in range(1, 24 * 10 + 1)
    )
    for back in (3, 4):
        hour(past(back), "cv", HOUR_US, model="H100")
    summed_up()
    budget(tenant="labs", device_hours=200, **this_year())


def test_the_line_falls_from_all_to_what_is_left() -> None:
    used_up()
    found = standing()
    (line,) = burndown.burndowns(found)
    passed = [one for one in line.points if one.left is not None]
    assert passed[0].left == 200
    assert [one.left for one in passed] == sorted((one.left for one in passed), reverse=True)
    assert passed[-1].left == float(found.burns[0].left) == 200 - 122
    assert passed[-1].at == found.burns[0].at


def test_every_point_is_what_was_used_before_it() -> None:
    used_up()
    (line,) = burndown.burndowns(standing())
    for one in line.points:
        if one.left is not None and one.at < past(0):
            halves = sum(1 for back in range(1, 241) if past(back) < one.at)
            wholes = sum(1 for back in (3, 4) if past(back) < one.at)
            assert one.left == 200 - halves / 2 - wholes


def test_the_line_goes_on_within_its_band_to_the_end_of_the_period() -> None:
    used_up()
    found = standing()
    (line,) = burndown.burndowns(found)
    ahead = [one for one in line.points if one.middle is not None]
    assert ahead[0].middle == ahead[0].left
    assert ahead[-1].at == found.period.until
    end = found.burns[0].end
    assert end is not None
    assert ahead[-1].middle == pytest.approx(200 - end.middle)
    for one in ahead:
        assert one.low is not None
        assert one.middle is not None
        assert one.high is not None
        assert one.low <= one.middle <= one.high
    assert (line.points[0].even, line.points[-1].even) == (200, 0)
    gaps = {after.at - before.at for before, after in itertools.pairwise(line.points)}
    assert max(gaps) <= timedelta(hours=line.step_h)
    assert len(line.points) <= burndown.POINTS + 2


def test_the_hour_in_which_it_was_spent_is_told() -> None:
    used_up()
    budget(tenant="labs", device_hours=50, **this_year())
    (line,) = burndown.burndowns(standing())
    assert line.spent_at == past(240 - 99)
    assert line.burn.over == 72


@pytest.mark.parametrize("by", burndown.BY)
def test_who_used_it_comes_to_what_is_used_to_the_cent(by: str) -> None:
    used_up()
    price("*A10*", "1.0001")
    price("*H100*", "0.3333")
    budget(tenant="labs", device_hours=1, amount=Decimal(1000), currency="EUR", **this_year())
    found = standing()
    holders = burndown.holders(found, by)
    hours, money = found.burns
    assert sum((one.device_hours for one in holders), Fraction()) == hours.used
    assert sum(one.cents or 0 for one in holders) == round(money.used * 100)
    assert {one.parts for one in holders} == {
        "namespace": {("nlp",), ("cv",)},
        "owner": {("nlp", "Job/j0"), ("nlp", "Job/j1"), ("cv", "")},
        "model": {("NVIDIA", "A10"), ("NVIDIA", "H100")},
    }[by]


def test_time_before_the_first_hour_on_record_is_said_not_to_count() -> None:
    used_up()
    assert standing().unrecorded == past(240)
    today = past(0).date()
    budget(tenant="labs", device_hours=1, period="once", first_day=today, last_day=today)
    assert standing().unrecorded is None


def test_nothing_used_is_a_line_that_stays() -> None:
    rows.namespace_row("nlp")
    budget(**this_year())
    (line,) = burndown.burndowns(standing())
    assert {one.left for one in line.points} == {100, None}
    assert burndown.holders(standing(), "owner") == []
    assert line.points[0].at + HOUR * line.step_h == line.points[1].at
