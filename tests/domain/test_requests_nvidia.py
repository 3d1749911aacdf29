"""A pod's request: amount x where it stands x configuration; H03 to H08, HAMi's vectors, kinds and constraints."""

from __future__ import annotations

from typing import Any

import pytest

from hami_platform.domain import devices, errors, requests
from hami_platform.domain.vendors import base, parse, registry
from tests.domain import golden

CONFIG = registry.device_config({"nvidia": {}})
GPU, MEM, PCT, CORES = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"


def container(name: str = "main", **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


def pod(*containers: dict[str, Any], annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"annotations": annotations or {}}, "spec": {"containers": list(containers), **spec}}


def limits(**amounts: Any) -> dict[str, Any]:
    """gpu, mem, pct, cores as limits."""
    names = {"gpu": GPU, "mem": MEM, "pct": PCT, "cores": CORES}
    return {"resources": {"limits": {names[key]: amount for key, amount in amounts.items()}}}


def one(**amounts: Any) -> requests.DeviceRequest:
    (asked,) = parse.pod_request(pod(container(**limits(**amounts))), CONFIG).containers[0].devices
    return asked


def refused(**amounts: Any) -> errors.RequestError:
    with pytest.raises(errors.RequestError) as caught:
        one(**amounts)
    assert caught.value.container == "main"
    return caught.value


def constraints(**annotations: str) -> requests.Constraints:
    notes = {key.replace("__", "/").replace("_", "-"): value for key, value in annotations.items()}
    return parse.pod_request(pod(container(**limits(gpu=1)), annotations=notes), CONFIG).constraints


@pytest.mark.parametrize(
    "total_mib, percent, mib",
    [(24258, 50, 12129), (24258, 33, 8005), (15360, 7, 1075), (81559, 33, 26914), (23028, 99, 22797)],
)
def test_h03_a_percentage_is_of_the_registered_memory_rounded_down(total_mib: int, percent: int, mib: int) -> None:
    assert one(gpu=1, pct=str(percent)).memory_on(total_mib) == mib


def test_h04_a_decimal_suffix_is_legal() -> None:
    assert one(gpu=1, mem="5k").memory_mib == 5000


@pytest.mark.parametrize("amount", ["16Gi", "16.0Gi", "17179869184"])
def test_h05_bytes_are_refused_with_the_unit_and_the_number_to_write(amount: str) -> None:
    fault = refused(gpu=1, mem=amount)
    assert fault.key == MEM
    assert "the unit is MiB: write 16384" in str(fault)


@pytest.mark.parametrize("cores", [0, 50, 100])
def test_h06_cores_up_to_a_whole_device_are_accepted(cores: int) -> None:
    assert one(gpu=1, cores=str(cores)).core_percent == cores


@pytest.mark.parametrize("cores", ["101", "150", "-1", "4294967346", "50.5"])
def test_h06_more_cores_than_a_device_has_are_refused(cores: str) -> None:
    assert refused(gpu=1, cores=cores).key == CORES


@pytest.mark.parametrize("percent", ["99.1", "50m", "101", "-1", "5k", "1500m", "50.5"])
def test_h07_a_percentage_is_never_rounded_or_clamped(percent: str) -> None:
    fault = refused(gpu=1, pct=percent)
    assert fault.key == PCT
    assert percent in str(fault)


def test_h08_memory_and_percentage_together_are_refused_and_both_named() -> None:
    text = str(refused(gpu=1, mem=3000, pct=50))
    assert MEM + ":" in text
    assert PCT in text


def test_zero_memory_or_percentage_means_not_given() -> None:
    whole = requests.DeviceRequest("NVIDIA", 1, 0, 100, 0)
    assert one(gpu=1) == one(gpu=1, mem=0) == one(gpu=1, pct=0) == one(gpu=1, mem=0, pct=0) == whole
    assert one(gpu=1, mem=2000, pct=0) == requests.DeviceRequest("NVIDIA", 1, 2000, None, 0)
    assert one(gpu=1, mem=0, pct=50) == requests.DeviceRequest("NVIDIA", 1, 0, 50, 0)


@pytest.mark.parametrize("count", ["1.5", "-1", "4294967297", "1500m"])
def test_a_count_that_is_no_number_of_devices_is_refused(count: str) -> None:
    assert refused(gpu=count).key == GPU


@pytest.mark.parametrize("amounts", [{"gpu": 0, "mem": 100}, {"mem": 100}, {"cores": 5}])
def test_without_a_count_nothing_is_asked(amounts: dict[str, Any]) -> None:
    assert not parse.pod_request(pod(container(**limits(**amounts))), CONFIG).asks


