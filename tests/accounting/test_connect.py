"""Connecting a cluster: looks that a person asks for, one at a time, run by a worker, shown with progress and age."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import translation

from accounting import ledger, models, stored_sentences, tasks
from accounting.models import Examination
from accounting.selectors import connection
from accounting.services import doctor, examinations, people
from accounting.services.cluster_api import cluster_api
from accounting.services.device_config import device_config
from hami_platform.domain.sentences import phrase
from hami_platform.kube import api as ports
from hami_platform.kube import errors
from tests.accounting import rows, simulated

pytestmark = pytest.mark.django_db

FOUND = [
    doctor.Check("API server", "good", "answers"),
    doctor.Check("webhook", "bad", "not configured", "./manage.py webhook_config | kubectl apply -f -"),
    doctor.Check("rights", "odd", "may not watch"),
    doctor.Check("extender", "unknown", "nothing answers"),
]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ports.Api]:
    with simulated.world(tmp_path):
        yield cluster_api()


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks that come out as FOUND, without a cluster."""
    monkeypatch.setattr(doctor, "examine", lambda *_args, **_options: FOUND)
    monkeypatch.setattr(tasks, "cluster_api", lambda: None)


@pytest.fixture
def desk(client: Client) -> Client:
    client.force_login(models.User.objects.create_superuser("root"))
    return client


def page(client: Client) -> str:
    answer = client.get(reverse("console:connect"))
    assert answer.status_code == 200
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", answer.content.decode())).split())


def run() -> bool:
    return examinations.examination_run(lambda: None)  # type: ignore[arg-type, return-value]


def turned(seconds: int) -> None:
    """As if what was asked and begun had been so much earlier."""
    for row in Examination.objects.all():
        for name in ("asked_at", "began_at"):
            if (at := getattr(row, name)) is not None:
                setattr(row, name, at - timedelta(seconds=seconds))
        row.save()


def test_a_look_is_asked_for_run_by_the_worker_and_kept_with_its_age(desk: Client, found: None) -> None:
    assert "Nobody has looked yet" in page(desk)
    assert desk.post(reverse("console:connect")).status_code == 302
    assert "Asked for by root" in page(desk)
    tasks.examine()
    shown = page(desk)
    assert "✕ 1 in the way ! 1 to look at ? 1 not known ✓ 1 well as it was seen" in shown
    assert "webhook not configured what mends it: ./manage.py webhook_config | kubectl apply -f -" in shown
    assert "7. Send new pods through the webhook ✕ in the way" in shown
    assert "1. Reach the cluster ✓ done" in shown
    assert "3. Make the tables not looked at yet" in shown


def test_nothing_is_run_that_nobody_asked_for(found: None) -> None:
    assert not run()
    examinations.examination_ask(actor="root")
    assert run()
    assert not run()


def test_one_waits_or_runs_at_a_time_however_often_it_is_asked_for(desk: Client, found: None) -> None:
    assert examinations.examination_ask(actor="root")
    for _ in range(3):
        assert not examinations.examination_ask(actor="root")
    answer = desk.post(reverse("console:connect"), follow=True)
    assert "one look at a time" in answer.content.decode()
    assert Examination.objects.count() == 1
    run()
    assert examinations.examination_ask(actor="root")


