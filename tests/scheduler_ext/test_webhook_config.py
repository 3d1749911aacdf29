"""The generated webhook configuration, with its conditions evaluated as the API server would.

| pod | CREATE asks us | UPDATE asks us |
|---|---|---|
| names a vendor's resource, in any container class | yes | only if an owned key changes |
| carries an owned annotation or label | yes | if its value is new, gone or different |
| neither | no | no |
"""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_platform.simulator.api import cel
from scheduler_ext import webhook_config as config

SUBJECT = config.Subject(
    resources=("nvidia.com/gpu", "nvidia.com/gpumem"),
    keys=("hami.io/vgpu-node", "hami.io/bind-phase"),
    prefixes=("platform.hami.io/",),
    writers=("system:serviceaccount:kube-system:hami-device-plugin", "system:serviceaccounts:gpu"),
)
URL = config.Endpoint(url="https://127.0.0.1:9443/webhook", ca=b"PEM")
WRITER = SUBJECT.writers[0]


def pod(
    *containers: dict[str, Any], init: Any = None, annotations: dict[str, str] | None = None, labels: Any = None
) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": list(containers) or [{"name": "c", "resources": {}}]}
    if init is not None:
        spec["initContainers"] = init
    metadata: dict[str, Any] = {"name": "p"}
    if annotations is not None:
        metadata["annotations"] = annotations
    if labels is not None:
        metadata["labels"] = labels
    return {"metadata": metadata, "spec": spec}


def container(part: str = "limits", **amounts: str) -> dict[str, Any]:
    return {"name": "c", "resources": {part: {"cpu": "1", **{k.replace("__", "/"): v for k, v in amounts.items()}}}}


GPU = container(**{"nvidia.com/gpu": "1"})


def holds(conditions: list[dict[str, str]], new: Any, old: Any = None, user: str = "jane", groups: Any = None) -> bool:
    who = {"username": user} | ({"groups": groups} if groups is not None else {})
    scope = {"object": new, "oldObject": old, "request": {"userInfo": who}}
    return all(cel.compile_expression(one["expression"])(scope) is True for one in conditions)


def created(new: Any) -> bool:
    return holds(config.conditions_create(SUBJECT), new)


def updated(old: Any, new: Any, user: str = "jane", groups: Any = None) -> bool:
    return holds(config.conditions_update(SUBJECT), new, old, user, groups)


@pytest.mark.parametrize(
    "asked",
    [
        pod(GPU),
        pod(container(), GPU),
        pod(container("requests", **{"nvidia.com/gpumem": "5"})),
        pod(init=[GPU]),
        pod({"name": "bare"}, init=[GPU]),
        pod(annotations={"hami.io/vgpu-node": ""}),
        pod(annotations={"platform.hami.io/claim": "x"}),
        pod(labels={"hami.io/vgpu-node": "n1"}),
    ],
)
def test_a_new_pod_that_concerns_us_is_asked_about(asked: Any) -> None:
    assert created(asked)


@pytest.mark.parametrize(
    "plain",
    [
        pod(),
        pod({"name": "bare"}),
        pod(container()),
        pod(container(**{"nvidia.com/gpu.shared": "1"})),
        pod(init=[container()]),
        pod(
            annotations={"hami.io/node-scheduler-policy": "spread", "nvidia.com/use-gputype": "A100"}, labels={"a": "b"}
        ),
        pod(labels={"hami.io/webhook": "ignore"}),
    ],
)
def test_a_plain_pod_is_never_asked_about(plain: Any) -> None:
    assert not created(plain)


