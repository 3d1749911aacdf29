"""Decoding is tolerant where the API is, and strict where a wrong value would be used."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_platform.kube import objects

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


def test_unknown_keys_are_skipped_and_nulls_mean_absent() -> None:
    body = {
        "kind": "Pod",
        "metadata": {"name": "p", "labels": None, "creationTimestamp": None, "managedFields": [{}]},
        "spec": {"initContainers": None, "containers": [{"name": "c", "resources": {"limits": None}, "env": None}]},
        "status": None,
    }
    pod = objects.decode(json.dumps(body).encode(), objects.Pod)
    assert pod.metadata == objects.Metadata(name="p")
    assert pod.spec.containers == (objects.Container(name="c"),)
    assert pod.status == objects.PodStatus()


def test_a_list_without_items_is_empty() -> None:
    assert objects.decode(b'{"items":null}', objects.Items[objects.Pod]).items == ()


def test_container_states_are_read() -> None:
    body = b"""{"status": {"phase": "Running", "initContainerStatuses": [
        {"name": "a", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
        {"name": "b", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}},
        {"name": "c", "state": {}}]}}"""
    states = [status.state for status in objects.decode(body, objects.Pod).status.init_container_statuses]
    assert states[0].terminated == objects.Terminated(exit_code=0, reason="Completed")
    assert states[1].running is not None
    assert states[2] == objects.ContainerState()


def test_a_quantity_may_be_text_or_a_number() -> None:
    body = b'{"spec": {"containers": [{"resources": {"limits": {"a": "2k", "b": 3}}}]}}'
    pod = objects.decode(body, objects.Pod)
    assert pod.spec.containers[0].resources.limits == {"a": "2k", "b": 3}


@pytest.mark.parametrize(
    "body,field",
    [
        (b'{"metadata": {"annotations": {"k": 1}}}', "annotations"),
        (b'{"spec": {"containers": {"name": "c"}}}', "containers"),
        (b'{"metadata": null, "spec": {"nodeName": []}}', "nodeName"),
    ],
)
def test_a_wrong_type_is_named(body: bytes, field: str) -> None:
    with pytest.raises(objects.Undecodable, match=field):
        objects.decode(body, objects.Pod)


@pytest.mark.parametrize("body", [b"", b"{", b"7 apples", b"\xff\xfe", b"[" * 100_000, b'{"metadata": 7} x'])
def test_what_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(objects.Undecodable):
        objects.decode(body, objects.Pod)


@given(JSON)
def test_removing_nulls_leaves_no_null_key_and_is_idempotent(value: Any) -> None:
    clean = objects.without_nulls(value)
    assert objects.without_nulls(clean) == clean
    assert not _has_null_key(clean)


def _has_null_key(value: Any) -> bool:
    if isinstance(value, dict):
        return any(v is None or _has_null_key(v) for v in value.values())
    return isinstance(value, list) and any(_has_null_key(v) for v in value)


@given(st.binary(max_size=40) | JSON.map(lambda v: json.dumps(v).encode()))
def test_decoding_raises_only_its_own_error(data: bytes) -> None:
    try:
        objects.decode(data, objects.Pod)
    except objects.Undecodable:
        pass
