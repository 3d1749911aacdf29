"""REST: what is read, by whom; quotas set over it; agents' reports; errors as problem documents; the schema kept."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from accounting import ledger, live_view, models
from accounting.services import namespaces, people, quotas, tenants, tokens
from hami_platform import env
from hami_platform.domain.quota import Limits
from tests.accounting import rows

pytestmark = pytest.mark.django_db

WHY: dict[str, Any] = {"reason": "set up", "actor": "root"}
ANY = {"If-Match": "*"}
LISTS = (
    "nodes", "devices", "holds", "pods", "pending", "denied", "namespaces", "tenants", "quotas", "findings", "traces",
    "journal", "changes", "access", "measurements", "cluster",
)  # fmt: skip


def client_of(user: models.User, scopes: list[str] | None = None) -> APIClient:
    """A script with a token of this user."""
    _, text = tokens.token_create(user=user.username, bounds=tokens.Bounds(tuple(scopes or ())))
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    return client


@pytest.fixture
def root() -> APIClient:
    return client_of(models.User.objects.create_superuser("root"))


def person(role: str, scopes: list[str] | None = None, **scope: str) -> APIClient:
    user, _ = models.User.objects.get_or_create(username="ann")
    people.role_grant(role=role, user="ann", **scope, **WHY)
    return client_of(user, scopes)


def url(name: str, *args: object) -> str:
    return reverse(f"api:{name}", args=args)


def busy() -> models.Quota:
    rows.node()
    tenants.tenant_save(name="labs", **WHY)
    namespaces.namespace_save(name="nlp", tenant="labs", **WHY)
    rows.pod()
    rows.pod("q1", namespace="cv", state="waiting", shares=())
    return quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=40960, devices=3), **WHY)


def problem_of(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"].startswith("application/problem+json")
    body: dict[str, Any] = answer.json()
    assert body["status"] == status
    return body


@pytest.mark.parametrize("name", LISTS)
def test_reading_needs_a_token_and_a_role(name: str) -> None:
    problem_of(APIClient().get(url(name)), 401)
    nobody = client_of(models.User.objects.create_user("eve"))
    problem_of(nobody.get(url(name)), 403)


@pytest.mark.parametrize("name", LISTS)
def test_every_list_answers(root: APIClient, name: str) -> None:
    busy()
    assert root.get(url(name)).status_code == 200


def test_cluster_and_devices_tell_what_is_held(root: APIClient) -> None:
    busy()
    body = root.get(url("cluster")).json()
    assert body["memory_mib"] == {"held": 4096, "total": 49152}
    assert body["pending"] == 1
    assert body["ready"] is False
    device = root.get(url("device", "GPU-n1-0")).json()
    assert device["held"] == {"devices": 1, "memory_mib": 4096, "core_percent": 20}


def test_pods_carry_state_and_reason(root: APIClient) -> None:
    busy()
    waiting = root.get(url("pods"), {"state": "pending"}).json()["results"]
    assert [(pod["name"], pod["reason"]) for pod in waiting] == [("q1", "not asked yet")]
    assert root.get(url("pod", "uid-p1")).json()["charged"]["memory_mib"] == 4096
    problem_of(root.get(url("pod", "nobody")), 404)


def test_member_reads_only_her_namespace() -> None:
    quota = busy()
    member = person("member", namespace="cv")
    assert [pod["name"] for pod in member.get(url("pods")).json()["results"]] == ["q1"]
    assert [one["name"] for one in member.get(url("namespaces")).json()["results"]] == ["cv"]
    assert member.get(url("quotas")).json()["results"] == []
    problem_of(member.get(url("quota", quota.pk)), 404)
    problem_of(member.get(url("pod", "uid-p1")), 404)
    assert "nlp" not in member.get(url("journal")).content.decode()


def test_journal_is_followed_by_revision(root: APIClient) -> None:
    busy()
    first = root.get(url("journal")).json()
    assert first["next"] == live_view.live().refresh().clock.revision
    assert root.get(url("journal"), {"after": first["next"]}).json() == {"next": first["next"], "results": []}
    problem_of(root.get(url("journal"), {"after": "yesterday"}), 400)


def test_quota_is_patched_and_the_rest_stays(root: APIClient) -> None:
    quota = busy()
    answer = root.patch(url("quota", quota.pk), {"memory_mib": 50000, "reason": "more", "version": 1})
    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert (body["memory_mib"], body["devices"], body["version"]) == (50000, 3, 2)
    assert models.Quota.history.latest("history_id").history_change_reason == "more"
    body = root.put(url("quota", quota.pk), {"memory_mib": 50000, "reason": "only memory"}, headers=ANY).json()
    assert (body["memory_mib"], body["devices"]) == (50000, None)


def test_quota_of_a_version_that_is_gone_conflicts(root: APIClient) -> None:
    quota = busy()
    body = problem_of(root.patch(url("quota", quota.pk), {"devices": 1, "reason": "x", "version": 7}), 409)
    assert body["errors"] == [
        {"field": "version", "message": "you saw version 7, it is now 1: look at the newer one first"}
    ]


def test_ledger_that_is_unavailable_is_a_problem_to_retry(root: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger.breaker, "_why", "database: gone")
    answer = root.get(url("cluster"))
    assert problem_of(answer, 503)["detail"] == "database: gone"
    assert answer["Retry-After"] == "1"


def test_quota_in_bytes_is_refused_at_its_field(root: APIClient) -> None:
    quota = busy()
    body = problem_of(root.patch(url("quota", quota.pk), {"memory_mib": 2**34, "reason": "x"}, headers=ANY), 400)
    assert body["errors"][0]["field"] == "memory_mib"
    assert "16 GiB is 16384" in body["detail"]
    body = problem_of(root.patch(url("quota", quota.pk), {"memory_mib": "much"}), 400)
    assert {one["field"] for one in body["errors"]} == {"memory_mib", "reason"}


def test_quota_is_made_once_and_lifted(root: APIClient) -> None:
    new = {"namespace": "cv", "devices": 2, "reason": "start"}
    made = root.post(url("quotas"), new)
    assert made.status_code == 201, made.content
    problem_of(root.post(url("quotas"), new), 409)
    problem_of(root.post(url("quotas"), {"reason": "nowhere"}), 400)
    at = url("quota", made.json()["id"])
    problem_of(root.delete(at), 400)
    assert root.delete(at, {"reason": "over"}, headers=ANY).status_code == 204
    assert not models.Quota.objects.exists()


def test_tenant_admin_sets_quotas_of_her_namespaces_and_no_others() -> None:
    quota = busy()
    lead = person("tenant-admin", tenant="labs")
    assert lead.patch(url("quota", quota.pk), {"devices": 1, "reason": "less"}, headers=ANY).status_code == 200
    problem_of(lead.post(url("quotas"), {"tenant": "labs", "devices": 1, "reason": "x"}), 403)
    problem_of(lead.post(url("quotas"), {"namespace": "cv", "devices": 1, "reason": "x"}), 403)


def test_token_does_no_more_than_its_scopes() -> None:
    quota = busy()
    reader = person("operator", scopes=["read"])
    assert reader.get(url("quotas")).status_code == 200
    problem_of(reader.patch(url("quota", quota.pk), {"devices": 1, "reason": "x"}), 403)
    agent = client_of(models.User.objects.get(username="ann"), ["agent"])
    problem_of(agent.get(url("quotas")), 403)


def test_browser_session_writes_only_with_its_csrf_token(client: Client) -> None:
    quota = busy()
    user = models.User.objects.create_superuser("root")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(user)
    answer = strict.patch(url("quota", quota.pk), '{"devices": 1, "reason": "x"}', content_type="application/json")
    assert answer.status_code == 403


# -- Agents


def lock_of(pod: models.Pod) -> None:
    with ledger.transaction(cause="test") as entry:
        models.NodeLock.objects.create(
            cluster_id=ledger.cluster_id(), node="n1", pod_uid=pod.uid, first_seen_at=entry.at, mode="row"
        )
        entry.record("lock", "n1")


def test_agent_report_frees_the_node() -> None:
    rows.node()
    pod = rows.pod(state="bound")
    lock_of(pod)
    models.User.objects.create_user("agents")
    agent = client_of(models.User.objects.get(username="agents"), ["agent"])
    report = {"uid": pod.uid, "container": "main", "node": "n1"}
    assert agent.post(url("allocations"), report).status_code == 204
    assert not live_view.live().refresh().locks
    assert agent.post(url("allocations"), report).status_code == 204
    problem_of(agent.post(url("allocations"), report | {"node": "n2"}), 404)
    problem_of(agent.post(url("allocations"), {"uid": "x"}), 400)


def test_agent_report_takes_the_shared_token_and_nobody_elses() -> None:
    rows.node()
    pod = rows.pod(state="bound")
    report = {"uid": pod.uid, "container": "main", "node": "n1"}
    shared = APIClient()
    shared.credentials(HTTP_AUTHORIZATION="Bearer s3cret")
    problem_of(shared.post(url("allocations"), report), 401)
    with env.override(internal_token="s3cret"):
        assert shared.post(url("allocations"), report).status_code == 204
        problem_of(APIClient().post(url("allocations"), report), 401)
    problem_of(person("member", namespace="nlp").post(url("allocations"), report), 403)
    problem_of(person("operator", scopes=["read", "write"]).post(url("allocations"), report), 403)


# -- Schema


def test_schema_has_every_endpoint_and_no_warning(root: APIClient, capsys: pytest.CaptureFixture[str]) -> None:
    answer = root.get(url("schema"), {"format": "json"})
    assert answer.status_code == 200
    paths = answer.json()["paths"] if answer["Content-Type"].endswith("json") else {}
    assert {f"/api/v1/{name}" for name in LISTS} <= set(paths)
    assert "/api/agent/allocations" in paths
    assert "arning" not in capsys.readouterr().err


def test_docs_come_from_our_own_origin(root: APIClient) -> None:
    page = root.get(url("docs"), HTTP_ACCEPT="text/html").content.decode()
    assert "https://" not in page
