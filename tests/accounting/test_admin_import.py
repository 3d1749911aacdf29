"""Quotas as a spreadsheet: exported, previewed, imported through the service as one revision or not at all."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from accounting import live_view, models
from accounting.services import people, quotas, tenants
from hami_platform.domain.quota import Limits
from tests.accounting.changes import same_view

pytestmark = pytest.mark.django_db

WHY: dict[str, Any] = {"reason": "set up", "actor": "root"}
IMPORT = "admin:accounting_quota_import"
COLUMNS = ("namespace", "tenant", "name", *models.Quota.LIMITS, "vendor", "model_pattern", "reason")


@pytest.fixture
def desk(client: Client) -> Client:
    client.force_login(models.User.objects.create_superuser("root"))
    return client


def table(*lines: dict[str, str]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS)
    writer.writeheader()
    writer.writerows({"name": "default", "reason": "yearly plan"} | line for line in lines)
    return text.getvalue()


def previewed(desk: Client, *lines: dict[str, str]) -> object:
    """What the first step of an import shows."""
    file = SimpleUploadedFile("quotas.csv", table(*lines).encode(), "text/csv")
    answer = desk.post(reverse(IMPORT), {"format": "0", "import_file": file, "resource": ""})
    assert answer.status_code == 200
    return answer.context


def confirmed(desk: Client, *lines: dict[str, str]) -> None:
    """Both steps."""
    form = previewed(desk, *lines)["confirm_form"]  # type: ignore[index]
    answer = desk.post(reverse("admin:accounting_quota_process_import"), form.initial)
    assert answer.status_code == 302, answer.context["result"].row_errors()


def test_export_is_what_an_import_reads(desk: Client) -> None:
    quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=40960, devices=0), **WHY)
    answer = desk.get(reverse("admin:accounting_quota_export"))
    lines = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert [(line["namespace"], line["memory_mib"], line["devices"], line["core_percent"]) for line in lines] == [
        ("nlp", "40960", "0", "")
    ]
    before = live_view.live().refresh().clock.revision
    confirmed(desk, *lines)
    assert live_view.live().refresh().clock.revision == before


def test_import_is_one_revision_with_one_history_row_a_line(desk: Client) -> None:
    tenants.tenant_save(name="labs", **WHY)
    quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=1), **WHY)
    before = live_view.live().refresh().clock.revision
    confirmed(
        desk,
        {"namespace": "nlp", "memory_mib": "5"},
        {"tenant": "labs", "devices": "3"},
        {"namespace": "new", "devices": "0"},
    )
    assert live_view.live().refresh().clock.revision == before + 1
    changed = models.Journal.objects.filter(revision=before + 1)
    assert sorted(row.kind for row in changed) == ["namespace", "quota", "quota", "quota"]
    assert {row.actor for row in changed} == {"root"}
    assert models.Quota.history.filter(history_change_reason="yearly plan").count() == 3
    same_view()


def test_preview_writes_nothing_and_refuses_as_the_service_does(desk: Client) -> None:
    before = live_view.live().refresh().clock.revision
    shown = previewed(desk, {"namespace": "nlp", "memory_mib": str(16 * 2**30)}, {"tenant": "nobody", "devices": "1"})
    result = shown["result"]  # type: ignore[index]
    assert "confirm_form" not in shown or shown["confirm_form"] is None  # type: ignore[operator,index]
    told = str([row.error for row in result.invalid_rows]) + str(result.row_errors())
    assert "16 GiB is 16384" in told
    assert "there is no tenant nobody" in told
    previewed(desk, {"namespace": "nlp", "memory_mib": "5"})
    assert live_view.live().refresh().clock.revision == before
    assert not models.Quota.objects.exists()


def test_import_needs_a_reason_on_each_line(desk: Client) -> None:
    result = previewed(desk, {"namespace": "nlp", "devices": "1", "reason": ""})["result"]  # type: ignore[index]
    assert "say why" in str([row.error for row in result.invalid_rows])


def test_only_operators_import(client: Client) -> None:
    client.force_login(models.User.objects.create_user("ann"))
    people.role_grant(role="auditor", user="ann", **WHY)
    assert client.get(reverse(IMPORT)).status_code == 403
    assert client.get(reverse("admin:accounting_quota_export")).status_code == 200


def test_yaml_is_imported_as_a_table_is_and_a_wrong_unit_is_told(desk: Client) -> None:
    def shown(memory: str) -> object:
        document = f"- {{namespace: nlp, name: default, memory_mib: {memory}, reason: yearly plan}}\n"
        file = SimpleUploadedFile("quotas.yaml", document.encode(), "application/yaml")
        return desk.post(reverse(IMPORT), {"format": "1", "import_file": file, "resource": ""}).context

    refused = shown("16Gi")["result"]  # type: ignore[index]
    assert "write 16384" in str([row.error for row in refused.invalid_rows]) + str(refused.row_errors())
    form = shown("16384")["confirm_form"]  # type: ignore[index]
    answer = desk.post(reverse("admin:accounting_quota_process_import"), form.initial)
    assert answer.status_code == 302
    assert models.Quota.objects.get().memory_mib == 16384
