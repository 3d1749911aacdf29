"""What was held and not used, from what agents measured: summed up by the hour, and pod by pod, with its price."""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accounting import ledger, live_view
from accounting.models import Measurement, Registration, UsageHour, UsageInterval
from accounting.selectors import access, measured_use, usage_report, waste, windows
from accounting.selectors.usage_report import Scope
from accounting.services import rollups
from tests.accounting import rows
from tests.accounting.test_usage_hours import HOUR, HOUR_US, past
from tests.accounting.test_usage_pages import hour, price, report

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]

SLOT = timedelta(minutes=10)
CARD: dict[str, Any] = {"node": "n1", "vendor": "NVIDIA", "uuid": "GPU-1", "model": "A10"}


def registered(since: datetime, until: datetime | None = None) -> None:
    """One card of 24 576 MiB."""
    with ledger.transaction(cause="test") as entry:
        Registration.objects.create(
            cluster_id=entry.clock.cluster_id, memory_mib=24576, core_percent=100, started_at=since, ended_at=until,
            **CARD,
        )  # fmt: skip


def held(pod: str, start: datetime, end: datetime | None, mib: int = 12288, cores: int = 50, **more: Any) -> None:
    """A pod's share of the card."""
    columns: dict[str, Any] = {"namespace": "nlp", "owner": f"Job/{pod}", "slots": 1} | CARD | more
    rows.namespace_row(columns["namespace"])
    with ledger.transaction(cause="test") as entry:
        UsageInterval.objects.create(
            cluster_id=entry.clock.cluster_id, pod_uid=f"uid-{pod}", pod_name=pod, memory_mib=mib, core_percent=cores,
            started_at=start, ended_at=end, **columns,
        )  # fmt: skip


def measured(
    pod: str, start: datetime, end: datetime, mib: int | None, cores: int | None, container: str = "m"
) -> None:
    """In every slot between the two times; pod "": the whole card."""
    slot = start
    while slot < end:
        Measurement.objects.create(
            cluster_id=ledger.cluster_id(), slot=slot, at=slot, node="n1", uuid="GPU-1",
            pod_uid=f"uid-{pod}" if pod else "", container=container if pod else "", memory_used_mib=mib,
            memory_peak_mib=mib, core_used_percent=cores,
        )  # fmt: skip
        slot += SLOT


def summed(at: datetime, **of: str) -> tuple[Fraction, ...]:
    """Held, measured, unused, cores idle: in hours of the card, of one hour's rows."""
    found = UsageHour.objects.filter(hour=at, **of).exclude(namespace="")
    columns = ("card_us", "measured_us", "unused_us", "unbusy_us")
    return tuple(Fraction(sum(getattr(row, column) for row in found), HOUR_US) for column in columns)


def test_an_hours_waste_is_what_was_held_beyond_what_was_measured() -> None:
    at = past(2)
    registered(at)
    held("p", at, at + HOUR)
    measured("p", at, at + HOUR, 6144, 10)
    rollups.hours_rollup()
    assert summed(at) == (Fraction(1, 2), Fraction(1, 2), Fraction(1, 4), Fraction(2, 5))


def test_what_is_not_measured_is_no_waste() -> None:
    at = past(2)
    registered(at)
    held("p", at, at + HOUR)
    measured("p", at, at + HOUR / 2, 0, 0)
    rollups.hours_rollup()
    assert summed(at) == (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4), Fraction(1, 4))


@pytest.mark.parametrize("reading", [(None, 0), (0, None)])
def test_half_a_measurement_is_none(reading: tuple[int | None, int | None]) -> None:
    at = past(2)
    registered(at)
    held("p", at, at + HOUR)
    measured("p", at, at + HOUR, *reading)
    rollups.hours_rollup()
    assert summed(at)[1:] == (0, 0, 0)


