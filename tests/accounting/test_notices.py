"""What begins and ends is told to another system, over real HTTP, until it is understood."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

from accounting import ledger
from accounting.models import Notice, Refusal, UsageHour
from accounting.services import findings, notices
from hami_platform import env
from tests.accounting import flow, kube_objects
from tests.accounting.test_budgets import budget, this_year
from tests.accounting.test_usage_hours import HOUR_US, past
from tests.accounting.test_usage_pages import hour
from tests.deviceplugin.web import Web

pytestmark = [pytest.mark.django_db, pytest.mark.ledger]


@pytest.fixture
def web() -> Iterator[Web]:
    made = Web()
    try:
        with env.override(notify_url=f"{made.url}/hook", notify_secret="s3cret"):
            flow.cluster(kube_objects.node("n1"))
            yield made
    finally:
        made.close()


def told(web: Web) -> list[tuple[str, str, str]]:
    return [(one["event"], one["kind"], one["subject"]) for one in web.reports]


def fill() -> None:
    """A limit that is wholly used."""
    flow.run(kube_objects.pod("p", mem=1000))
    flow.limit(memory_mib=1000)


def test_a_limit_is_told_when_nearly_and_when_wholly_used_and_when_it_is_free_again(web: Web) -> None:
    flow.limit(memory_mib=10000)
    pod = kube_objects.pod("p", mem=8500)
    flow.run(pod)
    assert notices.notices_send() == 1
    flow.limit(memory_mib=8500)
    assert notices.notices_send() == 2
    flow.limit(memory_mib=20000)
    assert notices.notices_send() == 1
    subject = "nlp/default memory_mib"
    assert told(web) == [
        ("begins", "quota-nearly-full", subject),
        ("begins", "quota-full", subject),
        ("ends", "quota-nearly-full", subject),
        ("ends", "quota-full", subject),
    ]
    assert web.reports[0]["text"] == "nlp/default: 8500 of 10000 MiB"
    assert notices.notices_send() == 0
    assert not Notice.objects.exists()


def test_a_budget_is_told_once_when_nearly_and_once_when_wholly_spent(web: Web) -> None:
    used = past(2)
    hour(used, "nlp", 8 * HOUR_US)
    budget(device_hours=10, **this_year())
    assert notices.notices_send() == 1
    assert notices.notices_send() == 0
    UsageHour.objects.update(card_us=10 * HOUR_US)
    assert notices.notices_send() == 1
    assert notices.notices_send() == 0
    subject = f"nlp/default device hours until {this_year()['last_day']}"
    assert told(web) == [("begins", "budget-nearly-spent", subject), ("begins", "budget-spent", subject)]
    assert web.reports[0]["text"].startswith("nlp/default: 8.00 of 10.00 device hours until ")
    budget(device_hours=100, **this_year())
    assert notices.notices_send() == 2
    assert [event for event, _, _ in told(web)[2:]] == ["ends", "ends"]


def test_a_budget_whose_period_is_over_is_not_told(web: Web) -> None:
    last = past(0).date() - timedelta(1)
    hour(past(30), "nlp", 8 * HOUR_US)
    budget(device_hours=1, period="once", first_day=last - timedelta(5), last_day=last)
    assert notices.notices_send() == 0


def test_what_is_told_is_signed(web: Web) -> None:
    fill()
    notices.notices_send()
    body = json.dumps(web.reports[0], ensure_ascii=False).encode()
    assert web.headers[0][notices.SIGNATURE] == notices.signature("s3cret", body)


def test_it_is_told_again_until_it_is_understood(web: Web) -> None:
    fill()
    web.codes = [500, 302]
    assert notices.notices_send() == 0
    assert notices.notices_send() == 0
    assert notices.notices_send() == 1
    assert [one["id"] for one in web.reports] == [web.reports[0]["id"]] * 3


def test_what_was_over_before_anybody_was_told_is_not_told(web: Web) -> None:
    fill()
    web.codes = [500]
    notices.notices_send()
    flow.limit(memory_mib=99999)
    assert notices.notices_send() == 0
    assert len(web.reports) == 1


def test_pods_that_wait_long_and_findings(web: Web) -> None:
    pod = kube_objects.pod("waits", mem=99999)
    flow.admit(pod)
    flow.show(pod)
    long_ago = ledger.database_time() - timedelta(minutes=11)
    Refusal.objects.create(
        cluster_id=ledger.cluster_id(), pod_uid="uid-waits", at=long_ago, since=long_ago, summary="0/1 nodes: 1 Card"
    )
    with ledger.transaction(cause="test") as entry:
        findings.finding_raise(entry, kind="drift", subject="n1", message="gone", evidence={})
    notices.notices_send()
    assert sorted(told(web)) == [("begins", "finding-drift", "n1"), ("begins", "pod-waits", "nlp/waits")]


def test_without_an_address_nothing_is_kept() -> None:
    flow.cluster()
    fill()
    assert notices.notices_send() == 0
    assert not Notice.objects.exists()


@pytest.mark.parametrize("text", ["ftp://x", "example.org/hook", "file:///etc/passwd", "http://"])
def test_an_address_of_another_kind_stops_the_start(text: str) -> None:
    with pytest.raises(env.BadSettingsError, match="HAMI_NOTIFY_URL"):
        env.load({"HAMI_NOTIFY_URL": text})