def test_a_bad_amount_is_refused_even_where_no_device_is_asked() -> None:
    with pytest.raises(errors.RequestError):
        parse.pod_request(pod(container(**limits(mem="16Gi"))), CONFIG)


DECIDED = {
    "requests-nvidia-006": "memory and percentage together (D3)",
    **dict.fromkeys((f"requests-nvidia-{n:03}" for n in (11, 12, 13, 14, 15, 17, 19)), "not a percentage (H07)"),
    **dict.fromkeys(
        (f"requests-nvidia-{n:03}" for n in (25, 26, 28, 29, 61, 63, 71, 72)), "not an amount of MiB (D11)"
    ),
    "requests-nvidia-038": "150 % of the cores (H06)",
    **dict.fromkeys((f"requests-nvidia-{n:03}" for n in (45, 46, 49)), "not a number of devices"),
}
"""Where HAMi drops the request, rounds or clamps, it is refused here."""


def as_vector(container_request: requests.ContainerRequest) -> dict[str, Any]:
    return {
        ask.vendor: {
            "nums": ask.count,
            "type": ask.vendor,
            "mem": ask.memory_mib,
            "pct": 101 if ask.memory_percent is None else ask.memory_percent,
            "cores": ask.core_percent,
        }
        for ask in container_request.devices
    }


@pytest.mark.parametrize("vector", golden.load("requests-nvidia"), ids=lambda vector: vector["id"])
def test_golden_requests(vector: dict[str, Any]) -> None:
    config = registry.device_config(golden.config(vector))
    for step, expected in zip(vector["new"], vector["expect"]["steps"], strict=True):
        if vector["id"] in DECIDED:
            with pytest.raises(errors.RequestError):
                parse.pod_request(step["pod"], config)
        else:
            found = parse.pod_request(step["pod"], config)
            assert [as_vector(one) for one in found.containers] == expected["requests"]


def test_inits_come_first_and_a_restarting_one_is_a_sidecar() -> None:
    asked = parse.pod_request(
        pod(
            container("app"),
            initContainers=[
                container("a"),
                container("b", restartPolicy="Always"),
                container("c", restartPolicy="Never"),
            ],
        ),
        CONFIG,
    )
    kinds = devices.ContainerKind
    assert [(one.name, one.kind) for one in asked.containers] == [
        ("a", kinds.INIT), ("b", kinds.SIDECAR), ("c", kinds.INIT), ("app", kinds.APP),
    ]  # fmt: skip


def test_a_bare_request_tells_the_containers_of_a_pod_with_bad_amounts() -> None:
    bad = pod(container("app", **limits(gpu=1, mem="16Gi")), initContainers=[container("i")])
    assert [one.name for one in parse.bare_request(bad).containers] == ["i", "app"]
    assert not parse.bare_request(bad).asks


@pytest.mark.parametrize("spec", [[], {"containers": {}}, {"containers": [3]}, {"containers": [{"resources": []}]}])
def test_what_has_no_shape_of_a_pod_is_refused(spec: Any) -> None:
    with pytest.raises(errors.WireError, match="spec"):
        parse.pod_request({"spec": spec}, CONFIG)


def test_nulls_read_as_absent() -> None:
    empty = {"metadata": {"annotations": None}, "spec": {"containers": [{"name": "c", "resources": None}]}}
    assert parse.pod_request(empty, CONFIG) == requests.PodRequest(
        (requests.ContainerRequest("c", devices.ContainerKind.APP),)
    )
    assert parse.pod_request({}, CONFIG) == requests.PodRequest(())


@pytest.mark.parametrize(
    "text, policy",
    [
        ("binpack", "binpack"), (" binpack", "binpack"), ("binpack, numa", "binpack,numa"), ("mutex", "mutex"),
        ("topology-aware", "topology-aware"), ("bogus", None), ("", None), (",", None),
    ],
)  # fmt: skip
def test_k27_an_unknown_device_policy_leaves_the_default(text: str, policy: str | None) -> None:
    assert constraints(hami_io__x="", **{"hami.io/gpu_scheduler_policy": text}).device_policy == policy


@pytest.mark.parametrize("text, policy", [("spread", "spread"), ("foo", None), ("", None), ("binpack", "binpack")])
def test_k27_an_unknown_node_policy_leaves_the_default(text: str, policy: str | None) -> None:
    assert constraints(**{"hami.io/node_scheduler_policy": text}).node_policy == policy