def test_containers_of_a_pod_are_added_up() -> None:
    at = past(2)
    registered(at)
    held("p", at, at + HOUR)
    for container in ("a", "b"):
        measured("p", at, at + HOUR, 3072, 20, container)
    rollups.hours_rollup()
    assert summed(at) == (Fraction(1, 2), Fraction(1, 2), Fraction(1, 10), Fraction(1, 10))


def test_what_was_measured_of_a_card_is_its_only_holders() -> None:
    at = past(3)
    registered(at)
    held("p", at, at + 2 * HOUR)
    held("q", at + HOUR, at + 2 * HOUR, namespace="cv")
    measured("", at, at + 2 * HOUR, 0, 0)
    rollups.hours_rollup()
    assert summed(at)[1] == Fraction(1, 2)
    assert summed(at + HOUR)[1] == 0


def test_the_running_hour_is_not_judged_yet() -> None:
    now = past(0)
    registered(now)
    held("p", now, None)
    measured("p", now, now + SLOT, 0, 0)
    rollups.hours_rollup()
    assert summed(now)[1:] == (0, 0, 0)


def test_owners_are_told_apart_and_idle_time_is_nobodys_waste() -> None:
    at = past(2)
    registered(at)
    for pod, cores in (("busy", 25), ("lazy", 0)):
        held(pod, at, at + HOUR, 6144, 25)
        measured(pod, at, at + HOUR, 0, cores)
    rollups.hours_rollup()
    assert summed(at, owner="Job/busy")[2:] == (0, 0)
    assert summed(at, owner="Job/lazy")[2:] == (Fraction(1, 4), Fraction(1, 4))
    idle = UsageHour.objects.get(hour=at, namespace="")
    assert (idle.measured_us, idle.unused_us, idle.unbusy_us) == (0, 0, 0)


# -- With its price


def two_owners() -> datetime:
    """Two quarters of a card for an hour, one of which was used."""
    at = past(2)
    registered(at)
    for pod, cores, namespace in (("busy", 25, "nlp"), ("lazy", 5, "cv")):
        held(pod, at, at + HOUR, 6144, 25, namespace=namespace)
        measured(pod, at, at + HOUR, 0, cores)
    rollups.hours_rollup()
    return at


def test_waste_is_priced_as_charges_are() -> None:
    two_owners()
    price("*A10*", "10")
    found = {line.parts: line for line in report("namespace").lines}
    assert (found["cv",].cents, found["cv",].unused_cents) == ({"EUR": 250}, {"EUR": 200})
    assert (found["nlp",].cents, found["nlp",].unused_cents) == ({"EUR": 250}, {"EUR": 0})
    total = report("namespace").total
    assert (total.unused_cents, total.unused_hours) == ({"EUR": 200}, Fraction(1, 5))
    assert found["cv",].measured_permille == 1000