@pytest.mark.parametrize(
    "old,new",
    [
        (None, {"hami.io/vgpu-node": "n1"}),
        (None, {"hami.io/vgpu-node": ""}),
        ({"hami.io/vgpu-node": "n1"}, {"hami.io/vgpu-node": "n2"}),
        ({"hami.io/vgpu-node": "n1"}, {}),
        ({"hami.io/vgpu-node": "n1"}, None),
        ({}, {"platform.hami.io/retry-at": "7"}),
    ],
)
@pytest.mark.parametrize("part", ["annotations", "labels"])
def test_a_change_of_an_owned_key_is_asked_about_unless_a_writer_makes_it(part: str, old: Any, new: Any) -> None:
    before, after = pod(GPU, **{part: old}), pod(GPU, **{part: new})
    assert updated(before, after)
    assert not updated(before, after, WRITER)
    assert not updated(before, after, "system:node:n1")
    assert not updated(before, after, "ours", ["a", "system:serviceaccounts:gpu"])
    assert updated(before, after, "other", ["a", "system:serviceaccounts:other"])


def test_other_updates_of_a_gpu_pod_never_reach_us() -> None:
    before = pod(GPU, annotations={"hami.io/vgpu-node": "n1", "a": "1"}, labels={"l": "1"})
    after = pod(GPU, annotations={"hami.io/vgpu-node": "n1", "a": "2"}, labels={})
    after["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    assert not updated(before, after)


MAPS = st.none() | st.dictionaries(
    st.sampled_from(["hami.io/vgpu-node", "platform.hami.io/claim", "a", "hami.io/x"]), st.sampled_from(["", "1", "2"])
)


@given(MAPS, MAPS, MAPS, MAPS)
def test_the_update_condition_is_a_comparison_of_owned_keys(old_a: Any, new_a: Any, old_l: Any, new_l: Any) -> None:
    def owned(keys: Any) -> dict[str, str]:
        return {k: v for k, v in (keys or {}).items() if k in SUBJECT.keys or k.startswith("platform.hami.io/")}

    expected = owned(old_a) != owned(new_a) or owned(old_l) != owned(new_l)
    assert updated(pod(annotations=old_a, labels=old_l), pod(annotations=new_a, labels=new_l)) == expected


def test_both_entries_fail_closed_and_only_on_pods() -> None:
    create, update = config.configuration(SUBJECT, URL)["webhooks"]
    for entry, operation in ((create, "CREATE"), (update, "UPDATE")):
        assert entry["failurePolicy"] == "Fail"
        assert entry["rules"][0]["operations"] == [operation]
        assert entry["rules"][0]["resources"] == ["pods"]
        assert entry["reinvocationPolicy"] == "Never"
        assert entry["sideEffects"] == "NoneOnDryRun"
        assert entry["admissionReviewVersions"] == ["v1", "v1beta1"]
        assert "objectSelector" not in entry
        assert entry["namespaceSelector"]["matchExpressions"] == [
            {"key": "hami.io/webhook", "operator": "NotIn", "values": ["ignore"]}
        ]


def test_pods_opt_out_only_where_that_is_configured() -> None:
    for entry in config.configuration(SUBJECT, URL, pods_may_opt_out=True)["webhooks"]:
        assert entry["objectSelector"]["matchExpressions"][0]["key"] == "hami.io/webhook"


def test_a_service_endpoint_and_a_url_are_either_or() -> None:
    assert URL.client_config() == {"url": URL.url, "caBundle": base64.b64encode(b"PEM").decode()}
    service = config.Endpoint(service="webhook", namespace="gpu", port=9443)
    assert service.client_config() == {
        "service": {"name": "webhook", "namespace": "gpu", "port": 9443, "path": "/webhook"}
    }
    for bad in (
        config.Endpoint(),
        config.Endpoint(url="https://x", service="s", namespace="n"),
        config.Endpoint(service="s"),
    ):
        with pytest.raises(ValueError, match="either a url, or a service"):
            bad.client_config()


def test_the_text_is_the_same_whatever_the_order_of_its_parts() -> None:
    turned = config.Subject(SUBJECT.resources[::-1], SUBJECT.keys[::-1], SUBJECT.prefixes, SUBJECT.writers)
    assert config.configuration(turned, URL) == config.configuration(SUBJECT, URL)
