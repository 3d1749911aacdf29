"""Another tenant's data, at every address there is: made from the tables of addresses, so that a new one is asked too.

Alpha's things carry `alpha` in all their names. Who belongs to beta may read it nowhere, and change nothing of it.
An address with a parameter must be listed here with alpha's value for it; one without is asked as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver

from accounting import ledger, models, urls
from accounting.admin.console import site
from accounting.api import urls as api_urls
from accounting.services import budgets, findings, holds, namespaces, people, quotas, tenants
from hami_platform.domain.quota import Limits
from tests.accounting import rows

pytestmark = pytest.mark.django_db

SECRET = "alpha"
PARAMETERS: dict[str, dict[str, Any]] = {
    "api": {
        "uid": "uid-alpha-pod", "quota_id": 1, "name": "alpha", "uuid": "GPU-n1-0", "hold_id": 1, "key": "0" * 15,
        "price_id": 1, "trace_id": 1, "budget_id": 1,
    },
    "page": {
        "key": "uid-alpha-pod", "quota_id": 1, "trace_id": 1, "name": "alpha", "uuid": "GPU-n1-0", "secret": "x",
        "budget_id": 1,
    },
}  # fmt: skip
OWN = {"nodes/<str:name>": "nodes/n1", "v1/nodes/<str:name>": "v1/nodes/n1"}
"""Where a parameter names what everybody with a role may see."""
OPEN = {"schema", "docs"}
"""What tells nothing of the cluster."""
MAKES = {"v1/tokens", "v1/simulate"}
"""What a person may post for herself: asked with alpha's names, below, it must not be answered either."""
BODIES: tuple[dict[str, Any], ...] = (
    {"namespace": "alpha", "devices": 1, "reason": "mine now"},
    {"tenant": "alpha", "devices": 1, "mode": "observe", "reason": "mine now"},
    {"name": "beta", "uuid": "GPU-n1-0", "memory_mib": 10, "cordoned": True, "parent": "", "reason": "mine now"},
)


@pytest.fixture(autouse=True)
def two_tenants() -> None:
    """Alpha and beta, each with a namespace, a pod and a limit; findings, traces and denied asks are alpha's."""
    rows.node()
    for name in ("alpha", "beta"):
        why: dict[str, Any] = {"reason": f"{name}'s reason", "actor": "root"}
        tenants.tenant_save(name=name, note=f"{name}'s note", **why)
        namespaces.namespace_save(name=name, tenant=name, **why)
        rows.pod(f"{name}-pod", namespace=name)
        rows.pod(f"{name}-waits", namespace=name, state="waiting", shares=())
        quotas.quota_set(namespace=name, limits=Limits(memory_mib=40960), **why)
        quotas.quota_set(tenant=name, limits=Limits(devices=40), **why)
        budgets.budget_set(namespace=name, plan=budgets.Plan(device_hours=40), **why)
        budgets.budget_set(tenant=name, plan=budgets.Plan(device_hours=40), **why)
    holds.hold_add(
        node="n1", vendor=rows.VENDOR, uuid="GPU-n1-1", amounts=holds.Amounts(memory_mib=10), reason="maintenance"
    )
    told_of_alpha()
    models.User.objects.create_superuser("alphas-root")
    for person in ("reader", "lead"):
        models.User.objects.create_user(person)
    people.role_grant(role="member", user="reader", namespace="beta", reason="test")
    people.role_grant(role="tenant-admin", user="lead", tenant="beta", reason="test")


def told_of_alpha() -> None:
    with ledger.transaction(cause="test") as entry:
        findings.finding_raise(entry, kind="leaked", subject="alpha/alpha-pod", message="alpha", evidence={})
        cluster, at = entry.clock.cluster_id, entry.at
    seen: dict[str, Any] = {"cluster_id": cluster, "namespace": "alpha", "first_at": at, "last_at": at}
    models.Trace.objects.create(pod_uid="uid-alpha-pod", pod_name="alpha-pod", verdict="refused", summary="-", **seen)
    models.DeniedAsk.objects.create(owner="Job/alpha", message="alpha", **seen)
    models.Measurement.objects.create(
        cluster_id=cluster, slot=at, at=at, node="n1", uuid="GPU-n1-0", pod_uid="uid-alpha-pod", container="alpha-main"
    )
    hour = at.replace(minute=0, second=0, microsecond=0)
    used: dict[str, Any] = {"cluster_id": cluster, "vendor": rows.VENDOR, "model": "A100"}
    with ledger.transaction(cause="test"):
        models.UsageHour.objects.create(hour=hour, namespace="alpha", owner="Job/alpha", card_us=10**9, **used)
    models.AccessRecord.objects.create(cluster_id=cluster, kind="token", hour=at, at=at, who="alphas-root")


def person(name: str) -> Client:
    client = Client()
    client.force_login(models.User.objects.get(username=name))
    return client


def addresses(patterns: Iterable[Any], kind: str, prefix: str = "") -> Iterator[tuple[str, str, Any]]:
    """(address as it stands in the table, address with alpha's values, view)."""
    for pattern in patterns:
        text = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from addresses(pattern.url_patterns, kind, text)
        elif isinstance(pattern, URLPattern) and "[" not in text:
            yield text, OWN.get(text, _filled(text, PARAMETERS[kind])), pattern.callback


def _filled(text: str, values: dict[str, Any]) -> str:
    def value(match: re.Match[str]) -> str:
        assert match["name"] in values, f"{text} is new: list alpha's {match['name']} in PARAMETERS"
        return str(values[match["name"]])

    return re.sub(r"<(?:\w+:)?(?P<name>\w+)>", value, text)


