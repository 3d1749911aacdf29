"""The cluster in memory answers like an API server where the product depends on it."""

from __future__ import annotations

import pytest

from hami_platform.domain.vendors import registry
from hami_platform.kube import calls, errors
from scheduler_ext.conformance import vectors, vendors
from scheduler_ext.conformance.cluster import Cluster
from tests.conformance import command

NVIDIA_ALONE = registry.device_config({"nvidia": {}})


def cluster() -> Cluster:
    made = Cluster()
    made.put("pods", {"metadata": {"name": "p"}, "spec": {}})
    made.put("nodes", {"metadata": {"name": "n1", "annotations": {"a": "1"}}})
    return made


def bind(made: Cluster, **changes: str) -> None:
    values = {"uid": "uid-p", "resource_version": "", "node": "n1"} | changes
    made.send(
        calls.pod_bind(
            namespace="default", name="p", uid=values["uid"], resource_version=values["resource_version"],
            node=values["node"], annotations={"k": "v"}, labels={"l": "v"},
        )
    )  # fmt: skip


def test_a_binding_assigns_once_and_merges_its_annotations() -> None:
    made = cluster()
    bind(made)
    pod = made.send(calls.pod_get(namespace="default", name="p"))
    assert (pod.spec.node_name, pod.metadata.annotations, pod.metadata.labels) == ("n1", {"k": "v"}, {"l": "v"})
    with pytest.raises(errors.Conflict):
        bind(made)


@pytest.mark.parametrize("changes", [{"uid": "other"}, {"resource_version": "1"}])
def test_preconditions_are_checked(changes: dict[str, str]) -> None:
    with pytest.raises(errors.Conflict):
        bind(cluster(), **changes)


def test_a_merge_patch_removes_what_is_null() -> None:
    made = cluster()
    made.send(calls.node_annotate(name="n1", annotations={"a": None, "b": "2"}))
    assert made.send(calls.node_get(name="n1")).metadata.annotations == {"b": "2"}


def test_a_fault_fails_the_call_that_it_names_and_no_other() -> None:
    made = cluster()
    made.faults = {"create pods/binding": "boom"}
    with pytest.raises(errors.ApiError, match="boom"):
        bind(made)
    assert made.send(calls.pods().page()).items[0].metadata.name == "p"


def test_what_is_not_there_is_not_found() -> None:
    with pytest.raises(errors.NotFound):
        cluster().send(calls.node_get(name="n2"))


def test_vendor_words_come_from_area_steps_resources_and_keys() -> None:
    words = {
        vendors.missing(one, NVIDIA_ALONE)
        for file in vectors.files_of([str(command.GOLDEN / "quota.json"), str(command.GOLDEN / "codec-pod.json")])
        for one in file.vectors
    }
    assert {"", "AMD", "DCU", "MLU", "kunlun"} <= words
