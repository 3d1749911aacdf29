"""The console's pages: what they say, to whom, and that a poll costs nothing while nothing changes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from accounting import ledger, models
from accounting.pages import overview
from accounting.services import devices, holds, login_links, namespaces, quotas, tenants
from hami_platform import env
from hami_platform.domain.devices import MigPlacement, MigUse
from hami_platform.domain.quota import Limits
from tests.accounting import rows
from tests.accounting.reading import person, text_of
from tests.accounting.rows import Given

pytestmark = pytest.mark.django_db

WHY: dict[str, Any] = {"reason": "set up", "actor": "root"}
CARD: dict[str, Any] = {"node": "n1", "vendor": "NVIDIA", "uuid": "GPU-n1-0"}
POLL: dict[str, Any] = {"HTTP_HX_REQUEST": "true"}
PAGES = ("cluster", "nodes", "devices", "pods", "quotas", "findings", "activity")


@pytest.fixture
def desk(client: Client) -> Client:
    client.force_login(models.User.objects.create_superuser("root"))
    return client


def busy() -> None:
    """A cluster in which something of everything happens."""
    rows.node(count=3)
    tenants.tenant_save(name="labs", **WHY)
    namespaces.namespace_save(name="nlp", tenant="labs", **WHY)
    quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=40960, pod_devices=4), **WHY)
    quotas.quota_set(tenant="labs", limits=Limits(devices=8), **WHY)
    rows.pod("train", shares=[Given(memory_mib=8192), Given(memory_mib=20000, kind="init", container="load")])
    rows.pod("gone", namespace="cv", state="releasing")
    rows.pod("next", state="claimed", claim_charges=[rows.charge()], shares=())
    devices.device_edit(cordoned=True, reserved_mib=512, note="fan", **CARD, **WHY)
    holds.hold_add(amounts=holds.Amounts(1000, 0, 1), **CARD, **WHY)


# -- Who sees what


@pytest.mark.parametrize("page", PAGES)
def test_every_page_asks_to_sign_in(client: Client, page: str) -> None:
    answer = client.get(reverse(f"console:{page}"))
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith("/accounts/login/")


def test_somebody_without_a_role_is_told_whom_to_ask(client: Client) -> None:
    client.force_login(models.User.objects.create_user("eve"))
    answer = client.get(reverse("console:cluster"))
    assert answer.status_code == 403
    assert "Ask an operator" in answer.content.decode()


def test_member_sees_her_namespace_and_only_amounts_of_others() -> None:
    busy()
    member = person("member", namespace="cv")
    assert "cv/gone" in text_of(member, "device", "GPU-n1-0")
    page = text_of(member, "device", "GPU-n1-0")
    assert "another namespace" in page
    assert "nlp" not in page
    assert "train" not in text_of(member, "pods")
    assert "nlp" not in text_of(member, "quotas")
    assert "nlp" not in text_of(member, "activity")
    for path in (reverse("console:namespace", args=["nlp"]), reverse("console:pod", args=["uid-train"])):
        assert member.get(path).status_code == 403
    assert member.get(reverse("console:findings")).status_code == 403


def test_member_reads_of_changes_to_her_own_limits() -> None:
    busy()
    quotas.quota_set(namespace="cv", limits=Limits(devices=1), **WHY)
    page = text_of(person("member", namespace="cv"), "activity")
    assert "cv/default" in page
    assert "nlp/default" not in page


def test_tenant_role_reaches_the_namespaces_under_the_tenant() -> None:
    busy()
    lead = person("viewer", tenant="labs")
    assert "train" in text_of(lead, "pods")
    assert "labs" in text_of(lead, "tenant", "labs")
    assert "gone" not in text_of(lead, "pods")


def test_only_operators_get_links_that_change() -> None:
    busy()
    assert "admin/" not in text_of(person("member", namespace="nlp"), "namespace", "nlp")
    page = text_of(person("operator"), "namespace", "nlp")
    assert "Change quota nlp/default" in page
    assert "admin/accounting/namespace" in page


# -- What they say


@pytest.mark.parametrize("page", PAGES)
def test_empty_cluster_has_a_page_that_says_why(desk: Client, page: str) -> None:
    assert "watch" in text_of(desk, page)


def test_cluster_page_sums_devices_memory_cores_and_pending(desk: Client) -> None:
    busy()
    page = text_of(desk, "cluster")
    assert "<b>1</b> / 3" in page
    assert "<b>25 096</b> / 73 728 MiB" in page  # 20 000 init peak + 4 096 releasing + 1 000 held by a person
    assert "cordoned" in page
    assert "nlp holds 24 096 of 40 960 MiB, free 16 864; 4 096 claimed by 1 pod without a device." in page
    assert "labs holds 2 of 8 devices, free 6" in page


def test_device_page_shows_each_holder_and_what_is_free(desk: Client) -> None:
    busy()
    page = text_of(desk, "device", "GPU-n1-0")
    assert "25 096 of 24 576 MiB held" in page
    assert "Over by 1 032 MiB." in page  # with 512 MiB kept back
    for part in ('fill="url(#hatch)"', 'fill="url(#dots)"', "seg-person", "nlp/train", "cv/gone", "hold 1", "fan"):
        assert part in page, part
    assert "24 576 of 24 576" not in page
    assert "Nobody: the whole device is free." in text_of(desk, "device", "GPU-n1-1")


def test_device_page_draws_mig_placements(desk: Client) -> None:
    rows.node(mode="mig", memory_mib=40960, mig_profiles=rows.mig_profiles())
    use = MigUse("3g.20gb", MigPlacement(4, 4))
    rows.pod(shares=[Given(memory_mib=19968, mig=use)])
    page = text_of(desk, "device", "GPU-n1-0")
    assert "from slice 4, 4 long: nlp/p1" in page
    assert "3g.20gb from slice 0, 4 long" in page
    assert "3g.20gb from slice 4, 4 long <" not in page
    assert "1g.5gb from slice 5" not in page


def test_device_of_a_node_that_is_gone_says_so(desk: Client) -> None:
    node = rows.node()
    with ledger.transaction(cause="test") as entry:
        node.retired = True
        node.save()
        entry.record("node", node.name)
    assert "offers nothing now" in text_of(desk, "device", "GPU-n1-0")
    assert "gone" in text_of(desk, "node", "n1")


def test_pending_pod_page_says_why_with_numbers(desk: Client) -> None:
    rows.node(count=1)
    ask = rows.requests.DeviceRequest("NVIDIA", 1, 90000, None, 20)
    rows.pod(state="claimed", asks=ask, shares=())
    page = text_of(desk, "pod", "uid-p1")
    assert "can never fit here" in page
    assert "Needs 90 000 MiB on a device; the largest device here, on n1, has 24 576 MiB for pods." in page
    assert "Ask for 24 576 MiB a device instead of 90 000." in page
    assert "nvidia.com/gpumem: 24576" in page
    assert "1 × 90 000 MiB · 20 % of cores NVIDIA" in page


def test_pod_over_quota_names_the_limit(desk: Client) -> None:
    rows.node(count=1)
    quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=1000), **WHY)
    rows.pod(state="waiting", shares=())
    page = text_of(desk, "pod", "uid-p1")
    assert "Quota nlp/default: 0 of 1 000 MiB are taken; this pod asks for 4 096 MiB more." in page
    assert "has 1 000, needs 4 096 MiB" in page
    assert "Raise nlp/default from 1 000 to 4 096 MiB." in page
    assert "/quotas/1?memory_mib=4096" in page


def test_pod_page_has_shares_decisions_and_life(desk: Client) -> None:
    busy()
    now = ledger.database_time()
    models.Trace.objects.create(
        cluster_id=ledger.cluster_id(), pod_uid="uid-train", namespace="nlp", pod_name="train", verdict="refused",
        summary="0/3 nodes: 3 CardInsufficientMemory", reason="CardInsufficientMemory", first_at=now, last_at=now,
    )  # fmt: skip
    page = text_of(desk, "pod", "uid-train")
    for part in ("0/3 nodes: 3 CardInsufficientMemory", "20 000", "8 192", "load", "running"):
        assert part in page, part


def test_pending_list_counts_reasons_and_filters_by_them(desk: Client) -> None:
    busy()
    now = ledger.database_time()
    models.Refusal.objects.create(
        cluster_id=ledger.cluster_id(), pod_uid="uid-next", at=now, since=now, reason="CardInsufficientCore",
        summary="0/1 nodes: 1 CardInsufficientCore",
    )  # fmt: skip
    page = text_of(desk, "pods", state="pending")
    assert "CardInsufficientCore <b>1</b>" in page
    assert "next" in text_of(desk, "pods", state="pending", reason="CardInsufficientCore")
    assert "No live pod matches" in text_of(desk, "pods", state="pending", reason="CardNotHealth")


def test_denied_asks_are_shown_by_owner(desk: Client) -> None:
    busy()
    now = ledger.database_time()
    models.DeniedAsk.objects.create(
        cluster_id=ledger.cluster_id(), namespace="nlp", owner="ReplicaSet/web", message="needs 4, free 2",
        first_at=now, last_at=now, times=7,
    )  # fmt: skip
    assert "ReplicaSet/web: needs 4, free 2" in text_of(desk, "namespace", "nlp")


def test_activity_names_actor_and_reason(desk: Client) -> None:
    busy()
    page = text_of(desk, "activity", kind="people")
    assert "set up" in page
    assert "nlp/default" in page
    assert "train" not in page
    assert "root" in page
    assert "memory (MiB) 40960" in page


def test_what_does_not_exist_is_not_found(desk: Client) -> None:
    for page in ("device", "node", "pod", "namespace", "tenant"):
        assert desk.get(reverse(f"console:{page}", args=["nobody"])).status_code == 404


# -- Polling


@pytest.mark.parametrize("page", PAGES)
def test_poll_gets_nothing_while_nothing_changes_and_the_live_part_after(desk: Client, page: str) -> None:
    busy()
    full = desk.get(reverse(f"console:{page}")).content.decode()
    again = re.search(r'hx-get="([^"]+)"', full)
    assert again is not None
    at = again[1].replace("&amp;", "&")
    assert desk.get(at, **POLL).status_code == 204
    quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=50000), **WHY)
    fragment = desk.get(at, **POLL)
    assert fragment.status_code == 200
    assert fragment.content.decode().lstrip().startswith("<main")


def test_poll_notices_a_refusal_that_is_not_in_the_ledger(desk: Client) -> None:
    busy()
    full = desk.get(reverse("console:cluster")).content.decode()
    at = re.search(r'hx-get="([^"]+)"', full)[1].replace("&amp;", "&")  # type: ignore[index]
    now = ledger.database_time()
    models.Refusal.objects.create(cluster_id=ledger.cluster_id(), pod_uid="uid-next", at=now, since=now, reason="X")
    assert desk.get(at, **POLL).status_code == 200


def test_poll_of_somebody_signed_out_reloads_the_page(client: Client) -> None:
    answer = client.get(reverse("console:cluster"), {"after": "1"}, **POLL)
    assert answer.status_code == 401
    assert answer.headers["HX-Refresh"] == "true"


def test_pages_write_nothing(desk: Client) -> None:
    busy()
    before = models.Journal.objects.count()
    text_of(desk, "cluster")
    assert models.Journal.objects.count() == before


def test_heat_map_has_a_cell_for_each_device(desk: Client) -> None:
    for n in range(8):
        rows.node(f"n{n}", count=5)
    assert text_of(desk, "cluster").count('class="cell"') == 40


def test_big_cluster_is_shown_in_blocks_of_nodes(desk: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "CELLS", 10)
    for n in range(3):
        rows.node(f"n{n}", count=4)
    rows.pod(shares=[Given("GPU-n1-0", 24576)])
    page = text_of(desk, "cluster")
    assert page.count('class="cell"') == 3
    assert "n1: 25 % of memory, 5 % of cores held" in page


# -- Safety


@pytest.mark.parametrize("page", PAGES)
def test_pages_carry_no_inline_script_or_style(desk: Client, page: str) -> None:
    busy()
    answer = desk.get(reverse(f"console:{page}"))
    body = answer.content.decode()
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=", body)
    assert not re.search(r'(?:src|href)="(?:https?:)?//', body)
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_names_are_escaped(desk: Client) -> None:
    rows.node()
    rows.pod("<script>alert(1)</script>", uid="u1")
    assert "<script>alert" not in text_of(desk, "pods")


def test_language_is_chosen_and_kept(desk: Client) -> None:
    desk.post(reverse("console:language"), {"language": "zh-hans", "next": "/"})
    page = text_of(desk, "cluster")
    assert '<html lang="zh-hans">' in page
    assert "设备" in page


def test_pages_and_admin_say_that_the_ledger_is_unavailable(desk: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger.breaker, "_why", "database: gone")
    for path in (reverse("console:cluster"), reverse("admin:index")):
        answer = desk.get(path)
        assert answer.status_code == 503
        assert "database: gone" in answer.content.decode()


# -- One-time login links


def test_login_link_is_a_button_that_signs_in_once(client: Client) -> None:
    models.User.objects.create_superuser("root")
    secret = login_links.login_link_create(user="root")
    at = reverse("console:login-link", args=[secret])
    with env.override(demo=True):
        assert client.get(at).status_code == 200
        assert client.get(at).status_code == 200
        assert client.post(at).headers["Location"] == "/"
        assert client.get(reverse("console:cluster")).status_code == 200
        assert Client().post(at).status_code == 410


def test_login_link_works_in_demonstrations_and_from_this_machine_only(client: Client) -> None:
    models.User.objects.create_superuser("root")
    at = reverse("console:login-link", args=[login_links.login_link_create(user="root")])
    assert client.post(at).status_code == 404
    with env.override(demo=True):
        assert client.post(at, REMOTE_ADDR="192.0.2.7").status_code == 404
        assert client.post(at, headers={"X-Forwarded-For": "127.0.0.1"}).status_code == 404
