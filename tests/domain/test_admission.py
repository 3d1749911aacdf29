"""What admission answers: H01 to H13 at domain level, law 9, owned keys on create and update, the claim's own patch."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_platform.domain import admission, json_patch
from hami_platform.domain.vendors import registry
from tests import json_patches

CONFIG = registry.device_config({"nvidia": {}})
SETTINGS = admission.AdmissionSettings()
GPU, MEM, PCT, CORES = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"
NAMES = {"gpu": GPU, "mem": MEM, "pct": PCT, "cores": CORES, "cpu": "cpu", "priority": "nvidia.com/priority"}


def container(name: str = "main", *, privileged: bool = False, env: Any = None, **amounts: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name}
    if amounts:
        found["resources"] = {"limits": {NAMES[key]: str(amount) for key, amount in amounts.items()}}
    if privileged:
        found["securityContext"] = {"privileged": True}
    if env is not None:
        found["env"] = env
    return found


def pod(*containers: dict[str, Any], metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", **(metadata or {})}, "spec": {"containers": list(containers), **spec}}


def review(given_pod: Any, settings: admission.AdmissionSettings = SETTINGS, **config: Any) -> admission.Verdict:
    before = copy.deepcopy(given_pod)
    chosen = registry.device_config({"nvidia": config}) if config else CONFIG
    verdict = admission.review(given_pod, config=chosen, settings=settings)
    assert given_pod == before
    return verdict


def mutated(given_pod: Any, settings: admission.AdmissionSettings = SETTINGS, **config: Any) -> dict[str, Any]:
    verdict = review(given_pod, settings, **config)
    assert isinstance(verdict, admission.Mutated), verdict
    return dict(json_patches.apply(given_pod, verdict.patch))


def denied(given_pod: Any, settings: admission.AdmissionSettings = SETTINGS) -> admission.Denied:
    verdict = review(given_pod, settings)
    assert isinstance(verdict, admission.Denied), verdict
    return verdict


def env(container_: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in container_.get("env", [])}


def test_h01_memory_alone_asks_for_one_device_and_our_scheduler() -> None:
    verdict = review(pod(container(mem=3000), schedulerName="default-scheduler"))
    assert isinstance(verdict, admission.Mutated)
    (asked,) = verdict.request.containers[0].devices
    assert (asked.count, asked.memory_mib, asked.core_percent) == (1, 3000, 0)
    assert verdict.patch == (
        {"op": "add", "path": "/spec/containers/0/resources/limits/nvidia.com~1gpu", "value": "1"},
        {"op": "replace", "path": "/spec/schedulerName", "value": "hami-scheduler"},
    )


def test_h02_a_bare_count_takes_whole_devices_for_itself() -> None:
    verdict = review(pod(container(gpu=1)))
    assert isinstance(verdict, admission.Mutated)
    (asked,) = verdict.request.containers[0].devices
    assert (asked.memory_on(24576), asked.core_percent) == (24576, 100)


@pytest.mark.parametrize(
    "amounts, cores",
    [
        ({"gpu": 1}, "100"), ({"gpu": 1, "pct": 100}, "100"), ({"gpu": 1, "pct": 50}, None),
        ({"gpu": 1, "cores": 70}, "70"), ({"gpu": 1, "mem": 8192}, None),
    ],
)  # fmt: skip
def test_cores_are_all_taken_only_with_the_whole_memory(amounts: dict[str, Any], cores: str | None) -> None:
    limits = mutated(pod(container(**amounts)))["spec"]["containers"][0]["resources"]["limits"]
    assert limits.get(CORES) == cores


@pytest.mark.parametrize(
    "amounts, words",
    [
        ({"gpu": 1, "mem": "16Gi"}, "write 16384"), ({"gpu": 1, "cores": 101}, CORES), ({"gpu": 1, "pct": "99.1"}, PCT),
        ({"gpu": 1, "pct": "50m"}, PCT), ({"gpu": 1, "pct": 101}, PCT), ({"gpu": 1, "pct": -1}, PCT),
        ({"gpu": 1, "mem": 3000, "pct": 50}, PCT), ({"mem": "16Gi"}, "write 16384"), ({"gpu": "1.5"}, GPU),
        ({"gpu": "lots"}, GPU), ({"gpu": "lots", "mem": 1}, GPU), ({"gpu": 1, "pct": "half"}, PCT),
    ],
)  # fmt: skip
def test_h05_to_h08_bad_amounts_are_denied_by_name(amounts: dict[str, Any], words: str) -> None:
    verdict = denied(pod(container("train", **amounts)))
    assert verdict.code == 403
    assert verdict.container == "train"
    assert "container train" in verdict.message
    assert words in verdict.message


def test_hami_answers_a_bad_amount_with_500() -> None:
    assert denied(pod(container(gpu=1, pct=101)), admission.AdmissionSettings(hami_codes=True)).code == 500


def test_h09_a_privileged_container_is_named() -> None:
    helper = denied(pod(container("gpu", mem=3000), container("helper", privileged=True)))
    itself = denied(pod(container("gpu", mem=3000, privileged=True)))
    init = denied(pod(container("gpu", gpu=1), initContainers=[container("setup", privileged=True)]))
    assert [one.container for one in (helper, itself, init)] == ["helper", "gpu", "setup"]
    assert "container helper is privileged" in helper.message
    assert review(pod(container("plain", privileged=True))) == admission.Allowed()


def test_h10_a_pod_of_another_scheduler_is_left_alone_but_known() -> None:
    verdict = review(pod(container(gpu=1), schedulerName="other"))
    assert isinstance(verdict, admission.Allowed)
    assert verdict.unmanaged
    assert review(pod(container(cpu=1), schedulerName="other")) == admission.Allowed()


OWNED = [
    "hami.io/vgpu-devices-to-allocate", "hami.io/vgpu-devices-allocated", "hami.io/vgpu-node", "hami.io/vgpu-time",
    "hami.io/bind-phase", "hami.io/bind-time", "hami.io/vgpu-mig-allocations", "platform.hami.io/retry-at",
    "platform.hami.io/claim", "platform.hami.io/anything",
]  # fmt: skip


@pytest.mark.parametrize("key", OWNED)
@pytest.mark.parametrize("spec", [{"schedulerName": "other"}, {}])
@pytest.mark.parametrize("ask", [{"gpu": 1}, {"cpu": 1}])
def test_h10_an_owned_key_is_denied_and_named(key: str, spec: dict[str, Any], ask: dict[str, Any]) -> None:
    verdict = denied(pod(container(**ask), metadata={"annotations": {key: "x"}}, **spec))
    assert (verdict.code, verdict.key) == (403, key)
    assert key in verdict.message


def test_owned_labels_and_the_gate_are_denied_as_well() -> None:
    assert denied(pod(container(gpu=1), metadata={"labels": {"hami.io/vgpu-node": "n1"}})).key == "hami.io/vgpu-node"
    assert denied(pod(container(gpu=1), schedulingGates=[{"name": admission.GATE}])).key == admission.GATE
    assert isinstance(review(pod(container(gpu=1), schedulingGates=[{"name": "other"}])), admission.Mutated)


def test_a_claim_passes_only_when_the_ledger_vouches_for_it() -> None:
    claimed = pod(
        container(mem=1),
        metadata={"annotations": {admission.CLAIM: "id-1"}},
        schedulingGates=[{"name": admission.GATE}],
    )
    for vouched, verdict in (("id-1", admission.Mutated), ("id-2", admission.Denied), ("", admission.Denied)):
        found = admission.review(claimed, config=CONFIG, settings=SETTINGS, accepted_claim=vouched)
        assert isinstance(found, verdict)


def test_h11_devices_only_in_an_init_make_the_pod_ours() -> None:
    after = mutated(pod(container(), initContainers=[container("i", mem=2000)]))
    assert after["spec"]["schedulerName"] == "hami-scheduler"
    assert after["spec"]["initContainers"][0]["resources"]["limits"][GPU] == "1"


def test_h12_a_pinned_node_is_denied_with_the_way_out() -> None:
    assert denied(pod(container(mem=1000), nodeName="n1")).message == (
        "GPU pods may not pin nodeName, use a node selector"
    )
    assert review(pod(container(cpu=1), nodeName="n1")) == admission.Allowed()


@pytest.mark.parametrize(
    "plain", [pod(container()), pod(container(cpu=1)), pod(container(priority=1)), pod(container(gpu=0))]
)
def test_h13_a_pod_without_devices_is_allowed_untouched(plain: dict[str, Any]) -> None:
    assert review(plain) == admission.Allowed()


def test_devices_in_ephemeral_containers_are_denied() -> None:
    verdict = denied(pod(container(), ephemeralContainers=[container("debug", gpu=1)]))
    assert (verdict.container, verdict.key) == ("debug", GPU)


def test_memory_without_a_count_is_allowed_with_a_warning_when_there_is_no_default() -> None:
    verdict = review(pod(container(mem=3000)), defaultGPUNum=0)
    assert verdict == admission.Allowed(warnings=(f"container main: without {GPU} it gets no device",))


def test_zero_memory_is_whole_memory_with_a_warning() -> None:
    verdict = review(pod(container(gpu=1, mem=0)))
    assert isinstance(verdict, admission.Mutated)
    assert verdict.request.containers[0].devices[0].memory_percent == 100
    assert verdict.warnings == (f"container main: {MEM}: 0 counts as not given",)


def test_k28_env_is_replaced_by_name_and_never_repeated() -> None:
    env_given = [{"name": "CUDA_TASK_PRIORITY", "value": "9"}, {"name": "A", "value": "1"}]
    after = mutated(pod(container(gpu=1, priority=1, env=env_given)), gpuCorePolicy="force")
    assert after["spec"]["containers"][0]["env"] == [
        {"name": "CUDA_TASK_PRIORITY", "value": "1"},
        {"name": "A", "value": "1"},
        {"name": "GPU_CORE_UTILIZATION_POLICY", "value": "force"},
    ]


def test_k30_env_goes_only_where_it_belongs() -> None:
    config = {"gpuCorePolicy": "force", "overwriteEnv": True}
    after = mutated(pod(container("gpu", mem=1), container("cpu", cpu=1)), **config)  # type: ignore[arg-type]
    assert [env(one) for one in after["spec"]["containers"]] == [
        {"GPU_CORE_UTILIZATION_POLICY": "force"},
        {"NVIDIA_VISIBLE_DEVICES": "none"},
    ]


def test_the_runtime_class_is_set_unless_the_pod_has_one() -> None:
    assert mutated(pod(container(gpu=1)), runtimeClassName="nvidia")["spec"]["runtimeClassName"] == "nvidia"
    own = pod(container(gpu=1), runtimeClassName="kata")
    assert mutated(own, runtimeClassName="nvidia")["spec"]["runtimeClassName"] == "kata"


def narrowed(given_pod: dict[str, Any], *vendors: str) -> dict[str, Any]:
    verdict = review(given_pod)
    assert isinstance(verdict, admission.Mutated)
    return json_patches.apply(given_pod, admission.narrowing_patch(given_pod, verdict.request, vendors, CONFIG))


def test_narrowing_adds_to_the_node_selector() -> None:
    label = {"platform.hami.io/nvidia": "true"}
    assert narrowed(pod(container(gpu=1)), "NVIDIA")["spec"]["nodeSelector"] == label
    zoned = pod(container(gpu=1), nodeSelector={"zone": "a"})
    assert narrowed(zoned, "NVIDIA", "MLU")["spec"]["nodeSelector"] == {"zone": "a", **label}
    assert narrowed(narrowed(zoned, "NVIDIA"), "NVIDIA") == narrowed(zoned, "NVIDIA")


def test_narrowing_leaves_a_pod_alone_whose_vendor_is_not_on_labelled_nodes() -> None:
    assert narrowed(pod(container(gpu=1)), "MLU") == pod(container(gpu=1))


@pytest.mark.parametrize(
    "notes, key",
    [
        ({"hami.io/numa-alignment": "maybe"}, "hami.io/numa-alignment"),
        ({"hami.io/device-scoring-weights": "slot=1"}, "hami.io/device-scoring-weights"),
    ],
)
def test_annotations_that_cannot_be_followed_are_denied(notes: dict[str, str], key: str) -> None:
    assert denied(pod(container(gpu=1), metadata={"annotations": notes})).key == key
    assert review(pod(container(cpu=1), metadata={"annotations": notes})) == admission.Allowed()


@pytest.mark.parametrize("text", ["strict", " Best-Effort "])
def test_numa_alignment_in_any_case_is_accepted(text: str) -> None:
    notes = {"annotations": {"hami.io/numa-alignment": text}}
    assert isinstance(review(pod(container(gpu=1), metadata=notes)), admission.Mutated)


@pytest.mark.parametrize(
    "bad", [{"spec": {"containers": {}}}, {"spec": []}, {"metadata": [], "spec": {"containers": [{}]}}]
)
def test_what_has_no_shape_of_a_pod_is_a_bad_request(bad: Any) -> None:
    assert denied(bad).code == 400


def test_a_pod_without_containers_is_denied() -> None:
    assert denied({"spec": {}}).code == 403


# Law 9.

AMOUNT = st.sampled_from(("0", "1", "2", "50", "100", "4096", "1k"))
LIMITS = st.dictionaries(st.sampled_from([*NAMES.values(), "memory"]), AMOUNT, max_size=4)
ENV = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(("CUDA_TASK_PRIORITY", "NVIDIA_VISIBLE_DEVICES", "X")), "value": st.sampled_from("01")}
    ),
    max_size=3,
)


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    def one(name: str) -> dict[str, Any]:
        found: dict[str, Any] = {"name": name}
        if draw(st.booleans()):
            found["resources"] = draw(st.sampled_from(({}, None))) or {"limits": draw(LIMITS)}
        if draw(st.booleans()):
            found["env"] = draw(st.none() | ENV)
        return found

    made = pod(*(one(f"c{i}") for i in range(draw(st.integers(1, 2)))), unknown={"future": [1]})
    if draw(st.booleans()):
        made["spec"]["initContainers"] = [one("i0") | draw(st.sampled_from(({}, {"restartPolicy": "Always"})))]
    if draw(st.booleans()):
        made["spec"]["schedulerName"] = draw(st.sampled_from(("", "default-scheduler", "hami-scheduler", "other")))
    if draw(st.booleans()):
        made["spec"]["nodeSelector"] = draw(st.sampled_from((None, {}, {"zone": "a"})))
    return made


RICH = registry.device_config(
    {"nvidia": {"gpuCorePolicy": "force", "overwriteEnv": True, "runtimeClassName": "nvidia"}}
)


@given(pods(), st.booleans())
def test_law_9_patching_twice_is_patching_once(given_pod: dict[str, Any], gated: bool) -> None:
    first = admission.review(given_pod, config=RICH, settings=admission.AdmissionSettings())
    if not isinstance(first, admission.Mutated):
        return
    patch = (*first.patch, *admission.claim_patch(given_pod, "id-1", gated=gated))
    once = json_patches.apply(given_pod, patch)
    second = admission.review(once, config=RICH, settings=admission.AdmissionSettings(), accepted_claim="id-1")
    assert isinstance(second, admission.Mutated)
    assert second.patch == ()
    assert second.request == first.request
    assert admission.claim_patch(once, "id-1", gated=gated) == ()


@given(pods())
def test_law_9_a_patched_pod_keeps_everything_it_had(given_pod: dict[str, Any]) -> None:
    verdict = admission.review(given_pod, config=RICH, settings=admission.AdmissionSettings())
    if isinstance(verdict, admission.Mutated):
        after = json_patches.apply(given_pod, verdict.patch)
        assert after["spec"]["unknown"] == {"future": [1]}
        assert after["metadata"] == given_pod["metadata"]
        paths = (
            "/spec/containers/",
            "/spec/initContainers/",
            "/spec/schedulerName",
            "/spec/runtimeClassName",
            "/spec/nodeSelector",
        )
        assert all(operation["path"].startswith(paths) for operation in verdict.patch)


@given(pods())
def test_law_9_a_pod_is_mutated_only_if_it_asks_for_a_device(given_pod: dict[str, Any]) -> None:
    verdict = admission.review(given_pod, config=RICH, settings=admission.AdmissionSettings())
    if isinstance(verdict, admission.Mutated):
        assert verdict.request.asks


# What is added once the ledger has answered, and who may change what.


def test_the_claim_is_an_annotation_and_waiting_is_a_gate() -> None:
    bare = {"metadata": {}, "spec": {}}
    after = json_patches.apply(bare, admission.claim_patch(bare, "id-1", gated=True))
    assert after["metadata"]["annotations"] == {"platform.hami.io/claim": "id-1"}
    assert after["spec"]["schedulingGates"] == [{"name": "platform.hami.io/quota"}]
    had = {"metadata": {"annotations": {"a": "b"}}, "spec": {"schedulingGates": [{"name": "other"}]}}
    after = json_patches.apply(had, admission.claim_patch(had, "id-1", gated=True))
    assert after["metadata"]["annotations"] == {"a": "b", "platform.hami.io/claim": "id-1"}
    assert [gate["name"] for gate in after["spec"]["schedulingGates"]] == ["other", "platform.hami.io/quota"]
    assert len(admission.claim_patch(had, "id-1", gated=False)) == 1
    assert [one["path"] for one in admission.claim_patch(bare, "", gated=True)] == ["/spec/schedulingGates"]


def update(old: dict[str, str], new: dict[str, str], user: str, part: str = "annotations") -> admission.Verdict:
    return admission.update_review(
        pod(container(), metadata={part: old}),
        pod(container(), metadata={part: new}),
        user=user,
        groups=("system:serviceaccounts:hami",) if user == "plugin" else (),
        writers=("ours", "system:serviceaccounts:hami"),
        config=CONFIG,
    )


@pytest.mark.parametrize("part", ["annotations", "labels"])
@pytest.mark.parametrize(
    "old, new",
    [
        ({}, {"hami.io/vgpu-node": "n"}),
        ({"hami.io/vgpu-node": "n"}, {}),
        ({"hami.io/vgpu-node": "n"}, {"hami.io/vgpu-node": "m"}),
    ],
)
def test_an_owned_key_is_changed_by_writers_only(old: dict[str, str], new: dict[str, str], part: str) -> None:
    verdict = update(old, new, "mallory", part)
    assert isinstance(verdict, admission.Denied)
    assert verdict.key == "hami.io/vgpu-node"
    assert "mallory" in verdict.message
    for user in ("ours", "plugin", "system:node:n1"):
        assert update(old, new, user, part) == admission.Allowed()


def test_other_keys_are_everybodys() -> None:
    assert (
        update({"a": "1", "hami.io/vgpu-node": "n"}, {"b": "2", "hami.io/vgpu-node": "n"}, "mallory")
        == admission.Allowed()
    )


def test_pointers_escape_what_json_pointers_need_escaped() -> None:
    assert json_patch.pointer("/a", "b/c~d") == "/a/b~1c~0d"
