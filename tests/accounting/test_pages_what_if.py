"""Pending by reason, and the page that asks what would happen: what they say, to whom, at what cost."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from accounting import ledger, models
from accounting.pages import reasons
from accounting.services import people, quotas
from hami_platform import env
from hami_platform.domain.explain import Verdict
from hami_platform.domain.fixes import OPERATOR, OWNER, TENANT_ADMIN
from hami_platform.domain.quota import Limits
from hami_platform.domain.reasons import Reason
from tests.accounting import rows
from tests.accounting.rows import Given

pytestmark = pytest.mark.django_db

WHY: dict[str, Any] = {"reason": "set up", "actor": "root"}
MANIFEST = """
kind: Pod
metadata: {namespace: nlp}
spec: {containers: [{name: a, image: b, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 4000}}}]}
"""


@pytest.fixture
def desk(client: Client) -> Client:
    client.force_login(models.User.objects.create_superuser("root"))
    return client


def ann(namespace: str) -> Client:
    user = models.User.objects.create_user("ann")
    people.role_grant(role="member", user="ann", namespace=namespace, **WHY)
    client = Client()
    client.force_login(user)
    return client


def text(answer: object, status: int = 200) -> str:
    assert answer.status_code == status, answer  # type: ignore[attr-defined]
    return re.sub(r"\s+", " ", answer.content.decode().replace("\u202f", " "))  # type: ignore[attr-defined]


def refused(uid: str, reason: str, summary: str, *, never: bool = False) -> None:
    now = ledger.database_time()
    models.Refusal.objects.create(
        cluster_id=ledger.cluster_id(), pod_uid=uid, at=now, since=now, reason=reason, summary=summary, never_fits=never
    )


def busy() -> None:
    rows.node(count=1)
    rows.pod("user", namespace="cv", shares=[Given(memory_mib=20000)])
    rows.pod("train", state="waiting", shares=(), asks=rows.requests.DeviceRequest("NVIDIA", 1, 8000, None, 20))
    nine = rows.requests.DeviceRequest("NVIDIA", 9, 4000, None, 0)
    rows.pod("huge", namespace="cv", state="waiting", shares=(), priority=4, asks=nine)
    rows.pod("late", state="waiting", shares=())
    refused("uid-train", "CardInsufficientMemory", "0/1 nodes: 1 CardInsufficientMemory")
    refused("uid-late", "CardInsufficientMemory", "0/1 nodes: 1 CardInsufficientMemory")
    refused("uid-huge", "NodeInsufficientDevice", "0/1 nodes: 1 NodeInsufficientDevice", never=True)


def test_every_word_of_the_domain_has_words_for_people() -> None:
    assert {reason.value for reason in Reason} <= set(reasons.WORDS)
    assert {verdict.value for verdict in Verdict} == set(reasons.VERDICTS)
    assert {OWNER, TENANT_ADMIN, OPERATOR} == set(reasons.ROLES)


def test_pending_counts_by_reason_in_the_order_of_waking(desk: Client) -> None:
    busy()
    page = text(desk.get(reverse("console:pending")))
    assert page.index("/pods/uid-huge") < page.index("/pods/uid-train") < page.index("/pods/uid-late")
    assert re.search(r"CardInsufficientMemory</a> .*not enough memory free.* 2</td>|not enough memory free", page)
    assert "<b>3</b>" in page
    assert "Needs 8 000 MiB on a device; the most that is free is 4 576 MiB, on n1." in page
    assert "Fits now on n1" in page
    only = text(desk.get(reverse("console:pending"), {"reason": "NodeInsufficientDevice"}))
    assert "uid-huge" in only
    assert "uid-train" not in only


def test_pending_shows_a_member_her_own_pods(desk: Client) -> None:
    busy()
    page = text(ann("nlp").get(reverse("console:pending")))
    assert "uid-train" in page
    assert "huge" not in page


def test_nothing_pending_says_so(desk: Client) -> None:
    assert "No pod waits." in text(desk.get(reverse("console:pending")))


def test_pending_polls_cost_nothing_while_nothing_changes(desk: Client) -> None:
    busy()
    page = desk.get(reverse("console:pending"))
    after = re.search(r"after=([^\"]+)\"", page.content.decode())
    assert after is not None
    assert desk.get(reverse("console:pending"), {"after": after[1]}, HTTP_HX_REQUEST="true").status_code == 204


def test_who_must_preempt_is_said(desk: Client) -> None:
    busy()
    query = {"namespace": "nlp", "memory_mib": "9000", "priority": "7"}
    page = text(desk.get(reverse("console:simulate"), query))
    assert "Delete cv/user, of lower priority: it holds 20 000 MiB and 20 % of cores on n1." in page
    assert "kubectl delete pod user -n cv" in page
    assert "preempts nobody" in page
    assert "preempts nobody" not in text(desk.get(reverse("console:simulate"), query | {"priority": "0"}))


def test_a_pod_is_simulated_from_the_address(desk: Client) -> None:
    busy()
    page = text(desk.get(reverse("console:simulate"), {"namespace": "nlp", "memory_mib": "4000", "devices": "1"}))
    assert "Fits now on n1: GPU-n1-0." in page
    assert 'value="4000"' in page
    short = text(desk.get(reverse("console:simulate"), {"namespace": "nlp", "memory_mib": "9000", "copies": "3"}))
    assert "Needs 9 000 MiB on a device; the most that is free is 4 576 MiB, on n1." in short
    assert "0 of 3 such pods would be placed" in short
    assert "4 424 MiB short" in short


def test_a_manifest_is_simulated_and_given_back(desk: Client) -> None:
    busy()
    page = text(desk.post(reverse("console:simulate"), {"manifest": MANIFEST}))
    assert "Fits now on n1" in page
    assert "nvidia.com/gpumem: 4000" in page
    wrong = text(desk.post(reverse("console:simulate"), {"manifest": "kind: ["}))
    assert "neither YAML nor JSON" in wrong
    denied = text(desk.post(reverse("console:simulate"), {"manifest": MANIFEST.replace("4000", "16Gi")}))
    assert "not admitted" in denied


def test_changes_are_simulated(desk: Client) -> None:
    busy()
    quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=1000), **WHY)
    url = reverse("console:simulate")
    drained = text(desk.get(url, {"change": "drain", "node": "n1"}))
    assert "1 running pod would find no place" in drained
    more = text(desk.get(url, {"change": "nodes", "count": "1", "like": "n1", "memory_mib": "9000", "namespace": "cv"}))
    assert "Fits now on new-1" in more
    raised = {"change": "quota", "scope": "nlp/default", "limit": "memory_mib", "value": "20000"}
    assert "1 waiting pod would start" in text(desk.get(url, raised))
    assert "over by 4 096" in text(
        desk.get(url, {"change": "quota", "scope": "cv", "limit": "memory_mib", "value": "15904"})
    )
    assert "No pod of today is affected." in text(desk.get(url, {"change": "uncordon", "node": "n1"}))


@pytest.mark.parametrize(
    "query, said",
    [
        ({"change": "drain"}, "there is no node"),
        ({"change": "quota", "value": "3"}, "namespace/name"),
        ({"memory_mib": "x"}, "whole number"),
        ({"copies": "2"}, "Name amounts of a pod"),
        ({"change": "cordon", "uuid": "none"}, "there is no device none"),
    ],
)
def test_what_is_wrong_is_said_beside_the_field(desk: Client, query: dict[str, str], said: str) -> None:
    busy()
    page = text(desk.get(reverse("console:simulate"), query))
    assert said in page
    assert 'role="alert"' in page


def test_a_member_asks_about_her_namespaces_only() -> None:
    busy()
    client = ann("nlp")
    url = reverse("console:simulate")
    assert "Fits now" in text(client.get(url, {"namespace": "nlp", "memory_mib": "4000"}))
    assert "You have no role in the namespace cv." in text(
        client.get(url, {"namespace": "cv", "memory_mib": "4000"}), 403
    )
    text(client.get(url, {"change": "quota", "scope": "cv/default", "value": "1"}), 403)
    drained = text(client.get(url, {"change": "drain", "node": "n1"}))
    assert "1 of them is in a namespace that you may not see" in drained
    assert "cv/user" not in drained


def test_the_form_starts_with_the_amounts_of_a_pod(desk: Client) -> None:
    busy()
    page = text(desk.get(reverse("console:simulate"), {"like_pod": "uid-train"}))
    assert 'value="8000"' in page
    assert "answer" not in page.split("<main", 1)[1]


def test_a_link_to_a_limit_proposes_the_amount(desk: Client) -> None:
    busy()
    quota = quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=1000), **WHY)
    page = text(desk.get(reverse("console:quota-edit", args=[quota.pk]), {"memory_mib": "8000", "devices": "x"}))
    assert 'name="memory_mib" value="8000"' in page


def test_pages_take_few_queries(desk: Client) -> None:
    busy()
    ledger._clusters[env.current().cluster] = ledger.cluster_id()  # kept by a process, not inside a test's transaction
    for path in (
        reverse("console:pending"), reverse("console:pod", args=["uid-train"]),
        reverse("console:simulate") + "?namespace=nlp&memory_mib=9000&change=drain&node=n1",
    ):  # fmt: skip
        desk.get(path)
        with CaptureQueriesContext(connection) as caught:
            desk.get(path)
        assert len(caught.captured_queries) < 20, path
