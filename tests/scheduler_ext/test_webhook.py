"""`/webhook`: what is allowed, what is changed, what is denied and why."""

from __future__ import annotations

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from accounting import ledger
from accounting.models import DeniedAsk, Node, Pod
from accounting.services import namespaces, quotas
from hami_platform import env
from hami_platform.domain.quota import Limits, Selector
from tests.scheduler_ext.world import World, container, pod

PLAIN = {"name": "main", "image": "i", "resources": {"limits": {"cpu": "1"}}}

pytestmark = pytest.mark.ledger


def new(name: str = "p", *containers: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """A pod as a user writes it: default scheduler, nothing else."""
    made = pod(name, *containers, **metadata)
    made["spec"]["schedulerName"] = "default-scheduler"
    return made


def patched(response: dict[str, Any]) -> dict[str, Any]:
    """Path → value of a response's patch."""
    if "patch" not in response:
        return {}
    return {one["path"]: one["value"] for one in json.loads(base64.b64decode(response["patch"]))}


def limit(memory_mib: int, namespace: str = "nlp") -> None:
    quotas.quota_set(
        namespace=namespace, name="default", selector=Selector(), limits=Limits(memory_mib=memory_mib), reason="test"
    )


def test_h13_a_pod_without_devices_is_allowed_without_patch_or_query(
    world: World, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(0):
        response = world.admit(new("p", PLAIN))
    assert response == {"uid": response["uid"], "allowed": True, "status": {"code": 200}}
    assert not Pod.objects.exists()


def test_h01_a_gpu_pod_gets_our_scheduler_and_holds_its_claim(world: World) -> None:
    response = world.admit(new("p", container(gpumem=3000)))
    patch = patched(response)
    assert patch["/spec/schedulerName"] == "hami-scheduler"
    claim = Pod.objects.get()
    assert (claim.state, claim.claim_id, claim.name, claim.uid) == ("claimed", response["uid"], "p", "")
    assert patch["/metadata/annotations"] == {"platform.hami.io/claim": response["uid"]}


def test_a_repeated_review_gets_the_stored_claim(world: World) -> None:
    first = world.admit(new(), uid="same")
    assert patched(world.admit(new(), uid="same")) == patched(first)
    assert Pod.objects.count() == 1


def test_h05_an_amount_with_a_wrong_unit_is_denied_with_a_hint(world: World) -> None:
    response = world.admit(new("p", container(gpu=1, gpumem="16Gi")))
    assert not response["allowed"]
    assert "16384" in response["status"]["message"]
    assert not Pod.objects.exists()


def test_h09_a_privileged_container_beside_a_gpu_is_denied_by_name(world: World) -> None:
    helper = {"name": "helper", "image": "i", "securityContext": {"privileged": True}}
    response = world.admit(new("p", container(gpu=1), helper))
    assert "helper" in response["status"]["message"]
    assert response["status"]["code"] == 403


def test_h10_an_owned_annotation_is_denied_by_key(world: World) -> None:
    for key in ("hami.io/vgpu-devices-allocated", "hami.io/bind-phase", "platform.hami.io/claim"):
        response = world.admit(new("p", PLAIN, annotations={key: "x"}))
        assert key in response["status"]["message"]


def test_over_quota_is_denied_with_the_numbers_and_kept_by_owner(world: World) -> None:
    limit(10000)
    for name in ("a", "b"):
        assert world.admit(new(name, container(gpu=1, gpumem=4000)))["allowed"]
    owner = {"kind": "ReplicaSet", "name": "rs", "uid": "r", "apiVersion": "apps/v1", "controller": True}
    for _ in range(2):
        response = world.admit(new("c", container(gpu=1, gpumem=4000), ownerReferences=[owner]))
    assert not response["allowed"]
    assert "needs 4000, free 2000 of 10000" in response["status"]["message"]
    world.flush()
    kept = DeniedAsk.objects.get()
    assert (kept.owner, kept.times) == ("ReplicaSet/rs", 2)


def test_h25_pods_created_in_the_same_moment_never_exceed_the_quota(world: World) -> None:
    limit(10000)

    def admit(name: str) -> bool:
        try:
            return bool(World(world.api, world.kube).admit(new(name, container(gpu=1, gpumem=4000)))["allowed"])
        finally:
            connection.close()

    with ThreadPoolExecutor(3) as pool:
        allowed = list(pool.map(admit, ("a", "b", "c")))
    assert sorted(allowed) == [False, True, True]
    assert Pod.objects.filter(state="claimed").count() == 2


def test_in_wait_mode_a_pod_over_quota_is_gated_without_a_claim(world: World) -> None:
    limit(1000)
    namespaces.namespace_save(name="nlp", mode="wait", reason="test")
    response = world.admit(new("p", container(gpu=1, gpumem=4000)))
    patch = patched(response)
    assert response["allowed"]
    assert patch["/spec/schedulingGates"] == [{"name": "platform.hami.io/quota"}]
    assert "/metadata/annotations" not in patch
    assert any("waits for quota" in text for text in response["warnings"])


def test_a_dry_run_claims_nothing(world: World) -> None:
    response = world.admit(new(), dryRun=True)
    assert response["allowed"]
    assert patched(response)["/spec/schedulerName"] == "hami-scheduler"
    assert not Pod.objects.exists()


def test_h14_without_the_ledger_gpu_pods_are_denied_with_the_reason_and_plain_pods_allowed(world: World) -> None:
    ledger.breaker._why = "database: it is gone"
    try:
        response = world.admit(new())
        assert "it is gone" in response["status"]["message"]
        assert response["status"]["code"] == 503
        assert world.admit(new("q", PLAIN))["allowed"]
    finally:
        ledger.breaker._why = ""


def test_a_cluster_that_is_still_being_read_denies_gpu_pods(transactional_db: None, client: Any) -> None:
    asked = {"uid": "u", "kind": {"kind": "Pod"}, "operation": "CREATE", "namespace": "nlp", "object": new()}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
    response = client.post("/webhook", body, content_type="application/json").json()["response"]
    assert not response["allowed"]
    assert "not ready" in response["status"]["message"]


OLD = new("p", container(gpu=1), annotations={"hami.io/vgpu-node": "n1"})
MOVED = new("p", container(gpu=1), annotations={"hami.io/vgpu-node": "n2"})


def test_an_owned_key_is_changed_only_by_writers(world: World, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        denied = world.admit(MOVED, operation="UPDATE", old=OLD)
        kubelet = world.admit(MOVED, operation="UPDATE", old=OLD, userInfo={"username": "system:node:n1"})
        other = world.admit(OLD, operation="UPDATE", old=OLD)
        with env.override(owned_key_writers=("jane",)):
            writer = world.admit(MOVED, operation="UPDATE", old=OLD)
    assert "hami.io/vgpu-node" in denied["status"]["message"]
    assert kubelet["allowed"]
    assert other["allowed"]
    assert writer["allowed"]


def test_our_own_service_accounts_are_writers(world: World) -> None:
    ours = {"username": "system:serviceaccount:gpu:x", "groups": ["system:serviceaccounts:gpu"]}
    assert not world.admit(MOVED, operation="UPDATE", old=OLD, userInfo=ours)["allowed"]
    with env.override(pod_namespace="gpu"):
        assert world.admit(MOVED, operation="UPDATE", old=OLD, userInfo=ours)["allowed"]


def test_pods_opt_out_only_where_that_is_configured(world: World) -> None:
    opted = new("p", container(gpu=1), labels={"hami.io/webhook": "ignore"})
    assert patched(world.admit(opted))
    with env.override(pod_webhook_ignore_label=True):
        assert not patched(world.admit(opted))


@pytest.mark.parametrize("body", [b"", b"zzz", b"{}", b'{"apiVersion":"v1","kind":"Pod","request":{"uid":"a"}}'])
def test_a_broken_review_is_denied_in_band(world: World, body: bytes) -> None:
    response = world.post("/webhook", body)["response"]
    assert (response["allowed"], response["status"]["code"]) == (False, 400)


def test_other_kinds_and_subresources_pass(world: World) -> None:
    assert world.admit(new(), kind={"kind": "Node"})["allowed"]
    assert not patched(world.admit(new(), subResource="binding"))
    assert not patched(world.admit(new(), operation="DELETE"))


def label(*words: str) -> None:
    """Node n1 carries the labels of these vendors, as the watcher saw it."""
    with ledger.transaction(cause="labelled") as entry:
        node = Node.objects.get(name="n1")
        node.labelled = list(words)
        node.save(update_fields=["labelled"])
        entry.record("node", "n1")


def test_a_pod_is_narrowed_once_every_node_with_its_devices_carries_the_label(world: World) -> None:
    with env.override(narrowing=True):
        assert "/spec/nodeSelector" not in patched(world.admit(new("early"))), "n1 would be left out"
        label("NVIDIA")
        assert patched(world.admit(new("late")))["/spec/nodeSelector"] == {"platform.hami.io/nvidia": "true"}
        label()
        assert "/spec/nodeSelector" not in patched(world.admit(new("again"))), "somebody has taken the label off"


@pytest.mark.parametrize("narrowing,strict", [(False, False), (True, True)])
def test_a_pod_is_not_narrowed_where_that_is_off_or_hami_would_not(world: World, narrowing: bool, strict: bool) -> None:
    label("NVIDIA")
    with env.override(narrowing=narrowing, strict_hami=strict):
        assert "/spec/nodeSelector" not in patched(world.admit(new()))
