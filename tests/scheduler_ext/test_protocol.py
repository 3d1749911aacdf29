"""Reading what kube-scheduler and kube-apiserver send, and spelling the answers.

The captured bodies are exactly what a kube-scheduler and a kube-apiserver v1.36 sent.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext import protocol

CAPTURED = Path(__file__).parents[1] / "golden" / "captured"


def captured(name: str) -> bytes:
    return (CAPTURED / f"{name}.json").read_bytes()


def body(value: Any) -> bytes:
    return json.dumps(value).encode()


def sent(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))


# --- filter ----------------------------------------------------------------------------------


def test_the_captured_filter_call_with_names_is_read() -> None:
    args = protocol.filter_args(captured("extender-filter-cache-true"))
    assert protocol.pod_object(args.pod, "Pod").metadata.name == "ext"
    assert args.nodes is None
    assert args.node_names == tuple(json.loads(captured("extender-filter-cache-true"))["NodeNames"])


def test_the_captured_filter_call_with_whole_nodes_is_read_and_echoed_byte_for_byte() -> None:
    raw = captured("extender-filter-cache-false")
    args = protocol.filter_args(raw)
    assert args.nodes is not None
    assert args.node_names is None
    answer = protocol.FilterResult(nodes=protocol.echoed(list(args.nodes.by_name().values())))
    assert sent(answer)["Nodes"] == json.loads(raw)["Nodes"]


POD = {"metadata": {"name": "p", "uid": "u"}}


@pytest.mark.parametrize("pod,names", [("Pod", "NodeNames"), ("pod", "nodenames"), ("POD", "NodeNames")])
def test_keys_are_read_without_regard_to_case(pod: str, names: str) -> None:
    args = protocol.filter_args(body({pod: POD, "Nodes": None, names: ["n1"], "other": 1}))
    assert args.node_names == ("n1",)


def test_the_exact_spelling_wins() -> None:
    args = protocol.filter_args(body({"pod": POD, "NodeNames": ["n1"], "nodenames": ["n2"]}))
    assert args.node_names == ("n1",)


@pytest.mark.parametrize("value", [{}, {"Pod": None, "NodeNames": ["n1"]}, {"NodeNames": ["n1"]}])
def test_a_filter_call_without_a_pod_says_so(value: Any) -> None:
    with pytest.raises(protocol.BadBody, match="extender args missing pod"):
        protocol.filter_args(body(value))


def test_a_filter_call_without_nodes_says_so() -> None:
    with pytest.raises(protocol.BadBody, match="neither NodeNames nor Nodes"):
        protocol.filter_args(body({"Pod": POD, "Nodes": None, "NodeNames": None}))


def test_no_candidate_is_not_the_same_as_no_list() -> None:
    assert protocol.filter_args(body({"Pod": POD, "NodeNames": []})).node_names == ()
    nodes = protocol.filter_args(body({"Pod": POD, "Nodes": {"items": None}})).nodes
    assert nodes is not None
    assert nodes.items == ()


@pytest.mark.parametrize(
    "value,field",
    [
        ({"Pod": POD, "NodeNames": "n1"}, "NodeNames"),
        ({"Pod": POD, "NodeNames": [1]}, "NodeNames"),
        ({"Pod": POD, "Nodes": [POD]}, "Nodes"),
    ],
)
def test_a_filter_field_of_the_wrong_type_is_named(value: Any, field: str) -> None:
    with pytest.raises(protocol.BadBody, match=field):
        protocol.filter_args(body(value))


def test_a_node_without_a_name_is_named_by_its_place() -> None:
    args = protocol.filter_args(body({"Pod": POD, "Nodes": {"items": [{"metadata": {"name": "a"}}, {}]}}))
    assert args.nodes is not None
    with pytest.raises(protocol.BadBody, match=r"Nodes\.items\[1\]\.metadata\.name"):
        args.nodes.by_name()


def test_a_pod_field_of_the_wrong_type_is_named() -> None:
    args = protocol.filter_args(body({"Pod": {"spec": {"containers": 3}}, "NodeNames": []}))
    with pytest.raises(protocol.BadBody, match=r"Pod: .*containers"):
        protocol.pod_object(args.pod, "Pod")


def test_every_key_of_a_filter_answer_is_always_written() -> None:
    assert sent(protocol.FilterResult(error="no")) == {
        "Nodes": None,
        "NodeNames": None,
        "FailedNodes": None,
        "FailedAndUnresolvableNodes": None,
        "Error": "no",
    }


# --- bind ------------------------------------------------------------------------------------


def test_the_captured_bind_call_is_read() -> None:
    args = protocol.bind_args(captured("extender-bind-cache-true"))
    assert (args.pod_name, args.pod_namespace, args.node) == ("ext", "default", "fake-00001")
    assert args.pod_uid


def test_bind_keys_are_read_without_regard_to_case() -> None:
    args = protocol.bind_args(body({"podname": "p", "PODNAMESPACE": "n", "PodUid": "u", "node": "n1"}))
    assert args == protocol.BindArgs("p", "n", "u", "n1")


def test_missing_bind_fields_are_named() -> None:
    with pytest.raises(protocol.BadBody, match="missing PodNamespace, PodUID"):
        protocol.bind_args(body({"PodName": "p", "PodUID": None, "Node": "n1"}))


def test_a_bind_answer_has_its_key_also_when_empty() -> None:
    assert sent(protocol.BindResult()) == {"Error": ""}


@pytest.mark.parametrize("data", [b"", b"x", b"{nope", b"[]", b"7", b"\xff", b"[" * 100_000])
def test_what_is_no_json_object_is_refused_everywhere(data: bytes) -> None:
    for read in (protocol.filter_args, protocol.bind_args, protocol.review):
        with pytest.raises(protocol.BadBody):
            read(data)


@given(st.binary(max_size=60))
def test_readers_raise_only_their_own_error(data: bytes) -> None:
    for read in (protocol.filter_args, protocol.bind_args, protocol.review):
        try:
            read(data)
        except protocol.BadBody:
            pass


@given(st.text(st.characters(max_codepoint=127)).filter(lambda key: key not in {"Pod", "NodeNames"}))
def test_unknown_keys_are_skipped(key: str) -> None:
    if key.lower() not in {"pod", "nodes", "nodenames"}:
        assert protocol.filter_args(body({key: 1, "pod": POD, "nodenames": []})).node_names == ()


# --- admission -------------------------------------------------------------------------------


def review(version: str = "admission.k8s.io/v1", **request: Any) -> protocol.AdmissionReview:
    asked = {"uid": "abc", "operation": "CREATE", **request}
    return protocol.review(body({"apiVersion": version, "kind": "AdmissionReview", "request": asked}))


def test_the_captured_review_is_read() -> None:
    request = protocol.review(captured("admissionreview")).request
    assert (request.operation, request.namespace, request.kind.kind, request.dry_run) == (
        "CREATE",
        "default",
        "Pod",
        False,
    )
    assert protocol.pod_json(request.object, "request.object")["kind"] == "Pod"
    assert request.user_info.username == "rig-admin"


def test_a_null_old_object_is_absent() -> None:
    assert not protocol.given(review(oldObject=None).request.old_object)


@pytest.mark.parametrize("version", ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"])
def test_an_answer_repeats_version_and_uid(version: str) -> None:
    assert sent(protocol.allow(review(version))) == {
        "apiVersion": version,
        "kind": "AdmissionReview",
        "response": {"uid": "abc", "allowed": True, "status": {"code": 200}},
    }


def test_a_patch_is_base64_of_a_json_patch_with_its_type() -> None:
    patch = [{"op": "add", "path": "/spec/schedulerName", "value": "hami-scheduler"}]
    response = sent(protocol.allow(review(), patch=patch, warnings=["over by 2000"]))["response"]
    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"])) == patch
    assert response["warnings"] == ["over by 2000"]


def test_a_denial_says_why_with_its_code() -> None:
    response = sent(protocol.deny(review(), message="needs 4000"))["response"]
    assert response == {
        "uid": "abc",
        "allowed": False,
        "status": {"code": 403, "reason": "Forbidden", "message": "needs 4000"},
    }


def test_an_unreadable_review_is_answered_in_band() -> None:
    answer = sent(protocol.deny(None, message="no", code=400))
    assert (answer["apiVersion"], answer["response"]["uid"], answer["response"]["status"]["code"]) == (
        "admission.k8s.io/v1",
        "",
        400,
    )


def test_an_empty_review_says_so_as_hami_does() -> None:
    with pytest.raises(protocol.BadBody, match="there is no content to decode"):
        protocol.review(b"")


@pytest.mark.parametrize(
    "value,field",
    [
        ({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}, "request"),
        ({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": 7}}, "uid"),
        ({"apiVersion": "v1", "kind": "Pod", "request": {"uid": "a"}}, "expected an AdmissionReview"),
    ],
)
def test_a_review_of_the_wrong_shape_names_the_field(value: Any, field: str) -> None:
    with pytest.raises(protocol.BadBody, match=field):
        protocol.review(body(value))
