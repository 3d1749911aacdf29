"""Setting limits in the console: the effect first, then the change, for those who may."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from accounting import models
from accounting.services import namespaces, people, quotas, tenants
from hami_platform.domain.quota import Limits
from tests.accounting import rows
from tests.accounting.rows import Given

pytestmark = pytest.mark.django_db

WHY: dict[str, Any] = {"reason": "set up", "actor": "root"}


@pytest.fixture
def desk(client: Client) -> Client:
    client.force_login(models.User.objects.create_superuser("root"))
    return client


def nlp() -> models.Quota:
    """nlp holds 8 GiB of 8 GiB; a pod waits for quota."""
    rows.node()
    namespaces.namespace_save(name="nlp", mode="wait", **WHY)
    quota = quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=8192), **WHY)
    rows.pod("runs", shares=[Given(memory_mib=8192)])
    rows.pod("waits", state="waiting", shares=())
    return quota


def form(**entered: str) -> dict[str, str]:
    return {"version": "1", "reason": "the team grew"} | entered


def text(answer: object) -> str:
    return re.sub(r"\s+", " ", answer.content.decode().replace("\u202f", " "))  # type: ignore[attr-defined]


def test_form_shows_the_limits_as_they_are(desk: Client) -> None:
    assert 'name="memory_mib" value="8192"' in text(desk.get(reverse("console:quota-edit", args=[nlp().pk])))


def test_raise_says_which_pods_get_their_quota_and_writes_nothing(desk: Client) -> None:
    quota = nlp()
    page = text(desk.post(reverse("console:quota-edit", args=[quota.pk]), form(memory_mib="20000", preview="")))
    assert "1 waiting pod gets its quota: nlp/waits" in page
    assert "nlp holds 8 192 of 20 000 MiB" in page
    assert models.Quota.objects.get().version == 1


def test_cut_says_that_running_pods_stay_and_by_how_much_it_is_over(desk: Client) -> None:
    quota = nlp()
    page = text(desk.post(reverse("console:quota-edit", args=[quota.pk]), form(memory_mib="6144", preview="")))
    assert "1 pod with devices stays; over by 2 048 MiB" in page


def test_cut_names_claims_that_would_wait(desk: Client) -> None:
    quota = nlp()
    rows.pod("claims", state="claimed", shares=(), claim_charges=[rows.charge(2048)])
    quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=20000), **WHY)
    page = text(desk.post(reverse("console:quota-edit", args=[quota.pk]), form(memory_mib="8192", preview="")))
    assert "2 pods without a device would wait for quota" in page


def test_saving_goes_through_the_service_with_the_reason(desk: Client) -> None:
    quota = nlp()
    answer = desk.post(reverse("console:quota-edit", args=[quota.pk]), form(memory_mib="20000", save=""))
    assert answer.headers["Location"] == "/namespaces/nlp"
    newest = models.Quota.history.latest("history_id")
    assert (newest.memory_mib, newest.history_change_reason, newest.history_user.username) == (
        20000,
        "the team grew",
        "root",
    )


@pytest.mark.parametrize(
    "entered,says",
    [
        ({"memory_mib": str(2**34), "preview": ""}, "16 GiB is 16384"),
        ({"memory_mib": str(2**34), "save": ""}, "16 GiB is 16384"),
        ({"memory_mib": "-1", "save": ""}, "greater than or equal to 0"),
        ({"memory_mib": "1", "reason": "", "save": ""}, "This field is required"),
        ({"memory_mib": "1", "version": "7", "save": ""}, "you saw version 7, it is now 1"),
        (
            {"memory_mib": "1", "valid_from": "2026-02-01T00:00", "valid_until": "2026-01-01T00:00", "save": ""},
            "must be after",
        ),
    ],
)
def test_refusals_are_shown_at_their_field(desk: Client, entered: dict[str, str], says: str) -> None:
    quota = nlp()
    answer = desk.post(reverse("console:quota-edit", args=[quota.pk]), form(**entered))
    assert answer.status_code == 200
    assert says in text(answer)
    assert models.Quota.objects.get().version == 1


def test_first_quota_of_a_namespace_and_of_a_tenant(desk: Client) -> None:
    tenants.tenant_save(name="labs", **WHY)
    new = form(version="0", devices="3", save="")
    assert desk.post(reverse("console:quota-new") + "?namespace=cv", new).status_code == 302
    assert desk.post(reverse("console:quota-new") + "?tenant=labs", new).status_code == 302
    assert {str(row) for row in models.Quota.objects.all()} == {"cv/default", "labs/default"}
    assert desk.get(reverse("console:quota-new")).status_code == 404


def test_tenant_admin_sets_limits_of_her_namespaces_only(client: Client) -> None:
    quota = nlp()
    tenants.tenant_save(name="labs", **WHY)
    namespaces.namespace_save(name="nlp", tenant="labs", **WHY)
    client.force_login(models.User.objects.create_user("lead"))
    people.role_grant(role="tenant-admin", user="lead", tenant="labs", **WHY)
    at = reverse("console:quota-edit", args=[quota.pk])
    assert at in text(client.get(reverse("console:namespace", args=["nlp"])))
    assert client.post(at, form(memory_mib="9000", save="")).status_code == 302
    assert client.get(reverse("console:quota-new") + "?tenant=labs").status_code == 403
    assert client.get(reverse("console:quota-new") + "?namespace=cv").status_code == 403
    people.role_grant(role="member", user="lead", namespace="nlp", **WHY)


def test_member_may_not_set_limits(client: Client) -> None:
    quota = nlp()
    client.force_login(models.User.objects.create_user("ann"))
    people.role_grant(role="member", user="ann", namespace="nlp", **WHY)
    at = reverse("console:quota-edit", args=[quota.pk])
    assert client.get(at).status_code == 403
    assert at not in text(client.get(reverse("console:namespace", args=["nlp"])))
