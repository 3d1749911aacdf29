"""Golden requests: each builder against the request line and body that it must produce."""

from __future__ import annotations

from typing import Any

import pytest

from hami_platform.kube import calls, objects

POD: dict[str, str] = {"namespace": "nlp", "name": "p"}
SPEC = objects.LeaseSpec(holder_identity="n1", lease_duration_seconds=40, renew_time="2026-01-01T00:00:00.000000Z")

GOLDEN: list[tuple[calls.KubeCall[Any], str, Any]] = [
    (calls.pods().page(), "GET /api/v1/pods", None),
    (
        calls.pods(node="n 1", fields="status.phase!=Failed").page(limit=5, token="t/="),
        "GET /api/v1/pods?fieldSelector=spec.nodeName%3Dn+1%2Cstatus.phase%21%3DFailed&limit=5&continue=t%2F%3D",
        None,
    ),
    (
        calls.pods(namespace="nlp", labels="a=b").watch(revision="7", timeout_s=60),
        (
            "GET /api/v1/namespaces/nlp/pods"
            "?watch=true&allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=60&labelSelector=a%3Db"
        ),
        None,
    ),
    (calls.nodes().page(limit=500), "GET /api/v1/nodes?limit=500", None),
    (calls.namespaces().page(), "GET /api/v1/namespaces", None),
    (calls.quotas().page(), "GET /api/v1/resourcequotas", None),
    (calls.pod_get(**POD), "GET /api/v1/namespaces/nlp/pods/p", None),
    (calls.pod_get(namespace="a/b", name="../x"), "GET /api/v1/namespaces/a%2Fb/pods/..%2Fx", None),
    (
        calls.pod_delete(**POD, uid="u"),
        "DELETE /api/v1/namespaces/nlp/pods/p",
        {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u"}},
    ),
    (
        calls.pod_annotate(**POD, annotations={"a": "1", "b": None}, labels={"l": "x"}, uid="u", resource_version="9"),
        "PATCH /api/v1/namespaces/nlp/pods/p",
        {
            "metadata": {
                "uid": "u",
                "resourceVersion": "9",
                "annotations": {"a": "1", "b": None},
                "labels": {"l": "x"},
            }
        },
    ),
    (
        calls.pod_retry(**POD, uid="u", retry_at="12"),
        "PATCH /api/v1/namespaces/nlp/pods/p",
        {"metadata": {"uid": "u", "annotations": {"platform.hami.io/retry-at": "12"}}},
    ),
    (
        calls.pod_remove_gate(**POD, uid="u", gates=["x", "g"], gate="g", resource_version="9"),
        "PATCH /api/v1/namespaces/nlp/pods/p",
        {"metadata": {"uid": "u", "resourceVersion": "9"}, "spec": {"schedulingGates": [{"name": "x"}]}},
    ),
    (
        calls.pod_remove_gate(**POD, uid="u", gates=["g"], gate="g", resource_version="9"),
        "PATCH /api/v1/namespaces/nlp/pods/p",
        {"metadata": {"uid": "u", "resourceVersion": "9"}, "spec": {"schedulingGates": None}},
    ),
    (
        calls.pod_bind(**POD, uid="u", resource_version="9", node="n1", annotations={"a": "1"}, labels={"l": "n1"}),
        "POST /api/v1/namespaces/nlp/pods/p/binding",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "namespace": "nlp",
                "name": "p",
                "uid": "u",
                "resourceVersion": "9",
                "annotations": {"a": "1"},
                "labels": {"l": "n1"},
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
        },
    ),
    (calls.node_get(name="n1"), "GET /api/v1/nodes/n1", None),
    (
        calls.node_annotate(name="n1", annotations={"a": None}, resource_version="9"),
        "PATCH /api/v1/nodes/n1",
        {"metadata": {"resourceVersion": "9", "annotations": {"a": None}}},
    ),
    (calls.namespace_get(name="nlp"), "GET /api/v1/namespaces/nlp", None),
    (
        calls.event_create(
            namespace="nlp",
            name="p.1",
            pod="p",
            uid="u",
            reason="FilteringFailed",
            message="m" * 2000,
            type_="Warning",
            component="hami-scheduler",
            at="2026-01-01T00:00:00Z",
        ),
        "POST /api/v1/namespaces/nlp/events",
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": "nlp", "name": "p.1"},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "nlp", "name": "p", "uid": "u"},
            "reason": "FilteringFailed",
            "message": "m" * 1024,
            "type": "Warning",
            "source": {"component": "hami-scheduler"},
            "firstTimestamp": "2026-01-01T00:00:00Z",
            "lastTimestamp": "2026-01-01T00:00:00Z",
            "count": 1,
        },
    ),
    (
        calls.lease_get(namespace="kube-node-lease", name="n1"),
        "GET /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1",
        None,
    ),
    (
        calls.lease_create(namespace="ns", name="n1", spec=SPEC),
        "POST /apis/coordination.k8s.io/v1/namespaces/ns/leases",
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": "ns", "name": "n1"},
            "spec": {
                "holderIdentity": "n1",
                "leaseDurationSeconds": 40,
                "renewTime": "2026-01-01T00:00:00.000000Z",
            },
        },
    ),
    (
        calls.token_review(token="t", audiences=["a"]),
        "POST /apis/authentication.k8s.io/v1/tokenreviews",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": "t", "audiences": ["a"]},
        },
    ),
]


@pytest.mark.parametrize("call,line,body", GOLDEN, ids=[line for _, line, _ in GOLDEN])
def test_a_call_is_this_request(call: calls.KubeCall[Any], line: str, body: Any) -> None:
    assert (f"{call.method} {call.target}", call.body) == (line, body)
    assert call.content_type == (calls.MERGE_PATCH if call.method == "PATCH" else calls.JSON)


def test_an_update_of_a_lease_is_bound_to_what_was_read() -> None:
    call = calls.lease_update(namespace="ns", name="n1", resource_version="3", spec=SPEC)
    assert (call.method, call.body["metadata"]) == (  # type: ignore[index]
        "PUT",
        {"namespace": "ns", "name": "n1", "resourceVersion": "3"},
    )


def test_only_reads_may_be_repeated() -> None:
    assert calls.pod_get(**POD).reads
    assert not calls.pod_delete(**POD, uid="u").reads