@pytest.mark.parametrize("by", usage_report.BY)
def test_law_waste_of_all_comes_to_its_price_and_is_no_more_than_the_charge(by: str) -> None:
    rows.namespace_row("nlp")
    price("*A10*", "1.0001")
    for n, back in enumerate((1, 2, 3, 4, 5)):
        hour(past(back), ("nlp", "cv", "web")[n % 3], HOUR_US // (n + 3), owner=f"Job/{n}")
    for n, row in enumerate(UsageHour.objects.all()):
        row.measured_us = row.card_us * 7 // 8
        row.unused_us, row.unbusy_us = row.measured_us // (n + 2), row.measured_us // 3
        row.save()
    found = report(by)
    exact = sum((row.unused_us * Fraction("100.01") / HOUR_US for row in UsageHour.objects.all()), Fraction())
    assert sum(line.unused_cents["EUR"] for line in found.lines) == found.total.unused_cents["EUR"] == round(exact)
    for line in found.lines:
        assert 0 <= line.unused_us <= line.measured_us <= line.card_us
        assert line.unused_cents["EUR"] <= line.cents["EUR"] + 1


# -- Pod by pod


def today() -> windows.Window:
    return windows.window_of({"window": "7d"}, ledger.database_time())


def of_pods(scope: Scope | None = None, reach: access.Reach = access.ALL) -> list[waste.PodWaste]:
    found = waste.pods(live_view.live().refresh(), reach, today(), scope or Scope())
    assert found is not None
    return found


def test_pods_are_told_apart_the_most_waste_first() -> None:
    two_owners()
    price("*A10*", "10")
    lazy, busy = of_pods()
    assert (lazy.name, lazy.unused_hours, lazy.unused_cents) == ("lazy", Fraction(1, 5), {"EUR": 200})
    assert (busy.name, busy.unused_hours, busy.cents) == ("busy", 0, {"EUR": 250})
    assert (lazy.measured_permille, lazy.unbusy_hours) == (1000, Fraction(1, 5))


def test_a_pod_that_still_runs_counts_until_now() -> None:
    start = ledger.database_time() - SLOT / 2
    registered(start)
    held("p", start, None)
    measured("p", measured_use.slot_start(start), ledger.database_time(), 0, 0)
    (one,) = of_pods()
    assert 0 < one.unused_us == one.measured_us
    assert abs(one.card_us - one.measured_us) <= 1


def test_pods_are_narrowed_to_what_is_asked_and_seen() -> None:
    two_owners()
    assert [one.name for one in of_pods(Scope(namespace="cv"))] == ["lazy"]
    assert [one.name for one in of_pods(reach=access.Reach(namespaces=frozenset({"nlp"})))] == ["busy"]
    assert of_pods(Scope(model="H100")) == []


def test_too_much_to_look_at_is_said_and_a_namespace_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    two_owners()
    monkeypatch.setattr(waste, "ROWS_MOST", 11)
    assert waste.pods(live_view.live().refresh(), access.ALL, today(), Scope()) is None
    monkeypatch.setattr(waste, "ROWS_MOST", 12)
    assert len(of_pods()) == 2


_starts = st.integers(0, 11).map(lambda n: n * SLOT)
_shares = st.tuples(
    st.sampled_from(("nlp", "cv")), _starts, _starts, st.sampled_from((3072, 12288)), st.sampled_from((0, 25, 50)),
    st.sampled_from((None, 0, 3072, 12288)), st.sampled_from((0, 10, 50)),
)  # fmt: skip


def test_law_waste_of_pods_comes_to_that_of_the_hours() -> None:
    begin = past(3)
    price("*A10*", "3.7")

    @settings(max_examples=20, suppress_health_check=list(HealthCheck))
    @given(st.lists(_shares.filter(lambda one: one[1] < one[2]), max_size=4))
    def law(shares: list[Any]) -> None:
        with ledger.transaction(cause="test"):
            for model in (UsageInterval, Registration, UsageHour, Measurement):
                model.objects.all().delete()
        registered(begin, begin + 2 * HOUR)
        for n, (namespace, start, end, mib, cores, used_mib, used_cores) in enumerate(shares):
            held(f"p{n}", begin + start, begin + end, mib, cores, namespace=namespace)
            measured(f"p{n}", begin + start, begin + end, used_mib, used_cores)
        for n in range(2):
            rollups._hour(begin + n * HOUR, begin + 9 * HOUR)
        pods, hours = of_pods(), report("namespace").lines
        for name in ("card_us", "measured_us", "unused_us", "unbusy_us"):
            together = sum(getattr(one, name) for one in pods)
            assert abs(together - sum(getattr(line, name) for line in hours)) <= 16, name
        spent = sum(one.unused_cents.get("EUR", 0) for one in pods)
        assert abs(spent - sum(line.unused_cents.get("EUR", 0) for line in hours)) <= 1
        for one in pods:
            assert 0 <= one.unused_us <= one.measured_us <= one.card_us + 1

    law()
