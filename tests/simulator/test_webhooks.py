"""Admission webhooks of the simulated API server: when they are called, what they get, what their answer does."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from hami_platform.simulator import apiserver, certificates, client, transport
from scheduler_ext import webhook_config
from tests.simulator import equipment
from tests.simulator.equipment import Cluster, Obj, Peer

PODS = "/api/v1/namespaces/default/pods"
CONFIGURATIONS = client.path_of("mutatingwebhookconfigurations", group="admissionregistration.k8s.io")
NAME = "pods.example.com"


@pytest.fixture(scope="module")
def authority() -> certificates.Authority:
    return certificates.Authority()


@pytest.fixture
def api() -> Iterator[apiserver.ApiServer]:
    with apiserver.ApiServer() as server:
        yield server


@pytest.fixture
def cluster(api: apiserver.ApiServer) -> Iterator[Cluster]:
    made = Cluster(api.url)
    yield made
    made.api.close()


def allowing(*operations: Obj, **more: Any) -> equipment.Script:
    """A webhook that allows with a JSON patch."""

    def answer(path: str, review: Obj) -> Obj:
        patch = (
            {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}
            if operations
            else {}
        )
        response = {"uid": review["request"]["uid"], "allowed": True, **patch, **more}
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}

    return answer


def denying(**status: Any) -> equipment.Script:
    return lambda path, review: {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": False, "status": status},
    }


def hook(url: str, ca: bytes, **parts: Any) -> Obj:
    """A configuration with one webhook for pods' CREATE."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    entry = {
        "name": NAME,
        "clientConfig": {"url": f"{url}/mutate", "caBundle": base64.b64encode(ca).decode()},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
        **parts,
    }
    return {"metadata": {"name": "hooks"}, "webhooks": [entry]}


def serve(authority: certificates.Authority, script: equipment.Script) -> Peer:
    return Peer(script, authority.server_context())


def created(cluster: Cluster, name: str = "p", **parts: Any) -> Obj | client.ApiFailure:
    try:
        return cluster.create_pod(name, **parts)
    except client.ApiFailure as failure:
        return failure


def refused(cluster: Cluster) -> client.ApiFailure:
    found = created(cluster)
    assert isinstance(found, client.ApiFailure), "the pod was created"
    return found


def test_the_review_has_the_captured_keys(cluster: Cluster, authority: certificates.Authority) -> None:
    real = equipment.captured("admissionreview.json")
    with serve(authority, allowing()) as peer:
        cluster.api.create(CONFIGURATIONS, hook(peer.url, authority.pem))
        container = real["request"]["object"]["spec"]["containers"][0]
        amounts = {"limits": {"nvidia.com/gpu": "2"}, "requests": {"cpu": "1", "memory": "1Gi"}}
        asked = {"name": "c", "image": container["image"], "resources": amounts}
        spec = {"containers": [asked], "terminationGracePeriodSeconds": 0}
        cluster.api.create(PODS, {"metadata": {"name": "proof-b"}, "spec": spec})
        ((path, ours, headers),) = peer.calls
    http = equipment.captured("admissionreview.http.json")
    assert path == http["path"]
    assert {key: headers[key] for key in ("User-Agent", "Accept", "Content-Type")} == {
        key: http["headers"][key] for key in ("User-Agent", "Accept", "Content-Type")
    }
    real["request"]["userInfo"].pop("extra")
    for review in (ours, real):
        review["request"]["object"]["metadata"].pop("managedFields")
    assert equipment.form(ours) == equipment.form(real)
    assert ours["request"]["object"]["status"] == {}


def test_with_generate_name_the_review_has_no_name(cluster: Cluster, authority: certificates.Authority) -> None:
    with serve(authority, allowing()) as peer:
        cluster.api.create(CONFIGURATIONS, hook(peer.url, authority.pem))
        body = equipment.make_pod("x")
        body["metadata"] = {"generateName": "job-"}
        cluster.api.create(PODS, body)
        (review,) = peer.asked("/mutate")
    assert "name" not in review["request"]
    assert "name" not in review["request"]["object"]["metadata"]
    assert review["request"]["object"]["metadata"]["namespace"] == "default"


