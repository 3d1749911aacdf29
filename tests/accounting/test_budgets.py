"""Budgets: what is planned is kept with its reason, what is used is exactly what was held, and nothing is refused."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accounting import ledger, live_view
from accounting.models import Budget, ProcessLease, Registration, UsageHour, UsageInterval, User
from accounting.selectors import access, budgets, usage_report
from accounting.selectors.budgets import HOURS, Burn, Standing
from accounting.services import budgets as services
from accounting.services import errors, namespaces, rollups, tenants
from accounting.services.budgets import Plan
from hami_platform.domain import budgets as domain
from hami_platform.domain.quota import Selector
from tests.accounting import flow, kube_objects, rows
from tests.accounting.changes import WHY, one_change, refused
from tests.accounting.test_usage_hours import HOUR, HOUR_US, past
from tests.accounting.test_usage_pages import hour, price

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]


def budget(**changes: Any) -> Budget:
    """Of nlp: 100 device hours a month, unless told otherwise; fields of the plan by their names."""
    named = {"namespace": "nlp"} if not changes.keys() & {"namespace", "tenant"} else {}
    plan = {name: changes.pop(name) for name in list(changes) if name in Plan.__dataclass_fields__}
    return services.budget_set(plan=Plan(**{"device_hours": 100} | plan), **named | WHY | changes)


def standing(**only: str) -> Standing:
    """The only budget there is, for somebody who sees everything."""
    (found,) = budgets.standings(live_view.live().refresh(), access.ALL, **only)
    return found


def burn(unit: str = HOURS) -> Burn:
    return next(one for one in standing().burns if one.unit == unit)


def summed_up(at: datetime | None = None) -> None:
    """The roll-up has run."""
    done = {"succeeded_at": at or ledger.database_time()}
    ProcessLease.objects.update_or_create(cluster_id=ledger.cluster_id(), name=usage_report.ROLLUP, defaults=done)


def this_year() -> dict[str, Any]:
    """A period around now that no turn of a month cuts."""
    today = ledger.database_time().date()
    return {"period": "once", "first_day": today - timedelta(100), "last_day": today + timedelta(100)}


# -- What is planned


def test_a_budget_is_one_change_with_its_reason() -> None:
    User.objects.create_user("ada")
    rows.namespace_row("nlp")
    with one_change("budget", Budget.history.model):
        row = budget(amount=Decimal("99.5"), currency="eur")
    assert (str(row), row.device_hours, row.amount, row.currency) == ("nlp/default", 100, Decimal("99.50"), "EUR")
    with one_change("budget", Budget.history.model):
        budget(device_hours=120)
    row.refresh_from_db()
    assert (row.device_hours, row.amount, row.currency, row.version) == (120, None, "", 2)


def test_saving_the_same_again_writes_nothing() -> None:
    budget()
    before = Budget.history.count()
    assert budget().version == 1
    assert Budget.history.count() == before


def test_taking_one_away_keeps_its_history() -> None:
    User.objects.create_user("ada")
    row = budget()
    with one_change("budget", Budget.history.model):
        services.budget_delete(budget_id=row.pk, **WHY)
    assert not Budget.objects.exists()


def test_who_saw_an_older_version_is_told() -> None:
    row = budget()
    budget(device_hours=7)
    for expected in (0, 1):
        with pytest.raises(errors.Outdated):
            budget(device_hours=9, expected_version=expected)
    with pytest.raises(errors.Outdated):
        services.budget_delete(budget_id=row.pk, expected_version=1, **WHY)


@pytest.mark.parametrize(
    "field, plan",
    [
        ("device_hours", {"device_hours": None}),
        ("device_hours", {"device_hours": -1}),
        ("amount", {"amount": Decimal(-1), "currency": "EUR"}),
        ("amount", {"amount": Decimal("NaN"), "currency": "EUR"}),
        ("currency", {"amount": Decimal(1)}),
        ("currency", {"amount": Decimal(1), "currency": "EURO"}),
        ("period", {"period": "week"}),
        ("first_day", {"period": "once"}),
        ("last_day", {"period": "once", "first_day": date(2026, 1, 1)}),
        ("last_day", {"period": "once", "first_day": date(2026, 1, 2), "last_day": date(2026, 1, 1)}),
        ("last_day", {"period": "once", "first_day": date(2026, 1, 1), "last_day": date(2027, 1, 2)}),
        ("first_day", {"first_day": date(2026, 1, 1)}),
        ("namespace", {"namespace": "", "tenant": ""}),
        ("tenant", {"tenant": "nobody"}),
        ("vendor", {"selector": Selector("ACME")}),
        ("reason", {"reason": " "}),
    ],
)
def test_what_is_no_budget_is_refused_by_name(field: str, plan: dict[str, Any]) -> None:
    with refused(field):
        budget(**plan)


def test_a_tenant_with_a_budget_is_not_taken_away_unseen() -> None:
    row = tenants.tenant_save(name="labs", **WHY)
    budget(tenant="labs")
    with refused("", "budget"):
        tenants.tenant_delete(tenant_id=row.pk, **WHY)


def test_a_budget_refuses_nothing() -> None:
    flow.cluster()
    budget(device_hours=0)
    assert flow.admit(kube_objects.pod("p", mem=1000)).granted


# -- What is used


def test_h64_four_quarters_of_a_card_for_an_hour_use_one_hour_of_the_budget() -> None:
    at = past(3)
    interval_rows([("nlp", n, 6144, 25, at, at + HOUR) for n in range(4)], at)
    rollups.hours_rollup()
    budget(device_hours=4, **this_year())
    assert (burn().used, burn().percent, burn().left) == (1, 25, 3)


def test_h65_a_share_counts_by_what_it_holds_however_busy_it_is() -> None:
    at = past(3)
    interval_rows([("nlp", 0, 4915, 20, at, at + HOUR)], at)
    rollups.hours_rollup()
    budget(device_hours=1, **this_year())
    assert burn().used == Fraction(20, 100)


def interval_rows(held: list[tuple[str, int, int, int, datetime, datetime]], since: datetime) -> None:
    """One card of 24 576 MiB that is there since then, and who held it: namespace, pod, MiB, %, from, until."""
    with ledger.transaction(cause="test") as entry:
        for namespace in {one[0] for one in held} | {"nlp"}:
            rows.namespace_row(namespace)
        card = {"cluster_id": entry.clock.cluster_id, "node": "n1", "vendor": "NVIDIA", "uuid": "GPU-1", "model": "A10"}
        Registration.objects.create(memory_mib=24576, core_percent=100, started_at=since, **card)
        for namespace, pod, mib, percent, start, end in held:
            UsageInterval.objects.create(
                pod_uid=f"uid-{pod}", namespace=namespace, pod_name=f"p{pod}", slots=1, memory_mib=mib,
                core_percent=percent, started_at=start, ended_at=end, **card,
            )  # fmt: skip


TURN = datetime(2026, 3, 1, tzinfo=UTC)
_turns = st.integers(-20, 20).map(lambda quarters: TURN + quarters * HOUR / 4)
_held = st.tuples(
    st.sampled_from(("nlp", "cv", "web")), st.integers(0, 99), st.sampled_from((3072, 6144, 24576)),
    st.sampled_from((0, 25, 50)), _turns, _turns,
)  # fmt: skip


def test_law_use_is_who_held_what_cut_at_the_period() -> None:
    tenants.tenant_save(name="labs", **WHY)
    for name in ("nlp", "cv"):
        namespaces.namespace_save(name=name, tenant="labs", **WHY)
    days = {"period": "once", "first_day": TURN.date(), "last_day": TURN.date()}
    before = TURN.date() - timedelta(1)
    budget(name="after", **days)
    budget(tenant="labs", **days)
    budget(namespace="web", period="once", first_day=before, last_day=before)
    slices = [TURN + n * HOUR / 4 for n in range(-24, 24)]
    stamps = itertools.count()

    @settings(max_examples=15, suppress_health_check=list(HealthCheck))
    @given(st.lists(_held.filter(lambda one: one[4] < one[5]), max_size=6))
    def law(held: list[Any]) -> None:
        with ledger.transaction(cause="test"):
            for model in (UsageInterval, Registration, UsageHour):
                model.objects.all().delete()
        interval_rows(held, TURN - 6 * HOUR)
        for n in range(-6, 6):
            rollups._hour(TURN + n * HOUR, TURN + 9 * HOUR)
        summed_up(TURN + 48 * HOUR + next(stamps) * 2 * HOUR)  # another hour: sums of what is over are kept for one
        used = {one.rule: one.burns[0].used for one in budgets.standings(live_view.live().refresh(), access.ALL)}
        for rule, names, wanted in (
            ("nlp/after", {"nlp"}, [at for at in slices if at >= TURN]),
            ("labs/default", {"nlp", "cv"}, [at for at in slices if at >= TURN]),
            ("web/default", {"web"}, [at for at in slices if at < TURN]),
        ):
            exact = sum((share(held, at, names) for at in wanted), Fraction()) / 4
            # Every hour's sums are whole microseconds; the parts of a crowded card need not be.
            assert abs(used[rule] - exact) * HOUR_US <= 12 * len(names), rule
            if not any(sum(part for _, part in parts(held, at)) > 1 for at in slices):
                assert used[rule] == exact

    law()


def parts(held: list[Any], at: datetime) -> list[tuple[str, Fraction]]:
    """(namespace, part of the card) of all who hold it at a time."""
    here = [one for one in held if one[4] <= at < one[5]]
    return [(one[0], max(Fraction(one[2], 24576), Fraction(one[3], 100))) for one in here]


def share(held: list[Any], at: datetime, names: set[str]) -> Fraction:
    """The part of the card that these hold, looking at one moment alone."""
    everybody = parts(held, at)
    whole = max(Fraction(1), sum((part for _, part in everybody), Fraction()))
    return sum((part for name, part in everybody if name in names), Fraction()) / whole


def test_only_the_models_that_are_meant_count() -> None:
    rows.namespace_row("nlp")
    hour(past(2), "nlp", HOUR_US)
    hour(past(2), "nlp", 3 * HOUR_US, model="H100")
    budget(selector=Selector("NVIDIA", "*H100*"), **this_year())
    assert burn().used == 3


def test_money_counts_by_the_price_of_each_day_and_names_what_has_none() -> None:
    rows.namespace_row("nlp")
    long_ago = past(0) - timedelta(days=9)
    price("*A10*", "1", days_ago=30)
    price("*A10*", "3", days_ago=5)
    price("*L40S*", "9", currency="USD")
    for at in (long_ago, past(1)):
        hour(at, "nlp", HOUR_US)
    hour(past(1), "nlp", HOUR_US, model="H100")
    hour(past(1), "nlp", HOUR_US, model="L40S")
    budget(device_hours=None, amount=Decimal(10), currency="EUR", **this_year())
    assert (burn("EUR").used, burn("EUR").percent) == (4, 40)
    assert standing().unpriced == ("H100", "L40S")


def test_a_tenant_counts_all_namespaces_below_it() -> None:
    tenants.tenant_save(name="root", **WHY)
    tenants.tenant_save(name="leaf", parent="root", **WHY)
    for name, tenant in (("nlp", "leaf"), ("cv", "root"), ("web", "")):
        namespaces.namespace_save(name=name, tenant=tenant, **WHY)
        hour(past(2), name, HOUR_US)
    budget(tenant="root", **this_year())
    assert burn().used == 2


def test_a_month_begins_with_nothing_used() -> None:
    rows.namespace_row("nlp")
    first = ledger.database_time().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    hour(first - HOUR, "nlp", 5 * HOUR_US)
    hour(first, "nlp", HOUR_US)
    budget()
    assert burn().used == 1
    assert standing().period.since == first


# -- Where it goes


def test_the_pace_is_of_the_last_whole_days_also_before_the_period() -> None:
    rows.namespace_row("nlp")
    for back in range(1, 24 * 10 + 1):
        hour(past(back), "nlp", HOUR_US // 2)
    summed_up(past(0) + HOUR / 3)
    today = past(0).date()
    budget(device_hours=100, period="once", first_day=today, last_day=today + timedelta(9))
    found = burn()
    assert found.pace == domain.Pace(7, 12.0, 0.0)
    assert found.at == past(0)
    to_come = Fraction(found.hours_left, 2)
    assert found.end is not None
    assert found.end.middle == pytest.approx(float(found.used + to_come))
    likely = found.spent[1]
    assert likely is not None
    assert (likely - found.at) / HOUR == pytest.approx(float((100 - found.used) * 2), abs=1)


def test_days_before_the_first_hour_on_record_are_unknown_not_empty() -> None:
    rows.namespace_row("nlp")
    for back in range(1, 24 * 2 + 5):
        hour(past(back), "nlp", HOUR_US)
    budget(**this_year())
    summed_up()
    pace = burn().pace
    assert pace is not None
    assert (pace.days, pace.mean) == (2, 24.0)


def test_less_than_a_day_on_record_foretells_nothing() -> None:
    rows.namespace_row("nlp")
    hour(past(1), "nlp", HOUR_US)
    budget(**this_year())
    found = burn()
    assert (found.pace, found.end, found.spent) == (None, None, (None, None, None))


def test_a_period_that_is_over_goes_nowhere() -> None:
    rows.namespace_row("nlp")
    for back in range(1, 24 * 12):
        hour(past(back), "nlp", HOUR_US)
    last = past(0).date() - timedelta(3)
    budget(period="once", first_day=last - timedelta(1), last_day=last)
    found = burn()
    assert (found.used, found.hours_left) == (48, 0)
    assert found.end == domain.Ahead(48.0, 48.0, 48.0)


# -- Who sees it


def test_budgets_are_seen_by_who_sees_their_scope() -> None:
    leaf = tenants.tenant_save(name="leaf", **WHY)
    namespaces.namespace_save(name="nlp", tenant="leaf", **WHY)
    budget()
    budget(tenant="leaf")
    budget(namespace="web")
    view = live_view.live().refresh()

    def seen(reach: access.Reach) -> set[str]:
        return {one.rule for one in budgets.standings(view, reach)}

    assert seen(access.ALL) == {"nlp/default", "leaf/default", "web/default"}
    assert seen(access.Reach(namespaces=frozenset({"nlp"}))) == {"nlp/default"}
    both = access.Reach(namespaces=frozenset({"nlp"}), tenants=frozenset({leaf.pk}), manages=frozenset({"nlp"}))
    assert seen(both) == {"nlp/default", "leaf/default"}
    assert {one.rule for one in budgets.standings(view, both) if one.editable} == {"nlp/default"}


def test_the_most_used_comes_first() -> None:
    for name, us in (("nlp", 1), ("cv", 9), ("web", 4)):
        rows.namespace_row(name)
        hour(past(2), name, us * HOUR_US)
        budget(namespace=name, device_hours=10, **this_year())
    found = budgets.standings(live_view.live().refresh(), access.ALL)
    assert [one.scope for one in found] == ["cv", "web", "nlp"]
    assert [one.state for one in found] == ["nearly", "", ""]
    assert [one.percent for one in itertools.islice(found, 2)] == [90, 40]
