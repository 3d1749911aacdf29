"""The simulated API server: defaults, preconditions, bindings, deletion, patches, users, as the real one does them."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator

import pytest

from hami_platform.simulator import apiserver, client, transport
from tests.simulator.equipment import Cluster, Obj, make_pod

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def api() -> Iterator[apiserver.ApiServer]:
    with apiserver.ApiServer() as server:
        yield server


@pytest.fixture
def cluster(api: apiserver.ApiServer) -> Iterator[Cluster]:
    made = Cluster(api.url)
    yield made
    made.api.close()


def failure(call: object, *args: object, **kwargs: object) -> client.ApiFailure:
    with pytest.raises(client.ApiFailure) as caught:
        call(*args, **kwargs)  # type: ignore[operator]
    return caught.value


# --- create -------------------------------------------------------------------------------------------------


def test_a_pod_is_defaulted_as_the_real_server_does(cluster: Cluster) -> None:
    spec = cluster.create_pod("p")["spec"]
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1", "nvidia.com/gpu": "1"}
    assert [item["key"] for item in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert cluster.pod("p")["status"] == {"phase": "Pending", "qosClass": "Burstable"}


@pytest.mark.parametrize(
    "given, stored",
    [
        ("2000", "2k"),
        ("0.5", "500m"),
        ("1024Mi", "1Gi"),
        ("10Gi", "10Gi"),
        ("1500Mi", "1500Mi"),
        ("1000m", "1"),
        ("1e3", "1e3"),
        ("100", "100"),
    ],
)
def test_quantities_are_stored_in_canonical_form(cluster: Cluster, given: str, stored: str) -> None:
    body = make_pod("p")
    body["spec"]["containers"][0]["resources"] = {"requests": {"memory": given}}
    assert cluster.api.create(PODS, body)["spec"]["containers"][0]["resources"]["requests"]["memory"] == stored


@pytest.mark.parametrize(
    "resources, text",
    [
        ({"limits": {"nvidia.com/gpu": "0.5"}}, "must be an integer"),
        ({"limits": {"nvidia.com/gpu": "1500m"}}, "must be an integer"),
        ({"limits": {"nvidia.com/gpu": "-1"}}, "must be greater than or equal to 0"),
        ({"requests": {"nvidia.com/gpu": "1"}}, "Limit must be set for non overcommitable resources"),
        (
            {"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "1"}},
            "must be equal to nvidia.com/gpu limit of 2",
        ),
    ],
)
def test_extended_resources_are_whole_and_never_overcommitted(cluster: Cluster, resources: Obj, text: str) -> None:
    body = make_pod("p")
    body["spec"]["containers"][0]["resources"] = resources
    refused = failure(cluster.api.create, PODS, body)
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert text in refused.message


def test_a_second_pod_of_the_same_name_already_exists(cluster: Cluster) -> None:
    cluster.create_pod("p")
    refused = failure(cluster.create_pod, "p")
    assert (refused.code, refused.reason, refused.message) == (409, "AlreadyExists", 'pods "p" already exists')


def test_generate_name_adds_five_characters(cluster: Cluster) -> None:
    body = make_pod("x")
    body["metadata"] = {"generateName": "job-"}
    name = cluster.api.create(PODS, body)["metadata"]["name"]
    assert name.startswith("job-")
    assert len(name) == 9


def test_a_missing_namespace_is_not_found(cluster: Cluster) -> None:
    refused = failure(cluster.create_pod, "p", "nowhere")
    assert (refused.code, refused.message) == (404, 'namespaces "nowhere" not found')


def test_a_label_over_63_characters_is_invalid(cluster: Cluster) -> None:
    refused = failure(cluster.create_pod, "p", metadata={"labels": {"a": "x" * 64}})
    assert "must be no more than 63 bytes" in refused.message


def test_a_dry_run_stores_nothing(cluster: Cluster, api: apiserver.ApiServer) -> None:
    before = api.store.revision
    cluster.api.call("POST", PODS, make_pod("p"), query={"dryRun": "All"})
    assert api.store.revision == before


# --- update and patch ---------------------------------------------------------------------------------------


def test_an_update_from_an_old_version_conflicts(cluster: Cluster) -> None:
    old = cluster.create_pod("p")
    cluster.api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
    refused = failure(cluster.api.call, "PUT", f"{PODS}/p", old)
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.message.startswith('Operation cannot be fulfilled on pods "p": the object has been modified')


def test_a_patch_with_an_old_revision_conflicts(cluster: Cluster) -> None:
    old = cluster.create_pod("p")["metadata"]["resourceVersion"]
    cluster.api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
    assert (
        failure(cluster.api.patch, f"{PODS}/p", {"metadata": {"resourceVersion": old, "labels": {"c": "d"}}}).code
        == 409
    )


def test_a_patch_that_changes_nothing_makes_no_revision(cluster: Cluster, api: apiserver.ApiServer) -> None:
    cluster.create_pod("p", metadata={"labels": {"a": "b"}})
    before = api.store.revision
    cluster.api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
    assert api.store.revision == before


def test_null_in_a_merge_patch_removes_a_key(cluster: Cluster) -> None:
    cluster.create_pod("p", metadata={"annotations": {"a": "1", "b": "2"}})
    meta = cluster.api.patch(f"{PODS}/p", {"metadata": {"annotations": {"a": None}}})["metadata"]
    assert meta["annotations"] == {"b": "2"}


def test_a_json_patch_that_does_not_apply_is_422(cluster: Cluster) -> None:
    cluster.create_pod("p")
    patch = [{"op": "replace", "path": "/metadata/labels/x", "value": "y"}]
    refused = failure(cluster.api.patch, f"{PODS}/p", patch, "application/json-patch+json")
    assert refused.code == 422
    assert refused.message == "the server rejected our request due to an error in our request"


def test_strategic_patch_merges_conditions_by_type(cluster: Cluster) -> None:
    cluster.create_pod("p")
    for kind in ("Ready", "Initialized"):
        cluster.api.patch(
            f"{PODS}/p/status", {"status": {"conditions": [{"type": kind, "status": "True"}]}}, client.STRATEGIC_PATCH
        )
    assert [item["type"] for item in cluster.pod("p")["status"]["conditions"]] == ["Ready", "Initialized"]


def test_the_main_path_does_not_touch_status_and_the_status_path_not_spec(cluster: Cluster) -> None:
    cluster.create_pod("p")
    cluster.api.patch(f"{PODS}/p", {"status": {"phase": "Running"}})
    assert cluster.pod("p")["status"]["phase"] == "Pending"
    cluster.api.patch(f"{PODS}/p/status", {"spec": {"nodeName": "n"}, "status": {"phase": "Running"}})
    assert "nodeName" not in cluster.pod("p")["spec"]
    assert cluster.pod("p")["status"]["phase"] == "Running"


def test_a_pods_spec_is_immutable(cluster: Cluster) -> None:
    cluster.create_pod("p")
    refused = failure(cluster.api.patch, f"{PODS}/p", {"spec": {"schedulerName": "other"}})
    assert refused.code == 422
    assert "pod updates may not change fields other than" in refused.message


def test_gates_may_only_fall_and_affinity_may_come_with_them(cluster: Cluster) -> None:
    cluster.create_pod("p", schedulingGates=[{"name": "platform.hami.io/quota"}])
    refused = failure(cluster.api.patch, f"{PODS}/p", {"spec": {"schedulingGates": [{"name": "other.io/gate"}]}})
    assert "only deletion is allowed" in refused.message
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    spec = cluster.api.patch(f"{PODS}/p", {"spec": {"schedulingGates": None, "affinity": affinity}})["spec"]
    assert "schedulingGates" not in spec
    assert spec["affinity"] == affinity


# --- bind ---------------------------------------------------------------------------------------------------


def bind(cluster: Cluster, node: str = "n", **meta: object) -> Obj:
    body = {"metadata": {"name": "p", **meta}, "target": {"kind": "Node", "name": node}}
    return cluster.api.create(f"{PODS}/p/binding", body)


def test_a_binding_carries_annotations_and_labels_in_one_write(cluster: Cluster) -> None:
    made = cluster.create_pod("p", metadata={"annotations": {"kept": "1"}})["metadata"]
    assert bind(cluster, uid=made["uid"], annotations={"a": "b"}, labels={"c": "d"})["status"] == "Success"
    pod = cluster.pod("p")
    assert int(pod["metadata"]["resourceVersion"]) == int(made["resourceVersion"]) + 1
    assert (pod["spec"]["nodeName"], pod["metadata"]["annotations"], pod["metadata"]["labels"]) == (
        "n",
        {"kept": "1", "a": "b"},
        {"c": "d"},
    )
    assert cluster.condition("p")["status"] == "True"


def test_a_second_binding_conflicts_and_names_the_node(cluster: Cluster) -> None:
    cluster.create_pod("p")
    bind(cluster)
    refused = failure(bind, cluster, "m")
    assert refused.code == 409
    assert refused.message == 'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n"'


@pytest.mark.parametrize("key, word", [("uid", "UID"), ("resourceVersion", "ResourceVersion")])
def test_a_bindings_preconditions_are_checked(cluster: Cluster, key: str, word: str) -> None:
    meta = cluster.create_pod("p")["metadata"]
    refused = failure(bind, cluster, **{key: "1"})
    assert refused.code == 409
    assert f"Precondition failed: {word} in precondition: 1, {word} in object meta: {meta[key]}" in refused.message


def test_a_gated_pod_and_one_that_goes_cannot_be_bound(cluster: Cluster) -> None:
    cluster.create_pod("p", schedulingGates=[{"name": "a.io/b"}], metadata={"finalizers": ["a.io/b"]})
    assert "non-empty .spec.schedulingGates" in failure(bind, cluster).message
    cluster.api.delete(f"{PODS}/p")
    assert "is being deleted, cannot be assigned to a host" in failure(bind, cluster).message


# --- delete -------------------------------------------------------------------------------------------------


def test_an_unbound_pod_goes_at_once(cluster: Cluster) -> None:
    cluster.create_pod("p", terminationGracePeriodSeconds=30)
    cluster.api.delete(f"{PODS}/p")
    assert failure(cluster.pod, "p").code == 404


def test_a_bound_pod_waits_for_its_kubelet(cluster: Cluster) -> None:
    cluster.create_pod("p", terminationGracePeriodSeconds=30, nodeName="n")
    cluster.api.delete(f"{PODS}/p")
    assert cluster.pod("p")["metadata"]["deletionGracePeriodSeconds"] == 30
    cluster.api.delete(f"{PODS}/p", grace_s=0)
    assert failure(cluster.pod, "p").code == 404


def test_a_delete_with_another_uid_conflicts(cluster: Cluster) -> None:
    cluster.create_pod("p")
    assert failure(cluster.api.delete, f"{PODS}/p", uid="other").code == 409


def test_a_finalizer_holds_a_pod_until_it_is_taken_off(cluster: Cluster) -> None:
    cluster.create_pod("p", metadata={"finalizers": ["a.io/b"]})
    cluster.api.delete(f"{PODS}/p")
    assert cluster.pod("p")["metadata"]["deletionTimestamp"]
    cluster.api.patch(f"{PODS}/p", {"metadata": {"finalizers": None}})
    assert failure(cluster.pod, "p").code == 404


def test_a_namespace_takes_its_content_with_it(cluster: Cluster) -> None:
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": "team"}})
    cluster.create_pod("p", "team", terminationGracePeriodSeconds=30, nodeName="n")
    cluster.api.delete("/api/v1/namespaces/team")
    assert cluster.api.get("/api/v1/namespaces/team")["status"]["phase"] == "Terminating"
    assert failure(cluster.create_pod, "q", "team").code == 403
    cluster.api.delete("/api/v1/namespaces/team/pods/p", grace_s=0)
    assert failure(cluster.api.get, "/api/v1/namespaces/team").code == 404


# --- faults, users, other resources -------------------------------------------------------------------------


def test_a_lost_answer_means_it_was_done(cluster: Cluster, api: apiserver.ApiServer) -> None:
    cluster.create_pod("p")
    api.fault.lose_answer("/binding$", method="POST")
    with pytest.raises(transport.TransportError) as lost:
        bind(cluster)
    assert lost.value.sent
    assert cluster.pod("p")["spec"]["nodeName"] == "n"


def test_a_failed_answer_means_it_was_not_done(cluster: Cluster, api: apiserver.ApiServer) -> None:
    cluster.create_pod("p")
    api.fault.fail("/binding$", status=503)
    assert failure(bind, cluster).code == 503
    assert "nodeName" not in cluster.pod("p")["spec"]


def test_tokens_are_reviewed(api: apiserver.ApiServer, cluster: Cluster) -> None:
    path = client.path_of("tokenreviews", group="authentication.k8s.io")
    token = api.token("system:serviceaccount:kube-system:hami", "system:serviceaccounts")
    found = cluster.api.create(path, {"spec": {"token": token}})["status"]
    assert found["authenticated"]
    assert found["user"]["username"] == "system:serviceaccount:kube-system:hami"
    assert not cluster.api.create(path, {"spec": {"token": "made up"}})["status"].get("authenticated")


def test_a_wrong_token_is_unauthorized(api: apiserver.ApiServer) -> None:
    stranger = Cluster(api.url, token="made up")
    assert failure(stranger.api.get, PODS).code == 401
    stranger.api.close()


def test_tls_serves_with_its_own_authority() -> None:
    with apiserver.ApiServer(tls=True) as secure:
        trusted = Cluster(secure.url, ca_pem=secure.ca_pem)
        assert trusted.api.get(PODS)["items"] == []
        trusted.api.close()
        events = client.Client(secure.url, ca_pem=secure.ca_pem).watch(PODS, {"timeoutSeconds": "1"})
        assert list(events) == []
        events.close()


def test_both_event_apis_show_the_same_events(cluster: Cluster) -> None:
    regarding = {"kind": "Pod", "namespace": "default", "name": "p"}
    event = {"metadata": {"name": "e"}, "regarding": regarding, "note": "text", "reason": "Why", "type": "Warning"}
    cluster.api.create("/apis/events.k8s.io/v1/namespaces/default/events", event)
    core = cluster.api.get("/api/v1/namespaces/default/events/e")
    assert (core["involvedObject"], core["message"], core["apiVersion"]) == (regarding, "text", "v1")
    assert cluster.api.get("/apis/events.k8s.io/v1/namespaces/default/events/e")["note"] == "text"


def test_a_lease_update_needs_its_revision(cluster: Cluster) -> None:
    path = client.path_of("leases", "default", group="coordination.k8s.io")
    made = cluster.api.create(path, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}})
    assert (
        "must be specified for an update"
        in failure(cluster.api.call, "PUT", f"{path}/l", {"metadata": {"name": "l"}}).message
    )
    made["spec"]["holderIdentity"] = "b"
    assert cluster.api.call("PUT", f"{path}/l", made)["spec"]["holderIdentity"] == "b"
    assert failure(cluster.api.call, "PUT", f"{path}/l", made).code == 409


def test_a_stopped_server_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with apiserver.ApiServer() as server:
        cluster = Cluster(server.url)
        cluster.create_pod("p")
        events = cluster.api.watch(PODS, {})
    events.close()
    cluster.api.close()
    assert set(threading.enumerate()) <= before


def test_a_client_may_keep_its_connection(api: apiserver.ApiServer) -> None:
    connection = http.client.HTTPConnection(api.url.removeprefix("http://"))
    connection.request("GET", "/version")
    connection.getresponse().read()
    first = connection.sock
    connection.request("GET", "/readyz")
    assert connection.getresponse().read() == b"ok"
    assert connection.sock is first
    connection.close()


def test_a_body_over_three_mebibytes_is_413(api: apiserver.ApiServer) -> None:
    pool = transport.Pool(api.url)
    headers = {"Content-Type": "application/json", "Content-Length": str(4 << 20)}
    answer = pool.request("POST", PODS, b"{}", headers, 10)
    pool.close()
    assert (answer.status, answer.body) == (413, b"Request entity too large: limit is 3145728")
