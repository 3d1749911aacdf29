"""What all of REST has in common: validators, lost updates, repeats, tries, pages, filters, fields, CSV, problems."""

from __future__ import annotations

import csv
import io
from concurrent import futures
from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from rest_framework.test import APIClient

from accounting import ledger, models
from accounting.api import tables
from accounting.services import access_log, attempts, namespaces, quotas, retention, tokens
from hami_platform.domain.quota import Limits
from tests import threads
from tests.accounting import rows

pytestmark = pytest.mark.django_db

ANY = {"If-Match": "*"}


@pytest.fixture
def root() -> APIClient:
    models.User.objects.create_superuser("root")
    return client_of("root")


def client_of(user: str, **bounds: tuple[str, ...]) -> APIClient:
    _, text = tokens.token_create(user=user, bounds=tokens.Bounds(**bounds))
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    return client


def quota(**limits: Any) -> models.Quota:
    return quotas.quota_set(namespace="nlp", limits=Limits(**limits or {"memory_mib": 40960}), reason="set up")


def url(name: str, *args: object) -> str:
    return reverse(f"api:{name}", args=args)


def named(answer: Any) -> list[str]:
    return [one["name"] for one in answer.json()["results"]]


def table(answer: Any) -> list[list[str]]:
    return list(csv.reader(io.StringIO(b"".join(answer.streaming_content).decode())))


# -- Validators