def test_while_it_runs_the_page_tells_how_far_it_is(desk: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []

    def slow(*_args: Any, told: Any, **_options: Any) -> list[doctor.Check]:
        told("pods", 2)
        shown.append(page(desk))
        assert not examinations.examination_ask(actor="root")
        return FOUND

    shown: list[str] = told
    monkeypatch.setattr(doctor, "examine", slow)
    examinations.examination_ask(actor="root")
    run()
    assert f"2 of {doctor.LOOKS}: pods begun" in shown[0]


def test_a_run_that_was_cut_short_is_said_so_and_may_be_asked_for_again(desk: Client, found: None) -> None:
    examinations.examination_ask(actor="root")
    Examination.objects.update(began_at=ledger.database_time())
    assert not examinations.examination_ask(actor="root")
    turned(examinations.LONGEST_S + 1)
    assert "cut short" in page(desk)
    assert examinations.examination_ask(actor="root")
    assert run()


def test_without_a_worker_the_page_says_what_to_start(desk: Client) -> None:
    examinations.examination_ask(actor="root")
    turned(connection.NOBODY_S + 1)
    assert "No worker has taken it up. Run one, and beat: celery -A hami_platform worker" in page(desk)


def test_a_cluster_that_is_not_configured_is_the_result(desk: Client) -> None:
    def api() -> ports.Api:
        raise errors.Misconfigured("no such file")

    examinations.examination_ask(actor="root")
    assert examinations.examination_run(api)
    assert "HAMI_KUBECONFIG: no such file" in page(desk)


def test_an_earlier_result_stays_until_the_next_has_ended(desk: Client, found: None) -> None:
    examinations.examination_ask(actor="root")
    run()
    examinations.examination_ask(actor="root")
    assert "✕ 1 in the way" in page(desk)


def test_every_look_belongs_to_one_step_and_has_a_name_that_is_translated() -> None:
    named = [name for step in connection.STEPS for name in step.checks]
    assert sorted(named) == sorted({*doctor.CLUSTER, *doctor.PLATFORM})
    assert set(named) == set(connection.NAMES)


def test_the_looks_at_a_cluster_are_told_one_by_one(cluster: ports.Api) -> None:
    steps: list[tuple[str, int]] = []
    found = doctor.examine(cluster, config=device_config(), now_s=0.0, told=lambda *step: steps.append(step))
    assert len(found) == len(doctor.CLUSTER) + len(doctor.PLATFORM)
    assert steps[0] == ("version", 0)
    assert [done for _, done in steps] == sorted(done for _, done in steps)
    assert steps[-1][1] == doctor.LOOKS - 1


@pytest.mark.parametrize("role", ["auditor", "viewer"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_only_operators_connect(client: Client, role: str, method: str) -> None:
    rows.namespace_row("nlp")
    user = models.User.objects.create_user("ann")
    scope = {"namespace": "nlp"} if role == "viewer" else {}
    people.role_grant(role=role, user="ann", reason="test", actor="root", **scope)
    client.force_login(user)
    assert getattr(client, method)(reverse("console:connect")).status_code == 403
    assert not Examination.objects.exists()


def test_a_poll_is_answered_only_when_something_changed(desk: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    now = ledger.database_time()
    monkeypatch.setattr(ledger, "database_time", lambda: now)
    address = reverse("console:connect")
    stamp = re.search(r"after=([\w.-]+)", desk.get(address).content.decode())
    assert stamp is not None
    poll: dict[str, Any] = {"data": {"after": stamp[1]}, "headers": {"HX-Request": "true"}}
    assert desk.get(address, **poll).status_code == 204
    examinations.examination_ask(actor="root")
    assert desk.get(address, **poll).status_code == 200


def test_a_result_is_told_in_the_readers_language(desk: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker that looks does not know who will read it."""
    which = phrase("%(which)s and %(n)s more", which="n1, n2, n3", n=1234)
    check = doctor.Check("register annotations", "odd", phrase("registered without a device: %(which)s", which=which))
    monkeypatch.setattr(doctor, "examine", lambda *_args, **_options: [check])
    examinations.examination_ask(actor="root")
    run()
    assert "registered without a device: n1, n2, n3 and 1 234 more" in page(desk)
    with translation.override("zh-hans"):
        shown = desk.get(reverse("console:connect"), headers={"accept-language": "zh-hans"}).content.decode()
    assert "已登记但没有设备：n1, n2, n3 等另外 1\u202f234 个" in shown


@pytest.mark.parametrize("said", ["as it is", phrase("no node has one yet"), phrase("%(a)s", a=phrase("%(n)s", n=3))])
def test_a_sentence_that_was_kept_reads_the_same(said: Any) -> None:
    row = json.loads(json.dumps(stored_sentences.kept(said)))
    assert stored_sentences.told(row, str) == str(said)
