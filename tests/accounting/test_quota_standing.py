"""Who is over a limit and who waits under it, limits beside native ones and beside earlier ones, and both versions of a
quota that two people changed."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from accounting import ledger, live_view, models
from accounting.selectors import access, native_beside
from accounting.services import namespaces, quotas, standing, tenants
from hami_platform.domain.quota import Limits
from tests.accounting import rows
from tests.accounting.rows import Given

pytestmark = pytest.mark.django_db

WHY: dict[str, Any] = {"reason": "set up", "actor": "root"}


@pytest.fixture
def desk(client: Client) -> Client:
    client.force_login(models.User.objects.create_superuser("root"))
    return client


def text(answer: object) -> str:
    return re.sub(r"\s+", " ", answer.content.decode().replace("\u202f", " "))  # type: ignore[attr-defined]


def test_over_is_named_with_its_numbers_and_starved_only_who_its_limits_would_let() -> None:
    rows.node()
    tenants.tenant_save(name="labs", **WHY)
    for name in ("nlp", "cv", "idle"):
        namespaces.namespace_save(name=name, tenant="labs", mode="wait", **WHY)
    quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=8192), **WHY)
    quotas.quota_set(namespace="cv", limits=Limits(memory_mib=90000), **WHY)
    rows.pod("runs", shares=[Given(memory_mib=9000)])
    rows.pod("waits-for-quota", state="waiting", shares=())
    rows.pod("waits-for-room", namespace="cv", state="waiting", shares=())
    view = live_view.live().refresh()
    assert [(bar.rule, bar.over) for bar in standing.over(view, access.ALL)] == [("nlp/default", 808)]
    found = standing.starved(view, access.ALL)
    assert {(one.kind, one.scope, one.pods) for one in found} == {("tenant", "labs", 1), ("namespace", "cv", 1)}
    fills = {one.scope: one.fill for one in found}
    assert fills["labs"] is None
    assert fills["cv"] is not None
    assert (fills["cv"].limit, fills["cv"].percent) == (90000, 0)


def test_quotas_page_lists_over_starved_and_native_limits(desk: Client) -> None:
    rows.node()
    quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=8192), **WHY)
    rows.pod("runs", shares=[Given(memory_mib=9000)])
    rows.pod("waits", namespace="cv", state="waiting", shares=())
    native(limit=4000)
    shown = text(desk.get(reverse("console:quotas")))
    assert "▲ 808 MiB" in shown
    assert '?namespace=cv">cv</a>' in shown
    assert "lower than ours: what is between the two cannot be used" in shown


@pytest.mark.parametrize(
    "limit, ours, flag", [(4000, 8192, "lower"), (9000, 8192, "higher"), (8192, 8192, "same"), (1, None, "only")]
)
def test_native_limit_is_flagged_beside_ours(limit: int, ours: int | None, flag: str) -> None:
    quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=ours), **WHY)
    native(limit=limit)
    (found,) = native_beside.all_beside(live_view.live().refresh(), access.ALL)
    assert (found.flag, found.native, found.ours) == (flag, limit, ours)


def native(*, limit: int) -> None:
    rows.namespace_row("nlp")
    with ledger.transaction(cause="test") as entry:
        row = models.NativeQuota.objects.create(
            cluster_id=ledger.cluster_id(), namespace="nlp", object_name="team", vendor="NVIDIA",
            resource_key="limits.nvidia.com/gpumem", resource="memory_mib", limit=limit,
        )  # fmt: skip
        entry.record("native", row.pk)


def test_earlier_limits_stand_beside_those_of_today(desk: Client) -> None:
    row = quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=8192), **WHY)
    row.history.update(history_date=ledger.database_time() - timedelta(days=10))
    quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=9000), **WHY)
    quotas.quota_set(namespace="new", limits=Limits(devices=1), **WHY)
    shown = text(desk.get(reverse("console:quotas-as-of")))
    assert '<td class="num">8 192</td><td class="num">9 000</td><td><span class="chip info">changed' in shown
    assert "new/default" in shown
    assert "Enter a time such as" in text(desk.get(reverse("console:quotas-as-of") + "?at=yesterday"))
    assert "There was no limit then" in text(desk.get(reverse("console:quotas-as-of") + "?at=2001-01-01T00:00"))


def test_stale_form_of_the_console_shows_both_versions(desk: Client) -> None:
    row = quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=1), **WHY)
    quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=2), reason="it grew", actor="root")
    at = reverse("console:quota-edit", args=[row.pk])
    shown = text(desk.post(at, {"version": "1", "reason": "mine", "memory_mib": "3", "save": ""}))
    assert "Somebody else saved meanwhile" in shown
    assert "it grew" in shown
    assert re.search(r"<td>1</td><td><b>2</b>.*?</td><td><b>3</b>", shown)
    again = desk.post(at, {"version": "2", "reason": "mine", "memory_mib": "3", "save": ""})
    assert again.status_code == 302
    assert models.Quota.objects.get().memory_mib == 3


def test_quantity_with_a_unit_is_answered_with_the_number(desk: Client) -> None:
    row = quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=1), **WHY)
    at = reverse("console:quota-edit", args=[row.pk])
    assert "write 16384" in text(desk.post(at, {"version": "1", "reason": "r", "memory_mib": "16Gi", "save": ""}))
    assert "Enter a whole number" in text(desk.post(at, {"version": "1", "reason": "r", "memory_mib": "lots"}))