def api() -> list[tuple[str, str, Any]]:
    ours = models.Quota.objects.get(namespace__name="alpha").pk
    PARAMETERS["api"]["quota_id"] = PARAMETERS["page"]["quota_id"] = ours
    planned = models.Budget.objects.get(namespace__name="alpha").pk
    PARAMETERS["api"]["budget_id"] = PARAMETERS["page"]["budget_id"] = planned
    PARAMETERS["api"]["hold_id"] = models.Hold.objects.get().pk
    PARAMETERS["api"]["trace_id"] = PARAMETERS["page"]["trace_id"] = models.Trace.objects.get().pk
    return list(addresses(api_urls.urlpatterns, "api"))


def pages() -> list[tuple[str, str, Any]]:
    api()
    return list(addresses(urls.urlpatterns, "page"))


def without_own_address(text: str, path: str) -> str:
    """An answer that names the address that was asked tells nothing."""
    return text.replace(path, "")


@pytest.mark.parametrize("who", ["reader", "lead"])
@pytest.mark.parametrize("query", ["", "?format=csv"])
def test_no_endpoint_tells_of_another_tenant(who: str, query: str) -> None:
    client = person(who)
    for listed, path, _ in api():
        answer = client.get(f"/api/{path}{query}")
        assert answer.status_code in (200, 400, 401, 403, 404, 405), (path, answer.status_code)
        if listed in OPEN:
            continue
        body = b"".join(answer.streaming_content) if answer.streaming else answer.content  # type: ignore[attr-defined]
        told = without_own_address(body.decode(), path)
        assert answer.status_code >= 400 or SECRET not in told, (path, told[:2000])


@pytest.mark.parametrize("who", ["reader", "lead"])
def test_no_page_tells_of_another_tenant(who: str) -> None:
    client, shown = person(who), 0
    for _, path, _ in pages():
        answer = client.get(f"/{path}")
        assert answer.status_code in (200, 302, 400, 403, 404, 405), (path, answer.status_code)
        told = without_own_address(answer.content.decode(), path)
        if answer.status_code == 200:
            shown += 1
            at = told.find(SECRET)
            assert at < 0, (path, told[max(0, at - 200) : at + 100])
    assert shown >= 9


def test_items_of_another_tenant_are_not_there() -> None:
    client = person("lead")
    items = ("v1/pods/", "v1/quotas/", "v1/namespaces/", "v1/tenants/", "v1/budgets/")
    asked = [path for _, path, _ in api() if path.startswith(items)]
    assert len(asked) == 8
    for path in asked:
        assert client.get(f"/api/{path}").status_code in (403, 404), path
    for path in (
        "pods/uid-alpha-pod",
        "namespaces/alpha",
        "tenants/alpha",
        "quotas/new?namespace=alpha",
        "budgets/new?scope=namespace:alpha",
        "findings",
    ):
        assert client.get(f"/{path}").status_code in (403, 404), path


@pytest.mark.parametrize("who", ["reader", "lead"])
def test_nothing_of_another_tenant_is_changed(who: str) -> None:
    client, before = person(who), models.Journal.objects.count()
    for listed, path, view in api():
        for method in _methods(view):
            for body in BODIES if listed not in MAKES else BODIES[:1]:
                send: Callable[..., Any] = getattr(client, method)
                answer = send(f"/api/{path}", body, content_type="application/json", headers={"If-Match": "*"})
                assert 400 <= answer.status_code < 500, (method, path, body, answer.status_code, answer.content[:500])
    assert models.Journal.objects.count() == before


def test_without_a_role_nothing_is_told_and_without_a_name_neither() -> None:
    models.User.objects.create_user("stranger")
    for client, refused in ((person("stranger"), (400, 401, 403, 404, 405)), (Client(), (401,))):
        for listed, path, _ in api():
            if listed in OPEN or (listed.startswith("v1/tokens") and refused != (401,)):
                continue
            assert client.get(f"/api/{path}").status_code in refused, path


def test_the_admin_is_for_those_who_see_everything() -> None:
    client, asked = person("lead"), 0
    for path in _admin(site.get_urls(), "/admin/"):
        asked += 1
        assert client.get(path).status_code in (302, 403, 404), path
    assert asked > 60


def test_access_records_are_for_operators_and_auditors() -> None:
    for role, status in (("viewer", 403), ("member", 403), ("auditor", 200), ("operator", 200)):
        models.User.objects.create_user(role)
        people.role_grant(role=role, user=role, reason="test")
        answer = person(role).get("/api/v1/access?format=csv")
        assert answer.status_code == status, role
        assert person(role).get("/admin/accounting/accessrecord/").status_code == status, role
        if status == 200:
            assert b"alphas-root" in b"".join(answer.streaming_content)  # type: ignore[attr-defined]


def _methods(view: Any) -> list[str]:
    made = getattr(view, "cls", None)
    return [name for name in ("post", "put", "patch", "delete") if hasattr(made, name)]


def _admin(patterns: Iterable[Any], prefix: str) -> Iterator[str]:
    for pattern in patterns:
        text = prefix + re.sub(r"<[^>]+>", "1", str(pattern.pattern))
        if isinstance(pattern, URLResolver):
            yield from _admin(pattern.url_patterns, text)
        elif not re.search(r"[\\^?(]", text) and not text.endswith(("login/", "logout/", "jsi18n/")):
            yield text
