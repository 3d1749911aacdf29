"""Usage, fragmentation, idle and waste: what the pages say, to whom, and that amounts add up."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from accounting import ledger, live_view, models
from accounting.models import UsageHour, UsageInterval
from accounting.selectors import access, idle, settings_shown, trends, usage_report, windows
from accounting.selectors.usage_report import Scope
from accounting.services import measurements, namespaces, prices, rollups, tenants
from accounting.services.measurements import Sample
from hami_platform import env
from tests.accounting import rows
from tests.accounting.answers import csv_lines
from tests.accounting.reading import person, text_of
from tests.accounting.rows import Given
from tests.accounting.test_usage_hours import HOUR_US, past

pytestmark = pytest.mark.django_db

WHY: dict[str, Any] = {"reason": "set up", "actor": "root"}
H = timedelta(hours=1)


@pytest.fixture
def desk(client: Client) -> Client:
    client.force_login(models.User.objects.create_superuser("root"))
    return client


def hour(
    at: datetime, namespace: str, card_us: int, owner: str = "", model: str = "A10", simulated: bool = False
) -> None:
    UsageHour.objects.create(
        cluster_id=ledger.cluster_id(), hour=at, namespace=namespace, owner=owner, vendor="NVIDIA", model=model,
        card_us=card_us, memory_mib_s=3600, core_percent_s=3600, simulated=simulated,
    )  # fmt: skip


def week() -> windows.Window:
    return windows.window_of({}, ledger.database_time())


def report(by: str = "namespace", scope: Scope | None = None) -> usage_report.Report:
    view = live_view.live().refresh()
    return usage_report.usage_report(view, access.ALL, week(), by=by, scope=scope)


def price(pattern: str, euros: str, days_ago: int = 30, currency: str = "EUR") -> None:
    day = ledger.database_time().date() - timedelta(days=days_ago)
    prices.price_set(
        vendor="NVIDIA", model_pattern=pattern, device_hour=Decimal(euros), valid_from=day, currency=currency, **WHY
    )


def used() -> None:
    """Three namespaces of two tenants, and idle time, over two hours."""
    tenants.tenant_save(name="labs", **WHY)
    namespaces.namespace_save(name="nlp", tenant="labs", **WHY)
    namespaces.namespace_save(name="cv", tenant="labs", **WHY)
    rows.namespace_row("web")
    for n, at in enumerate((past(2), past(1))):
        hour(at, "nlp", HOUR_US // 3, owner=f"Job/j{n}")
        hour(at, "cv", HOUR_US // 3)
        hour(at, "web", HOUR_US // 7)
        hour(at, "", 4 * HOUR_US - 2 * (HOUR_US // 3) - HOUR_US // 7)


# -- Charges


def test_charges_and_idle_time_come_to_capacity_times_price_to_the_cent() -> None:
    used()
    price("*A10*", "1.0001")
    for by in usage_report.BY:
        found = report(by)
        assert found.idle is not None
        cents = [line.cents["EUR"] for line in (*found.lines, found.idle)]
        assert sum(cents) == found.total.cents["EUR"] == round(Fraction("100.01") * 8)


def test_a_price_counts_from_its_day_on() -> None:
    at = past(2)
    hour(at - timedelta(days=2), "nlp", HOUR_US)
    hour(at, "nlp", HOUR_US)
    price("*", "1", days_ago=30)
    price("*", "3", days_ago=(ledger.database_time().date() - at.date()).days)
    assert report().total.cents == {"EUR": 400}


def test_models_without_a_price_are_told() -> None:
    used()
    hour(past(1), "nlp", HOUR_US, model="H100")
    price("*A10*", "2")
    found = report()
    assert found.unpriced == ("H100",)


def test_each_currency_is_a_column_of_its_own() -> None:
    used()
    hour(past(1), "nlp", HOUR_US, model="H100")
    price("*A10*", "2")
    price("*H100*", "4", currency="USD")
    found = report()
    assert found.currencies == ("EUR", "USD")
    assert found.total.cents == {"EUR": 1600, "USD": 400}


def test_tenant_adds_up_its_namespaces() -> None:
    used()
    by_tenant = {line.parts: line.card_us for line in report("tenant").lines}
    assert by_tenant == {("labs",): 4 * (HOUR_US // 3), ("",): 2 * (HOUR_US // 7)}
    assert {line.parts for line in report("owner").lines} == {
        ("nlp", "Job/j0"), ("nlp", "Job/j1"), ("cv", ""), ("web", "")
    }  # fmt: skip


def test_what_a_namespace_owes_does_not_depend_on_who_asks() -> None:
    used()
    price("*A10*", "1.0001")
    view = live_view.live().refresh()
    mine = usage_report.usage_report(view, access.Reach(namespaces=frozenset({"web"})), week(), by="namespace")
    assert [line.parts for line in mine.lines] == [("web",)]
    assert mine.idle is None
    assert mine.lines[0].cents == next(line for line in report().lines if line.parts == ("web",)).cents


def test_hours_that_were_made_up_are_said_to_be() -> None:
    hour(past(3), "nlp", HOUR_US, simulated=True)
    assert report().simulated


# -- The page


def test_usage_page_shows_charges_idle_time_and_a_chart(desk: Client) -> None:
    used()
    price("*A10*", "1")
    page = text_of(desk, "usage", by="tenant")
    for part in ("labs", "no tenant", "idle: nobody held it", "8.00</td>", "polyline", "EUR"):
        assert part in page
    assert "nlp" not in page


def test_csv_has_a_line_for_each_holder_and_runs_no_formula(desk: Client) -> None:
    rows.namespace_row("nlp")
    hour(past(1), "nlp", HOUR_US // 4, owner="=HYPERLINK(1)/x")
    price("*A10*", "2")
    answer = desk.get(reverse("console:usage"), {"by": "owner", "format": "csv"})
    assert answer["Content-Type"].startswith("text/csv")
    found = csv_lines(answer)
    assert found[0]["owner"] == "'=HYPERLINK(1)/x"
    assert (found[0]["device_hours"], found[0]["amount"], found[0]["currency"]) == ("0.250000", "0.50", "EUR")


def test_member_reads_her_own_charges_only() -> None:
    used()
    member = person("member", namespace="nlp")
    page = text_of(member, "usage")
    assert "nlp" in page
    assert "web" not in page
    assert "idle: nobody" not in page
    for query in ({"namespace": "web"}, {"tenant": "labs"}, {"namespace": "web", "format": "csv"}):
        assert member.get(reverse("console:usage"), query).status_code == 403


@pytest.mark.parametrize("query", [{"window": "x"}, {"from": "2026-13-01"}, {"from": "2026-02-02", "to": "2026-02-01"}])
def test_days_that_are_none_are_refused_by_name(desk: Client, query: dict[str, str]) -> None:
    answer = desk.get(reverse("console:usage"), query)
    assert answer.status_code == 400
    assert next(iter(query)) in re.search(r'role="alert">([^<]*)', answer.content.decode())[1]  # type: ignore[index]


@pytest.mark.parametrize("page", ["usage", "fragmentation", "idle"])
def test_empty_cluster_has_a_page_that_says_why(desk: Client, page: str) -> None:
    assert 'class="empty"' in text_of(desk, page) or "No pod" in text_of(desk, page)


# -- Room that is of no use


def test_fragmentation_page_tells_the_largest_request_and_what_is_lost(desk: Client) -> None:
    rows.node(count=3)
    rows.pod("a", shares=[Given("GPU-n1-0", 20000)])
    rows.pod("b", shares=[Given("GPU-n1-1", 100, 100)])
    page = text_of(desk, "fragmentation", memory_mib="6144")
    assert "<b>24 576</b> MiB" in page
    assert "CardComputeUnitsExhausted" in page
    assert "29 052 of 53 628 free MiB are of no use" in page


# -- Held and not used


def running(name: str, device: str, memory_mib: int, core_percent: int, hours: float = 2) -> models.Pod:
    """A pod that has held its share for some hours."""
    pod = rows.pod(name, shares=[Given(device, memory_mib, core_percent)])
    with ledger.transaction(cause="test") as entry:
        UsageInterval.objects.create(
            cluster_id=entry.clock.cluster_id, pod_uid=pod.uid, namespace=pod.namespace, pod_name=name, node="n1",
            vendor="NVIDIA", uuid=device, model="NVIDIA A10", slots=1, memory_mib=memory_mib,
            core_percent=core_percent, started_at=entry.at - timedelta(hours=hours),
        )  # fmt: skip
    return pod


def reported(pod: str, device: str, cores: int | None, used_mib: int = 100) -> None:
    sample = Sample(device, f"uid-{pod}", "main", used_mib, cores)
    assert measurements.measurements_store(node="n1", age_s=0, samples=[sample])


def found_idle() -> idle.Idle:
    return idle.idle(live_view.live().refresh(), access.ALL)


def test_h64_one_of_four_quarters_that_is_idle_is_shown_for_itself(desk: Client) -> None:
    rows.node(count=1)
    price("*", "2")
    for n in range(4):
        running(f"p{n}", "GPU-n1-0", 6144, 25)
        reported(f"p{n}", "GPU-n1-0", 0 if n == 3 else 20)
    found = found_idle()
    assert [one.pod.name for one in found.shares] == ["p3"]
    assert (found.devices, found.hour_cents) == (Fraction(1, 4), {"EUR": 50})
    page = text_of(desk, "idle")
    assert "<b>0.25</b>" in page
    rollups.hours_rollup()
    held = UsageHour.objects.filter(hour=past(1)).exclude(namespace="").get()
    assert held.card_us == HOUR_US


def test_h65_a_share_of_20_cores_that_is_fully_busy_is_20_of_the_card_and_100_of_the_share(desk: Client) -> None:
    rows.node(count=1)
    running("p", "GPU-n1-0", 4096, 20)
    reported("p", "GPU-n1-0", 20)
    for page in (text_of(desk, "device", "GPU-n1-0"), text_of(desk, "pod", "uid-p")):
        assert 'Cores busy, % of device</th><th scope="col" class="num">% of its share' in page
        assert re.search(r'<td class="num">20( / 20)?</td><td class="num">100</td>', page)
    assert found_idle().shares == ()


def test_a_share_that_was_just_taken_is_not_idle_yet() -> None:
    rows.node(count=1)
    running("p", "GPU-n1-0", 4096, 20, hours=0.5)
    reported("p", "GPU-n1-0", 0)
    assert found_idle().shares == ()


def test_without_measurements_it_says_what_is_missing(desk: Client) -> None:
    rows.node(count=1)
    running("p", "GPU-n1-0", 4096, 20)
    found = found_idle()
    assert (found.held, found.seen, found.missing) == (1, 0, (("hami", 1, "n1"),))
    page = text_of(desk, "idle")
    assert "HAMi's device plugin" in page
    assert "HAMI_PLATFORM_URL" in page


def test_what_was_measured_of_a_device_is_its_only_holders() -> None:
    rows.node(count=1)
    running("p", "GPU-n1-0", 4096, 0)
    assert measurements.measurements_store(
        node="n1", age_s=0, samples=[Sample("GPU-n1-0", memory_used_mib=1, core_used_percent=0)]
    )
    assert [one.pod.name for one in found_idle().shares] == ["p"]
    running("q", "GPU-n1-0", 4096, 0)
    assert found_idle().shares == ()


def test_idle_shares_of_others_are_not_shown() -> None:
    rows.node(count=1)
    running("p", "GPU-n1-0", 4096, 20)
    reported("p", "GPU-n1-0", 0)
    assert "nlp/p" in text_of(person("member", namespace="nlp"), "idle")
    models.Role.objects.all().delete()
    rows.namespace_row("cv")
    assert "nlp/p" not in text_of(person("member", namespace="cv"), "idle")


# -- Settings


def test_settings_page_tells_sources_and_hides_secrets(desk: Client) -> None:
    with env.override(internal_token="do not tell"):
        page = text_of(desk, "settings")
    assert "do not tell" not in page
    assert env.current().secret_key not in page
    assert "set, not shown" in page
    assert "HAMI_LISTENER_THREADS" in page
    for part in ("Database", "Hourly sums, by the worker", "never"):
        assert part in page


def test_settings_page_is_for_those_who_see_everything() -> None:
    rows.namespace_row("nlp")
    assert person("member", namespace="nlp").get(reverse("console:settings")).status_code == 403


def test_source_of_a_setting_is_the_variable_that_was_read() -> None:
    shown = {one.setting.name: one for _, group in settings_shown.settings_shown({}) for one in group}
    assert {one.source for one in shown.values()} == {""}
    given = {"HAMI_SECRET_KEY_FILE": "x", "HAMI_NODELOCK_EXPIRE": "1m"}
    found = {one.setting.name: one.source for _, group in settings_shown.settings_shown(given) for one in group}
    assert (found["secret_key"], found["node_lock_timeout_s"]) == ("HAMI_SECRET_KEY_FILE", "HAMI_NODELOCK_EXPIRE")


def test_the_running_hour_is_not_drawn_as_if_it_were_over() -> None:
    now = ledger.database_time()
    hours = trends.hours_before(now, 3)
    for at in hours:
        hour(at, "nlp", HOUR_US)
    models.ProcessLease.objects.create(cluster_id=ledger.cluster_id(), name=usage_report.ROLLUP, succeeded_at=now)
    assert [one.values for one in trends.cluster_trend(hours).series] == [(1.0, 1.0, None)] * 2
    assert [one.values for one in trends.scope_trend(hours, {"nlp"}).series] == [(1.0, 1.0, None)]
