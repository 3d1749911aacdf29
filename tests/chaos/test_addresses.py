"""Addresses that nobody links to, and what a person with one namespace reads of the others.

| asked | answer |
|---|---|
| every page and list of the console and the REST API, by a member of one namespace | no name of another one's pods |
| a NUL, another alphabet, 40 digits, 3,000 letters in place of a key | 400 or 404, never a fault |
| limits of a namespace with a slash in its name | refused by field: no page could link to it |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from accounting.models import NodeLock, User
from accounting.services import lock_repair, namespaces, native_quotas, node_seen, people, quotas
from accounting.services.errors import InvalidInput
from hami_platform.domain.quota import Limits, Selector
from tests.accounting import flow, kube_objects

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.ledger]

WHY: dict[str, Any] = {"reason": "test", "actor": "test"}
SECRET = "elsewhere"
OURS = ("console", "api")
KEYS = {
    "name": ("n1", "n2", SECRET),
    "uuid": ("GPU-n1", "GPU-n2"),
    "key": ("u1", "u2", "u3"),
    "uid": ("u1",),
}


def cluster_of_two() -> None:
    """One namespace has a pod that runs, one that waits, one that cannot be read, and a lock."""
    flow.cluster(kube_objects.node("n1"), kube_objects.node("n2"))
    for name in ("mine", SECRET):
        quotas.quota_set(namespace=name, limits=Limits(memory_mib=40960), **WHY)
    flow.run(kube_objects.pod("elsewhere-runs", uid="u1", mem=1000, namespace=SECRET))
    flow.show(kube_objects.pod("elsewhere-waits", uid="u2", mem=30000, namespace=SECRET))
    flow.filter_(kube_objects.pod("elsewhere-waits", uid="u2", mem=30000, namespace=SECRET))
    bad = {"hami.io/vgpu-devices-allocated": "?"}
    flow.show(kube_objects.pod("elsewhere-bad", uid="u3", mem=1, namespace=SECRET, node="n2", annotations=bad))
    node = kube_objects.node("n2", annotations={node_seen.LOCK: f"2026-01-01T00:00:00Z,{SECRET},elsewhere-runs"})
    lock_repair.locks_observe([node_seen.from_object(node, flow.CONFIG)])
    hard = {"requests.nvidia.com/gpumem": "5"}
    native = {"metadata": {"name": "q", "namespace": SECRET}, "spec": {"hard": hard}}
    native_quotas.native_quotas_observe([native], config=flow.CONFIG, complete=True)
    assert NodeLock.objects.filter(value__contains=SECRET).exists()


def signed_in(name: str, **columns: Any) -> Client:
    person = User.objects.create_user(name, **columns)
    client = Client(raise_request_exception=False)
    client.force_login(person)
    return client


def patterns(resolver: Any, prefix: str = "", spaces: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """(route, its application) of every address."""
    for one in resolver.url_patterns:
        if isinstance(one, URLResolver):
            yield from patterns(one, prefix + str(one.pattern), (*spaces, one.namespace or ""))
        elif isinstance(one, URLPattern):
            yield prefix + str(one.pattern), next(filter(None, spaces), "")


def routes(*applications: str) -> list[str]:
    found = [route for route, application in patterns(get_resolver()) if application in applications]
    return [route for route in found if "logout" not in route]


def named(route: str) -> Iterator[str]:
    """The route with each of the keys that are there."""
    parameter = re.search(r"<(?:\w+:)?(\w+)>", route)
    for key in KEYS.get(parameter[1], ("1",)) if parameter else ("",):
        yield "/" + re.sub(r"<[^>]+>", key, route)


def test_a_member_of_one_namespace_reads_no_name_of_another() -> None:
    cluster_of_two()
    client = signed_in("ann", is_staff=True)
    people.role_grant(role="member", user="ann", namespace="mine", **WHY)
    for path in (path for route in routes(*OURS) for path in named(route)):
        answer = client.get(path)
        assert answer.status_code < 500, path
        text = b"" if answer.streaming else answer.content
        assert answer.status_code in {403, 404} or SECRET not in text.decode(), path


def test_who_sees_everything_is_told_which_pod_cannot_be_read() -> None:
    cluster_of_two()
    client = signed_in("root", is_superuser=True)
    for path in ("/nodes", "/nodes/n2", "/api/v1/nodes/n2", "/activity"):
        assert "elsewhere-bad" in client.get(path).content.decode(), path


NONSENSE = ("%00", "9" * 40, "%F0%9F%98%80", "..%2F..", "a" * 3000, "-1", "1e9")


@pytest.mark.parametrize("text", NONSENSE, ids=lambda text: text[:10])
def test_nonsense_for_a_key_is_never_a_fault(text: str) -> None:
    flow.cluster()
    client = signed_in("root", is_superuser=True, is_staff=True)
    histories = [f"admin/accounting/{model}/<pk>/history/" for model in ("quota", "device", "apitoken")]
    for route in (*routes(*OURS), "admin/accounting/quota/export/", *histories):
        path = re.sub(r"<[^>]+>", text, route)
        if "<" not in route:
            names = ("namespace", "tenant", "node", "state", "after", "before", "kind", "key", "limit", "offset", "q")
            path += "?" + "&".join(f"{name}={text}" for name in names)
        assert client.get(f"/{path}").status_code < 500, path


@pytest.mark.parametrize("name", ["a/b", "A", "-a", "a.b", "a b", "ä"])
def test_a_name_that_no_namespace_can_have_is_refused_by_field(name: str) -> None:
    flow.cluster()
    with pytest.raises(InvalidInput, match="name: small letters"):
        namespaces.namespace_save(name=name, **WHY)
    with pytest.raises(InvalidInput, match="name: small letters"):
        quotas.quota_set(namespace=name, limits=Limits(), **WHY)


def test_a_quota_of_a_vendor_that_nobody_has_is_refused_instead_of_limiting_nothing() -> None:
    flow.cluster()
    with pytest.raises(InvalidInput, match="vendor: nvidia is not configured"):
        quotas.quota_set(namespace="mine", selector=Selector("nvidia"), limits=Limits(devices=0), **WHY)
    quotas.quota_set(namespace="mine", selector=Selector("NVIDIA"), limits=Limits(devices=0), **WHY)