def test_what_a_webhook_adds_is_defaulted_again(cluster: Cluster, authority: certificates.Authority) -> None:
    add = {"op": "add", "path": "/spec/containers/0/resources/limits/nvidia.com~1gpumem", "value": "2000"}
    with serve(
        authority, allowing(add, {"op": "replace", "path": "/spec/schedulerName", "value": "hami-scheduler"})
    ) as peer:
        cluster.api.create(CONFIGURATIONS, hook(peer.url, authority.pem))
        pod = cluster.create_pod("p")
    amounts = pod["spec"]["containers"][0]["resources"]
    assert amounts["limits"]["nvidia.com/gpumem"] == amounts["requests"]["nvidia.com/gpumem"] == "2k"
    assert pod["spec"]["schedulerName"] == "hami-scheduler"


def test_a_denial_carries_code_and_message(cluster: Cluster, authority: certificates.Authority) -> None:
    with serve(authority, denying(code=422, message="needs 4000, free 2000")) as peer:
        cluster.api.create(CONFIGURATIONS, hook(peer.url, authority.pem))
        failure = refused(cluster)
    assert failure.code == 422
    assert failure.message == f'admission webhook "{NAME}" denied the request: needs 4000, free 2000'


def test_a_denial_without_a_code_is_400(cluster: Cluster, authority: certificates.Authority) -> None:
    with serve(authority, denying()) as peer:
        cluster.api.create(CONFIGURATIONS, hook(peer.url, authority.pem))
        failure = refused(cluster)
    assert (failure.code, failure.message) == (
        400,
        f'admission webhook "{NAME}" denied the request without explanation',
    )


REVIEW = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
BROKEN: dict[str, Any] = {
    "HTTP 500": 500,
    "hangs up": None,
    "not JSON": b"oops",
    "wrong uid": {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "x", "allowed": True},
    },
    "no apiVersion": {"response": {"uid": "x", "allowed": True}},
    "no response": REVIEW,
}


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_webhook_follows_its_failure_policy(
    cluster: Cluster, authority: certificates.Authority, policy: str, case: str
) -> None:
    with serve(authority, lambda path, body: BROKEN[case]) as peer:
        cluster.api.create(CONFIGURATIONS, hook(peer.url, authority.pem, failurePolicy=policy))
        found = created(cluster)
    if policy == "Ignore":
        assert not isinstance(found, client.ApiFailure)
    else:
        assert isinstance(found, client.ApiFailure)
        assert (found.code, found.reason) == (500, "InternalError")
        assert found.message.startswith(f'Internal error occurred: failed calling webhook "{NAME}": ')


def test_a_refused_connection_fails_closed(cluster: Cluster, authority: certificates.Authority) -> None:
    cluster.api.create(CONFIGURATIONS, hook("https://127.0.0.1:1", authority.pem))
    assert "connect: connection refused" in refused(cluster).message


def test_a_certificate_of_another_authority_is_not_trusted(cluster: Cluster, authority: certificates.Authority) -> None:
    with serve(authority, allowing()) as peer:
        cluster.api.create(CONFIGURATIONS, hook(peer.url, certificates.Authority().pem))
        assert "x509: certificate signed by unknown authority" in refused(cluster).message


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_a_patch_that_does_not_apply_fails_under_both_policies(
    cluster: Cluster, authority: certificates.Authority, policy: str
) -> None:
    with serve(authority, allowing({"op": "replace", "path": "/metadata/labels/x", "value": "y"})) as peer:
        cluster.api.create(CONFIGURATIONS, hook(peer.url, authority.pem, failurePolicy=policy))
        failure = refused(cluster)
    assert failure.code == 500
    assert "replace operation does not apply" in failure.message


def test_warnings_reach_the_client_as_headers(
    cluster: Cluster, authority: certificates.Authority, api: apiserver.ApiServer
) -> None:
    with serve(authority, allowing(warnings=['over by "2000" MiB'])) as peer:
        cluster.api.create(CONFIGURATIONS, hook(peer.url, authority.pem))
        pool = transport.Pool(api.url)
        body = json.dumps(equipment.make_pod("p")).encode()
        answer = pool.request("POST", PODS, body, {"Content-Type": "application/json"}, 10)
        pool.close()
    assert answer.headers["warning"] == '299 - "over by \\"2000\\" MiB"'