def test_what_the_caller_has_is_not_sent_again(root: APIClient) -> None:
    rows.node()
    first = root.get(url("nodes"))
    again = root.get(url("nodes"), headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
    rows.node("n2")
    assert root.get(url("nodes"), headers={"If-None-Match": first["ETag"]}).status_code == 200


def test_a_write_that_does_not_say_what_it_saw_is_refused(root: APIClient) -> None:
    answer = root.patch(url("quota", quota().pk), {"devices": 1, "reason": "x"})
    assert answer.status_code == 428
    assert "If-Match" in answer.json()["detail"]


def test_a_write_over_somebody_elses_change_is_refused(root: APIClient) -> None:
    at = url("quota", quota().pk)
    seen = root.get(at)["ETag"]
    changed = root.patch(at, {"devices": 1, "reason": "first"}, headers={"If-Match": seen})
    assert changed.status_code == 200
    late = root.patch(at, {"devices": 2, "reason": "second"}, headers={"If-Match": seen})
    assert late.status_code == 412
    assert root.delete(at, {"reason": "x"}, headers={"If-Match": seen}).status_code == 412
    assert root.patch(at, {"devices": 2, "reason": "x"}, headers={"If-Match": changed["ETag"]}).status_code == 200


def test_use_that_changes_meanwhile_is_no_lost_update(root: APIClient) -> None:
    rows.node()
    at = url("device", "GPU-n1-0")
    seen = root.get(at)["ETag"]
    rows.pod()
    assert root.get(at)["ETag"] != seen
    answer = root.patch(at, {"cordoned": True, "reason": "hot"}, headers={"If-Match": seen})
    assert (answer.status_code, answer.json()["cordoned"]) == (200, True)


# -- Tries and repeats


WRITES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "quotas": ("post", "", {"namespace": "cv", "devices": 1}),
    "tenants": ("post", "", {"name": "labs"}),
    "namespaces": ("post", "", {"name": "cv", "mode": "wait"}),
    "holds": ("post", "", {"uuid": "GPU-n1-0", "memory_mib": 100}),
    "tokens": ("post", "", {"name": "ci"}),
    "device": ("patch", "GPU-n1-0", {"note": "noisy"}),
    "namespace": ("patch", "nlp", {"mode": "wait"}),
    "quota": ("patch", "quota", {"devices": 7}),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_try_answers_as_the_change_does_and_writes_nothing(root: APIClient, name: str) -> None:
    rows.node()
    method, key, body = WRITES[name]
    at = url(name, *([quota().pk] if key == "quota" else [key] if key else []))
    if key == "nlp":
        quota()
    if name != "tokens":
        body = body | {"reason": "why"}
    before = models.Journal.objects.count()
    tried = getattr(root, method)(f"{at}?dry_run=true", body, headers=ANY)
    assert models.Journal.objects.count() == before
    done = getattr(root, method)(at, body, headers=ANY)
    assert models.Journal.objects.count() > before
    assert (tried.status_code, done.status_code) == ((201, 201) if method == "post" else (200, 200)), tried.content
    assert _lasting(tried.json()) == _lasting(done.json())


def _lasting(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in ("id", "key", "token", "created", "expiry")}


def test_a_try_is_refused_as_the_change_is(root: APIClient) -> None:
    assert root.post(f"{url('quotas')}?dry_run=true", {"tenant": "none", "reason": "x"}).status_code == 400
    assert root.post(f"{url('quotas')}?dry_run=maybe", {"namespace": "nlp", "reason": "x"}).status_code == 400
    assert root.post(f"{url('quotas')}?dryrun=true", {"namespace": "nlp", "reason": "x"}).status_code == 400
    assert not models.Quota.objects.exists()


def test_a_repeat_gets_the_first_answer_and_changes_nothing(root: APIClient) -> None:
    new, once = {"namespace": "cv", "devices": 2, "reason": "start"}, {"Idempotency-Key": "a-1"}
    first, again = (root.post(url("quotas"), new, headers=once) for _ in range(2))
    assert (first.status_code, first.json()) == (again.status_code, again.json())
    assert "Idempotent-Replayed" not in first
    assert again["Idempotent-Replayed"] == "true"
    other = root.post(url("quotas"), new | {"devices": 3}, headers=once)
    assert (other.status_code, other.json()["errors"][0]["field"]) == (409, "Idempotency-Key")
    assert models.Quota.objects.count() == 1


def test_a_refused_change_may_be_repeated(root: APIClient) -> None:
    new, once = {"tenant": "labs", "devices": 2, "reason": "start"}, {"Idempotency-Key": "a-1"}
    assert root.post(url("quotas"), new, headers=once).status_code == 400
    root.post(url("tenants"), {"name": "labs", "reason": "new"})
    assert root.post(url("quotas"), new, headers=once).status_code == 201


def test_names_of_changes_are_forgotten_after_a_day(root: APIClient) -> None:
    root.post(url("tenants"), {"name": "labs", "reason": "new"}, headers={"Idempotency-Key": "a-1"})
    retention.retention_run()
    assert models.IdempotencyKey.objects.count() == 1
    models.IdempotencyKey.objects.update(created_at=ledger.database_time() - timedelta(hours=25))
    retention.retention_run()
    assert not models.IdempotencyKey.objects.exists()


@pytest.mark.ledger
@pytest.mark.django_db(transaction=True)
def test_of_two_that_are_sent_at_once_one_is_done() -> None:
    user = models.User.objects.create_superuser("root")
    rows.namespace_row("nlp")
    once, answers = attempts.Once(user.pk, "a-1", ["same"]), []

    def act() -> attempts.Answer:
        row = quotas.quota_set(namespace="nlp", name=f"q{len(answers)}", limits=Limits(devices=1), reason="x")
        return attempts.Answer(201, {"id": row.pk})

    def send() -> None:
        answers.append(attempts.attempt(act, cause="quota_set", actor="root", once=once))

    with futures.ThreadPoolExecutor(4) as pool:
        for sent in [pool.submit(threads.alone, send) for _ in range(4)]:
            sent.result(60)
    assert models.Quota.objects.count() == 1
    assert len({one.body["id"] for one in answers}) == 1
    assert sorted(one.repeated for one in answers) == [False, True, True, True]


# -- Lists


def test_pods_come_in_pages_that_share_no_row(root: APIClient) -> None:
    rows.node()
    for number in range(5):
        rows.pod(f"p{number}", shares=(), state="waiting")
    first = root.get(url("pods"), {"limit": 2}).json()
    assert (first["count"], len(first["results"]), first["previous"]) == (5, 2, None)
    names, page = [], first
    while page:
        names += [one["name"] for one in page["results"]]
        page = root.get(page["next"]).json() if page["next"] else None
    assert names == [f"p{number}" for number in range(5)]
    assert root.get(url("pods"), {"limit": 2, "offset": 2, "ordering": "-name"}).json()["results"][0]["name"] == "p2"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "query", [{"limit": "0"}, {"limit": "x"}, {"offset": "-1"}, {"ordering": "size"}, {"nmae": "a"}]
)
def test_a_question_that_nobody_answers_is_refused(root: APIClient, query: dict[str, str]) -> None:
    for name in ("nodes", "devices", "quotas", "pods"):
        answer = root.get(url(name), query)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, next(iter(query))), name
    assert root.get(url("traces"), {"cursor": "cD14"}).status_code == 400


def test_lists_are_filtered_ordered_and_searched(root: APIClient) -> None:
    for name in ("a1", "b2", "b1"):
        rows.node(name, count=1)
    assert named(root.get(url("nodes"), {"q": "b", "ordering": "-name"})) == ["b2", "b1"]
    assert [one["uuid"] for one in root.get(url("devices"), {"node": "b1"}).json()["results"]] == ["GPU-b1-0"]
    assert root.get(url("devices"), {"healthy": "false"}).json()["count"] == 0
    rows.namespace_row("cv", mode="wait")
    assert named(root.get(url("namespaces"), {"mode": "wait"})) == ["cv"]


def test_logs_are_paged_by_cursor(root: APIClient) -> None:
    for number in range(5):
        access_log.record(models.AccessRecord.Kind.KEPT_OUT, who=f"eve{number}", how="password")
    page = root.get(url("access"), {"limit": 2, "kind": "kept-out"}).json()  # type: ignore[arg-type]
    assert set(page) == {"next", "previous", "results"}
    access_log.record(models.AccessRecord.Kind.KEPT_OUT, who="eve9", how="password")
    seen = [one["who"] for one in page["results"]]
    while page["next"]:
        page = root.get(page["next"]).json()
        seen += [one["who"] for one in page["results"]]
    assert seen == [f"eve{number}" for number in (4, 3, 2, 1, 0)]