@pytest.mark.parametrize(
    "text, entries",
    [(" A100 , H100", ("A100", "H100")), ("", None), ("  ", None), (",", ()), ("a,,b", ("a", "b"))],
)
def test_lists_are_trimmed_and_only_commas_are_an_empty_list(text: str, entries: tuple[str, ...] | None) -> None:
    found = constraints(**{
        "nvidia.com/use_gputype": text, "nvidia.com/nouse_gputype": text,
        "nvidia.com/use_gpuuuid": text, "nvidia.com/nouse_gpuuuid": text,
    })  # fmt: skip
    assert (found.use_models, found.nouse_models, found.use_uuids, found.nouse_uuids) == (entries,) * 4


@pytest.mark.parametrize(
    "text, bound", [("true", True), ("1", True), ("T", True), ("yes", False), ("0", False), ("", False)]
)
def test_numa_bind_is_a_go_bool(text: str, bound: bool) -> None:
    assert constraints(**{"nvidia.com/numa_bind": text}).numa_bind is bound


def test_mode_and_weights_are_read() -> None:
    found = constraints(**{
        "nvidia.com/vgpu_mode": "mig,hami-core", "hami.io/device_scoring_weights": "slot=1,core=2,memory=3",
    })  # fmt: skip
    assert found.vgpu_mode == "mig,hami-core"
    assert found.weights == requests.Weights(1, 2, 3)
    assert constraints(**{"nvidia.com/vgpu_mode": " "}).vgpu_mode == ""  # no device's mode is in it, as in HAMi
    assert constraints().vgpu_mode is None


def test_bad_weights_are_refused_and_only_where_devices_are_asked() -> None:
    notes = {"hami.io/device-scoring-weights": ""}
    with pytest.raises(errors.RequestError, match="device-scoring-weights: three weights"):
        parse.pod_request(pod(container(**limits(gpu=1)), annotations=notes), CONFIG)
    assert not parse.pod_request(pod(container(), annotations=notes), CONFIG).asks


def test_a_vendor_is_found_by_word_and_by_resource() -> None:
    (nvidia,) = CONFIG.vendors
    assert CONFIG.vendor("NVIDIA") == nvidia
    assert CONFIG.resource(MEM) == (nvidia, base.Quantity.MEMORY)
    assert CONFIG.resource("cpu") is None
    assert CONFIG.resource_names == (GPU, CORES, MEM, PCT)
    with pytest.raises(errors.ConfigError, match="MLU"):
        CONFIG.vendor("MLU")


@pytest.mark.parametrize(
    "raw, words",
    [
        ({}, "no device is configured"),
        ({"unheard-of": {}}, "no device is configured"),
        ({"nvidia": 3}, "nvidia: a mapping"),
        ({"nvidia": {"resourceCountName": ""}}, "nvidia.resourceCountName"),
        ({"nvidia": {"defaultCores": 101}}, "nvidia.defaultCores"),
        ({"nvidia": {"memoryFactor": "2"}}, "nvidia.memoryFactor"),
        ({"nvidia": {"gpuCorePolicy": "strict"}}, "nvidia.gpuCorePolicy"),
        ({"nvidia": {"overwriteEnv": 1}}, "nvidia.overwriteEnv"),
        ({"nvidia": {"resourceMemoryName": "nvidia.com/gpu"}}, "nvidia.com/gpu: used by"),
    ],
)
def test_a_configuration_that_cannot_be_used_names_the_key(raw: dict[str, Any], words: str) -> None:
    with pytest.raises(errors.ConfigError, match=words):
        registry.device_config(raw)


def test_flags_may_be_written_as_text_as_the_chart_does() -> None:
    for written in (True, "true", "True"):
        (nvidia,) = registry.device_config({"nvidia": {"overwriteEnv": written}}).vendors
        assert nvidia.injection.absent_env == (("NVIDIA_VISIBLE_DEVICES", "none"),)


def test_devices_in_an_ephemeral_container_are_refused() -> None:
    with pytest.raises(errors.RequestError, match=r"container debug: .* ephemeral"):
        parse.pod_request(pod(container(), ephemeralContainers=[container("debug", **limits(gpu=1))]), CONFIG)


def test_a_vendor_cannot_be_declared_twice() -> None:
    (nvidia,) = CONFIG.vendors
    other = base.Vendor(nvidia.word, base.Resources("other/gpu"), "other")
    with pytest.raises(errors.ConfigError, match="same word"):
        base.DeviceConfig((nvidia, other))