def test_a_namespace_that_is_not_selected_is_left_alone(cluster: Cluster, authority: certificates.Authority) -> None:
    selector = {"matchExpressions": [{"key": "hami.io/webhook", "operator": "NotIn", "values": ["ignore"]}]}
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": "free", "labels": {"hami.io/webhook": "ignore"}}})
    with serve(authority, denying()) as peer:
        cluster.api.create(CONFIGURATIONS, hook(peer.url, authority.pem, namespaceSelector=selector))
        cluster.create_pod("p", "free")
        assert refused(cluster).code == 400


def test_a_service_is_resolved_and_its_name_verified(authority: certificates.Authority) -> None:
    names = ["hami.kube-system.svc"]
    with Peer(allowing(), authority.server_context(names)) as peer:
        target = peer.url.removeprefix("https://")
        with apiserver.ApiServer(resolve=lambda namespace, name, port: target if name == "hami" else None) as server:
            cluster = Cluster(server.url)
            service = {"namespace": "kube-system", "name": "hami", "path": "/webhook"}
            config = {"service": service, "caBundle": base64.b64encode(authority.pem).decode()}
            cluster.api.create(CONFIGURATIONS, hook(peer.url, authority.pem, clientConfig=config))
            cluster.create_pod("p")
            cluster.api.close()
        assert peer.asked("/webhook")


@pytest.mark.parametrize(
    "parts, text",
    [
        ({"sideEffects": "Some"}, "sideEffects"),
        ({"timeoutSeconds": 31}, "must be between 1 and 30 seconds"),
        ({"matchConditions": [{"name": "x", "expression": "object.foo("}]}, "compilation failed"),
        (
            {"matchConditions": [{"name": "x", "expression": "authorizer.path('/')"}]},
            "undeclared reference to 'authorizer'",
        ),
        ({"clientConfig": {"url": "http://127.0.0.1/x"}}, "'https' is the only allowed URL scheme"),
        ({"clientConfig": {"url": "https://127.0.0.1/x?a=b"}}, "query parameters are not permitted"),
        ({"admissionReviewVersions": ["v2"]}, "must include at least one of v1, v1beta1"),
    ],
)
def test_a_bad_configuration_is_refused(cluster: Cluster, parts: Obj, text: str) -> None:
    with pytest.raises(client.ApiFailure, match="422") as caught:
        cluster.api.create(CONFIGURATIONS, hook("https://127.0.0.1:1", b"", **parts))
    assert text in caught.value.message


# --- our own configuration ----------------------------------------------------------------------------------


@pytest.fixture
def ours(cluster: Cluster, authority: certificates.Authority) -> Iterator[Peer]:
    """The platform's configuration with a webhook that denies everything it is asked about."""
    subject = webhook_config.Subject(
        resources=("nvidia.com/gpu", "nvidia.com/gpumem"),
        keys=("hami.io/bind-phase", "hami.io/vgpu-node"),
        prefixes=("platform.hami.io/",),
        writers=("system:serviceaccount:kube-system:hami",),
    )
    with serve(authority, denying(code=403, message="asked")) as peer:
        endpoint = webhook_config.Endpoint(url=f"{peer.url}/webhook", ca=authority.pem)
        cluster.api.create(CONFIGURATIONS, webhook_config.configuration(subject, endpoint))
        yield peer


def test_our_webhook_is_asked_about_pods_with_devices_only(cluster: Cluster, ours: Peer) -> None:
    cluster.create_pod("plain", gpus=None)
    assert refused(cluster).code == 403


def test_our_webhook_is_asked_about_owned_keys(cluster: Cluster, ours: Peer) -> None:
    found = created(cluster, gpus=None, metadata={"annotations": {"platform.hami.io/claim": "x"}})
    assert isinstance(found, client.ApiFailure)


def test_our_webhook_hears_of_a_changed_owned_key_but_not_from_its_writers(
    cluster: Cluster, api: apiserver.ApiServer, ours: Peer
) -> None:
    cluster.create_pod("plain", gpus=None)
    cluster.api.patch(f"{PODS}/plain", {"metadata": {"labels": {"other": "x"}, "finalizers": ["a.io/b"]}})
    change = {"metadata": {"annotations": {"hami.io/bind-phase": "success"}}}
    with pytest.raises(client.ApiFailure, match="asked"):
        cluster.api.patch(f"{PODS}/plain", change)
    for writer in ("system:serviceaccount:kube-system:hami", "system:node:n1"):
        trusted = Cluster(api.url, token=api.token(writer))
        trusted.api.patch(f"{PODS}/plain", change)
        trusted.api.close()