def test_only_the_fields_that_are_asked_for(root: APIClient) -> None:
    rows.node()
    assert root.get(url("nodes"), {"fields": "name,agent"}).json()["results"] == [{"name": "n1", "agent": ""}]
    assert root.get(url("node", "n1"), {"fields": "name"}).json() == {"name": "n1"}
    answer = root.get(url("nodes"), {"fields": "nmae"})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "fields")


def test_csv_has_all_rows_and_no_formula(root: APIClient) -> None:
    rows.node(count=3, model="=cmd|' /C calc'!A0")
    rows.pod()
    header, *lines = table(root.get(url("devices"), {"format": "csv", "ordering": "index"}))
    first = dict(zip(header, lines[0], strict=True))
    assert len(lines) == 3
    assert first["held.memory_mib"] == "4096"
    assert first["model"].startswith("'=cmd")
    chosen = table(root.get(url("devices"), {"fields": "uuid,held", "limit": 1}, headers={"Accept": "text/csv"}))  # type: ignore[arg-type]
    assert chosen[0] == ["uuid", "held.devices", "held.memory_mib", "held.core_percent"]
    assert len(chosen) == 2
    assert len(table(root.get(url("pods"), {"format": "csv"}))) == 2


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\tx", "\rx"])
def test_no_text_is_run_by_a_spreadsheet(text: str) -> None:
    assert tables.cell(text) == f"'{text}"
    assert tables.cell(-1) == "-1"


def test_limits_as_they_were(root: APIClient) -> None:
    row = quota(memory_mib=100)
    models.Quota.history.update(history_date=ledger.database_time() - timedelta(days=9))
    quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=200), reason="more")
    then = {"as_of": (ledger.database_time() - timedelta(days=1)).isoformat()}
    assert [one["memory_mib"] for one in root.get(url("quotas"), then).json()["results"]] == [100]
    assert root.get(url("quota", row.pk), then).json()["memory_mib"] == 100
    assert root.get(url("quota", row.pk)).json()["memory_mib"] == 200
    long_ago = {"as_of": (ledger.database_time() - timedelta(days=10)).isoformat()}
    assert root.get(url("quotas"), long_ago).json()["results"] == []
    assert root.get(url("quota", row.pk), long_ago).status_code == 404
    assert root.get(url("quotas"), {"as_of": "yesterday"}).status_code == 400


def test_limits_as_they_were_name_what_is_gone(root: APIClient) -> None:
    row = quota()
    then = {"as_of": ledger.database_time().isoformat()}
    models.Quota.history.update(history_date=ledger.database_time() - timedelta(hours=1))
    quotas.quota_delete(quota_id=row.pk, reason="over")
    namespaces.namespace_delete(name="nlp", reason="over")
    assert [one["namespace"] for one in root.get(url("quotas"), then).json()["results"]] == ["nlp"]


def test_a_quota_tells_what_is_used_of_it(root: APIClient) -> None:
    rows.node()
    row = quota(memory_mib=10000)
    rows.pod()
    (bar,) = root.get(url("quota", row.pk)).json()["use"]
    assert (bar["resource"], bar["limit"], bar["used"], bar["free"]) == ("memory_mib", 10000, 4096, 5904)
    assert root.get(url("quotas")).json()["results"][0]["use"] == [bar]


# -- Problems


def test_every_refusal_is_a_problem(root: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        (404, root.get("/api/v1/nothing")),
        (404, root.get("/api/v1/devices/G%0A")),
        (405, root.delete(url("cluster"))),
        (415, root.post(url("quotas"), "<x/>", content_type="application/xml")),
        (400, root.post(url("quotas"), "{", content_type="application/json")),
        (406, root.get(url("cluster"), headers={"Accept": "application/xml"})),
        (401, APIClient().get(url("cluster"))),
        (401, APIClient().get(url("cluster"), headers={"Authorization": b"Bearer \xff\xfe".decode("latin-1")})),
    ]
    monkeypatch.setattr("accounting.selectors.cluster.figures", lambda *_: 1 / 0)
    root.raise_request_exception = False
    found.append((500, root.get(url("cluster"))))
    for status, answer in found:
        assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
        assert {"type", "title", "status", "detail", "instance"} <= set(answer.json())
        assert answer["X-Request-ID"]
    assert "ZeroDivision" not in found[-1][1].content.decode()


def test_a_request_keeps_the_name_that_its_sender_gave(root: APIClient) -> None:
    assert root.get(url("cluster"), headers={"X-Request-ID": "build-7"})["X-Request-ID"] == "build-7"
    assert root.get(url("cluster"), headers={"X-Request-ID": 'a"b c'})["X-Request-ID"] != 'a"b c'
