"""Explanations and simulations over REST: what is said, to whom, and what is wrong with a question."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rest_framework.test import APIClient

from accounting import models
from accounting.services import devices, holds, people, quotas
from hami_platform.domain.quota import Limits
from tests.accounting import kube_objects, rows
from tests.accounting.what_if_equipment import MANIFEST, WHY, client_of, full, url

pytestmark = pytest.mark.django_db


@pytest.fixture
def root() -> APIClient:
    return client_of(models.User.objects.create_superuser("root"))


def member(namespace: str, scopes: list[str] | None = None) -> APIClient:
    user, _ = models.User.objects.get_or_create(username="ann")
    people.role_grant(role="member", user="ann", namespace=namespace, **WHY)
    return client_of(user, scopes)


def test_explain_needs_reach_and_hides_names_of_others() -> None:
    full()
    ann = member("nlp")
    body = ann.get(url("pod-explain", "uid-train")).json()
    assert ann.get(url("pod-explain", "uid-user")).status_code == 404
    assert "cv" not in json.dumps(body)
    (holder,) = body["nodes"][0]["devices"][0]["holders"]
    assert (holder["name"], holder["uid"], holder["memory_mib"]) == ("another namespace", "", 20000)
    waits = [step for fix in body["fixes"] for step in fix["steps"] if step["kind"] == "wait"]
    assert (
        waits[0]["action"] == "Wait until a pod in another namespace ends: it holds 20000 MiB and 50 % of cores on n1."
    )
    assert (waits[0]["url"], waits[0]["command"], waits[0]["may"]) == ("", "", False)


def test_explain_names_the_steps_for_who_may_do_them(root: APIClient) -> None:
    full()
    quotas.quota_set(namespace="nlp", limits=Limits(memory_mib=1000), **WHY)
    devices.device_edit(node="n1", vendor="NVIDIA", uuid="GPU-n1-0", cordoned=True, **WHY)
    rows.pod("small", state="waiting", shares=(), asks=rows.requests.DeviceRequest("NVIDIA", 1, 2000, None, 0))
    steps = {
        step["kind"]: step for fix in root.get(url("pod-explain", "uid-small")).json()["fixes"] for step in fix["steps"]
    }
    quota = models.Quota.objects.get()
    assert steps["quota"]["url"] == f"/quotas/{quota.pk}?memory_mib=2000"
    assert steps["quota"]["may"]
    assert steps["cordon"]["url"].startswith("/admin/accounting/device/")
    ann = member("nlp").get(url("pod-explain", "uid-small")).json()
    assert not any(step["may"] for fix in ann["fixes"] for step in fix["steps"])


def test_a_pod_is_simulated_by_amounts_object_or_manifest(root: APIClient) -> None:
    full()
    by_amounts = {"namespace": "nlp", "ask": {"memory_mib": 4000}}
    by_object = {"pod": kube_objects.pod("x", mem=4000)}
    for body in (by_amounts, by_object, {"manifest": MANIFEST}):
        found = root.post(url("simulate"), body, format="json").json()
        assert (found["fits"], found["copies"], found["problem"]) == (True, ["n1"], "")
        assert found["explanation"]["placement"]["shares"][0]["memory_mib"] == 4000


def test_copies_say_how_many_fit(root: APIClient) -> None:
    full()
    body = {"namespace": "cv", "ask": {"memory_mib": 2000}, "copies": 5}
    found = root.post(url("simulate"), body, format="json").json()
    assert (found["fits"], len(found["copies"])) == (False, 2)


def test_a_change_says_who_starts_and_who_moves(root: APIClient) -> None:
    full()
    body = {"changes": [{"kind": "nodes", "like": "n1", "count": 1, "name": "spare"}]}
    found = root.post(url("simulate"), body, format="json").json()
    assert found["fits"] is None
    assert [(one["name"], one["node"]) for one in found["effect"]["starts"]] == [("train", "spare-1")]
    drained = body | {"changes": [*body["changes"], {"kind": "drain", "node": "n1"}]}
    effect = root.post(url("simulate"), drained, format="json").json()["effect"]
    assert [(one["name"], one["node"]) for one in effect["moves"]] == [("user", "spare-1")]
    ended = {"changes": [{"kind": "end", "pod": "uid-user"}]}
    assert root.post(url("simulate"), ended, format="json").json()["effect"]["starts_count"] == 1


def test_what_admission_refuses_is_said(root: APIClient) -> None:
    full()
    pod = kube_objects.pod("x", mem=4000)
    pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"] = "16Gi"
    found = root.post(url("simulate"), {"pod": pod}, format="json").json()
    assert found["fits"] is False
    assert "MiB" in found["problem"]
    plain = root.post(url("simulate"), {"pod": {"spec": {"containers": [{"name": "a"}]}}}, format="json").json()
    assert plain["problem"].startswith("It asks for no device")


def test_a_pod_taken_from_the_cluster_is_read_as_new(root: APIClient) -> None:
    """`kubectl get pod -o yaml` carries what the scheduler wrote; none of it would be there at the next try."""
    full()
    pod = kube_objects.pod("x", mem=4000, node="n1", claim="c", annotations={"hami.io/vgpu-node": "n1"}, gated=True)
    assert root.post(url("simulate"), {"pod": pod}, format="json").json()["fits"]


def test_members_simulate_in_their_namespaces_only_with_a_token_that_reads() -> None:
    full()
    ann = member("nlp", ["read"])
    mine = {"namespace": "nlp", "ask": {"memory_mib": 4000}}
    assert ann.post(url("simulate"), mine, format="json").status_code == 200
    for body in (
        {"namespace": "cv", "ask": {"memory_mib": 4000}},
        {"changes": [{"kind": "quota", "namespace": "cv", "limits": {"devices": 1}}]},
        {"changes": [{"kind": "quota", "tenant": "labs", "limits": {"devices": 1}}]},
        {"changes": [{"kind": "end", "pod": "uid-user"}]},
        {"changes": [{"kind": "end", "pod": "uid-none"}]},
    ):
        assert ann.post(url("simulate"), body, format="json").status_code == 403, body
    drained = ann.post(url("simulate"), {"changes": [{"kind": "drain", "node": "n1"}]}, format="json").json()
    assert (drained["effect"]["homeless"], drained["effect"]["homeless_count"], drained["effect"]["hidden"]) == (
        [],
        1,
        1,
    )
    assert "cv" not in json.dumps(drained)


@pytest.mark.parametrize(
    "body, field",
    [
        ({}, ""),
        ({"manifest": "kind: Service"}, "manifest"),
        ({"manifest": "a: &a [1]\nb: [*a, *a]"}, "manifest"),
        ({"manifest": "[" * 5000}, "manifest"),
        ({"manifest": "spec: {containers: [3]}"}, "manifest"),
        ({"pod": {"spec": {"containers": True}}}, "pod"),
        ({"pod": {"metadata": {"uid": "u"}, "spec": {"containers": [], "schedulingGates": True}}}, "pod"),
        ({"manifest": MANIFEST, "ask": {}}, "manifest"),
        ({"manifest": MANIFEST, "ask": {"devices": 2}}, "manifest"),
        ({"ask": {"memory_mib": 5, "vendor": "Nobody"}}, "vendor"),
        ({"ask": {"memory_mib": 5, "vendor": "MLU"}}, "memory_mib"),
        ({"changes": [{"kind": "magic"}]}, "kind"),
        ({"changes": [{"kind": "nodes", "count": 2}]}, "memory_mib"),
        ({"changes": [{"kind": "nodes", "count": 2, "like": "nowhere"}]}, "node"),
        ({"changes": [{"kind": "drain"}]}, "node"),
        ({"changes": [{"kind": "cordon", "uuid": "none"}]}, "uuid"),
        ({"changes": [{"kind": "quota", "namespace": "nlp"}]}, "limits"),
        ({"changes": [{"kind": "quota", "namespace": "nlp", "limits": {"gpus": 1}}]}, "limits.gpus"),
        ({"changes": [{"kind": "quota", "namespace": "nlp", "limits": {"devices": -1}}]}, "limits.devices"),
        ({"changes": [{"kind": "quota", "namespace": "nlp", "limits": {"memory_mib": 2**40}}]}, "memory_mib"),
        ({"changes": [{"kind": "quota", "namespace": "nlp", "tenant": "a", "limits": {"devices": 1}}]}, "namespace"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(root: APIClient, body: dict[str, Any], field: str) -> None:
    full()
    answer = root.post(url("simulate"), body, format="json")
    assert answer.status_code == 400, answer.content
    assert answer.json()["errors"][0]["field"] == field


def test_a_hold_of_a_person_is_a_holder_and_a_fix(root: APIClient) -> None:
    rows.node(count=1)
    card: dict[str, Any] = {"node": "n1", "vendor": "NVIDIA", "uuid": "GPU-n1-0"}
    hold = holds.hold_add(amounts=holds.Amounts(24000, 0, 1), **card, **WHY)
    rows.pod("train", state="waiting", shares=(), asks=rows.requests.DeviceRequest("NVIDIA", 1, 2000, None, 0))
    body = root.get(url("pod-explain", "uid-train")).json()
    assert body["nodes"][0]["devices"][0]["holders"][0]["kind"] == "hold"
    step = next(step for fix in body["fixes"] for step in fix["steps"] if step["kind"] == "hold")
    assert step["url"] == f"/admin/accounting/hold/{hold.pk}/change/"


def test_position_counts_those_that_are_woken_first(root: APIClient) -> None:
    full()
    rows.pod("urgent", state="waiting", shares=(), priority=5)
    rows.pod("other", namespace="cv", state="waiting", shares=(), priority=9)
    found = root.get(url("pod-explain", "uid-train")).json()["position"]
    assert found == {"place": 3, "of": 3, "place_in_namespace": 2, "of_namespace": 2}
