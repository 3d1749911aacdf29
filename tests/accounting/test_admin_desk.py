"""The admin as an operations desk: refusals in the form, bulk actions with a reason, and who may do what."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from accounting import ledger, live_view, models
from accounting.services import findings, people, quotas
from hami_platform.domain.quota import Limits
from tests.accounting import rows

pytestmark = pytest.mark.django_db

WHY: dict[str, Any] = {"reason": "set up", "actor": "root"}
DEVICES = "admin:accounting_device_changelist"


@pytest.fixture
def desk(client: Client) -> Client:
    client.force_login(models.User.objects.create_superuser("root"))
    return client


def person(role: str, **scope: str) -> Client:
    models.User.objects.create_user("ann")
    people.role_grant(role=role, user="ann", **scope, **WHY)
    client = Client()
    client.force_login(models.User.objects.get(username="ann"))
    return client


def quota_form(**entered: str) -> dict[str, str]:
    blank = dict.fromkeys((*models.Quota.LIMITS, "vendor", "model_pattern"), "")
    times = {f"valid_{end}_{part}": "" for end in ("from", "until") for part in (0, 1)}
    return {"name": "default", "reason": "more", "seen_version": "1"} | blank | times | entered


def test_refusal_is_shown_at_its_field_and_nothing_is_written(desk: Client) -> None:
    row = quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=1), **WHY)
    revision = live_view.live().refresh().clock.revision
    at = reverse("admin:accounting_quota_change", args=[row.pk])
    answer = desk.post(at, quota_form(memory_mib=str(16 * 2**30)))
    assert answer.status_code == 200
    assert "16 GiB is 16384" in str(answer.context["adminform"].form.errors["memory_mib"])
    assert live_view.live().refresh().clock.revision == revision


def test_lost_update_is_refused_in_the_form(desk: Client) -> None:
    row = quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=1), **WHY)
    quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=2), **WHY)
    at = reverse("admin:accounting_quota_change", args=[row.pk])
    answer = desk.post(at, quota_form(memory_mib="3", seen_version="1"))
    assert "it is now 2" in str(answer.context["adminform"].form.errors)
    assert desk.post(at, quota_form(memory_mib="3", seen_version="2")).status_code == 302


def test_change_without_a_reason_is_refused(desk: Client) -> None:
    row = quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=1), **WHY)
    at = reverse("admin:accounting_quota_change", args=[row.pk])
    answer = desk.post(at, quota_form(memory_mib="3", reason=""))
    assert "reason" in answer.context["adminform"].form.errors


def test_adding_what_exists_is_refused_and_changes_nothing(desk: Client) -> None:
    rows.namespace_row("nlp")
    form = {"name": "nlp", "tenant": "", "mode": "observe", "reason": "again"}
    answer = desk.post(reverse("admin:accounting_namespace_add"), form)
    assert "already" in str(answer.context["adminform"].form.errors)
    assert models.Namespace.objects.get().mode == "enforce"


def test_bulk_cordon_needs_a_reason_and_is_one_revision(desk: Client) -> None:
    rows.node(count=3)
    chosen = [row.pk for row in models.Device.objects.all()[:2]]
    action = {"action": "cordon", "_selected_action": chosen, "index": 0}
    desk.post(reverse(DEVICES), action | {"reason": ""})
    assert not models.Device.objects.filter(cordoned=True).exists()
    before = live_view.live().refresh().clock.revision
    desk.post(reverse(DEVICES), action | {"reason": "fans"})
    assert models.Device.objects.filter(cordoned=True).count() == 2
    assert live_view.live().refresh().clock.revision == before + 1
    desk.post(reverse(DEVICES), action | {"action": "uncordon", "reason": "fans are new"})
    assert not models.Device.objects.filter(cordoned=True).exists()


def test_devices_are_edited_in_the_list_through_the_service(desk: Client) -> None:
    rows.node(count=1)
    row = models.Device.objects.get()
    form = {
        "form-TOTAL_FORMS": 1, "form-INITIAL_FORMS": 1, "form-0-id": row.pk, "form-0-cordoned": "on",
        "form-0-reserved_mib": "512", "form-0-note": "", "_save": "Save",
    }  # fmt: skip
    desk.post(reverse(DEVICES), form | {"reason": ""})
    assert not models.Device.objects.get().cordoned
    desk.post(reverse(DEVICES), form | {"reason": "driver"})
    assert models.Device.objects.get().reserved_mib == 512
    assert models.Device.history.latest("history_id").history_change_reason == "driver"
    desk.post(reverse(DEVICES), form | {"form-0-reserved_mib": "99999999", "reason": "too much"})
    assert models.Device.objects.get().reserved_mib == 512


def test_pods_are_released_with_a_reason_and_bound_ones_by_force_only(desk: Client) -> None:
    rows.node()
    pod = rows.pod()
    at = reverse("admin:accounting_pod_changelist")
    action = {"action": "release", "_selected_action": [pod.pk], "index": 0, "reason": "stuck"}
    assert desk.get(reverse("admin:accounting_pod_change", args=[pod.pk])).status_code == 200
    desk.post(at, action)
    assert models.Pod.objects.get().state == "running"
    desk.post(at, action | {"action": "release_by_force"})
    assert models.Pod.objects.get().state == "ended"
    assert models.Finding.objects.count() == 1


def test_operator_changes_and_auditor_looks_only() -> None:
    row = quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=1), **WHY)
    at = reverse("admin:accounting_quota_change", args=[row.pk])
    auditor = person("auditor")
    assert auditor.get(at).status_code == 200
    assert auditor.post(at, quota_form(memory_mib="2")).status_code == 403
    people.role_grant(role="operator", user="ann", **WHY)
    assert auditor.post(at, quota_form(memory_mib="2")).status_code == 302


def test_people_of_one_namespace_have_no_business_in_the_admin() -> None:
    rows.namespace_row("nlp")
    member = person("tenant-admin", namespace="nlp")
    assert member.get(reverse("admin:index")).status_code == 302
    assert member.get(reverse("admin:accounting_quota_changelist")).status_code == 302


def test_only_superusers_hand_out_roles() -> None:
    operator = person("operator")
    assert operator.get(reverse("admin:accounting_role_changelist")).status_code == 403
    assert operator.get(reverse("admin:accounting_user_changelist")).status_code == 403


def test_admin_pages_do_not_write(desk: Client) -> None:
    rows.node()
    before = live_view.live().refresh().clock
    for page in ("index", "accounting_device_changelist", "accounting_journal_changelist"):
        assert desk.get(reverse(f"admin:{page}")).status_code == 200
    assert live_view.live().refresh().clock == before


def test_effect_is_shown_in_the_admin_before_anything_is_saved(desk: Client) -> None:
    rows.node()
    rows.pod(namespace="nlp")
    row = quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=50000), **WHY)
    at = reverse("admin:accounting_quota_change", args=[row.pk])
    answer = desk.post(at, quota_form(memory_mib="1", _preview="Show the effect"))
    assert "1 pod with devices stays; over by" in answer.content.decode()
    assert "Please correct" not in answer.content.decode()
    assert models.Quota.objects.get().memory_mib == 50000
    new = quota_form(namespace=str(row.namespace_id), tenant="", name="second", seen_version="0", memory_mib="2")
    answer = desk.post(reverse("admin:accounting_quota_add"), new | {"_preview": "Show the effect"})
    assert "1 pod with devices stays" in answer.content.decode()
    assert models.Quota.objects.count() == 1


def test_conflict_shows_both_versions_and_a_second_save_is_over_the_newer_one(desk: Client) -> None:
    row = quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=1), **WHY)
    quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=2), reason="it grew", actor="root")
    at = reverse("admin:accounting_quota_change", args=[row.pk])
    answer = desk.post(at, quota_form(memory_mib="3", devices="4", seen_version="1"))
    found = answer.context["conflict"]
    assert (found.version, found.by, found.reason) == (2, "root", "it grew")
    assert [(line.seen, line.now, line.entered) for line in found.lines] == [(None, None, 4), (1, 2, 3)]
    assert 'name="seen_version" value="2"' in answer.content.decode()


def test_limits_for_a_while_are_set_in_the_admin_and_kept_by_the_next_save(desk: Client) -> None:
    row = quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=1), **WHY)
    at = reverse("admin:accounting_quota_change", args=[row.pk])
    desk.post(at, quota_form(memory_mib="3", back_at_0="2099-01-01", back_at_1="00:00"))
    row.refresh_from_db()
    assert (row.memory_mib, row.returns_to["memory_mib"]) == (3, 1)
    assert "2099-01-01" in desk.get(at).content.decode()


@pytest.mark.parametrize("entered, told", [("16Gi", "write 16384"), ("17179869184", "16 GiB is 16384")])
def test_a_wrong_unit_is_answered_with_the_right_number(desk: Client, entered: str, told: str) -> None:
    row = quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=1), **WHY)
    answer = desk.post(reverse("admin:accounting_quota_change", args=[row.pk]), quota_form(device_memory_mib=entered))
    assert told in answer.content.decode()
    assert models.Quota.objects.get().device_memory_mib is None


def test_native_quota_is_flagged_beside_ours(desk: Client) -> None:
    quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=4000), **WHY)
    with ledger.transaction(cause="test") as entry:
        row = models.NativeQuota.objects.create(
            cluster_id=ledger.cluster_id(), namespace="nlp", object_name="team", vendor="NVIDIA",
            resource_key="limits.nvidia.com/gpumem", resource="memory_mib", limit=3000,
        )  # fmt: skip
        entry.record("native", row.pk)
    live_view.live().refresh()
    shown = desk.get(reverse("admin:accounting_nativequota_changelist")).content.decode()
    assert "lower than ours" in shown


def test_findings_are_settled_with_a_reason_and_say_what_mends_them(desk: Client) -> None:
    with ledger.transaction(cause="test") as entry:
        findings.finding_raise(entry, kind="quota-unit", subject="nlp/team", message="in bytes", evidence={})
    at = reverse("admin:accounting_finding_changelist")
    action = {"action": "settle", "_selected_action": [models.Finding.objects.get().pk], "index": 0}
    assert "Write the ResourceQuota in MiB" in desk.get(at).content.decode()
    assert "Write the ResourceQuota in MiB" in desk.get(reverse("console:findings")).content.decode()
    desk.post(at, action | {"reason": ""})
    assert models.Finding.objects.get().repaired_at is None
    desk.post(at, action | {"reason": "told the team"})
    assert models.Finding.objects.get().repair == "root: told the team"
    assert models.Journal.objects.filter(kind="finding", actor="root").count() == 1
