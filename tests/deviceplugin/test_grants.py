"""Environment and mounts of a container."""

from __future__ import annotations

import dataclasses

import pytest

from deviceplugin import grants

USUAL = grants.Enforcement(hook="/usr/local")
TARGET = grants.Target("uid-1", "main", {})


def shared(*devices: grants.Reserved, target: grants.Target = TARGET, **changes: object) -> grants.Grant:
    enforcement = dataclasses.replace(USUAL, **changes)  # type: ignore[arg-type]
    return grants.shared(devices, target, enforcement, cache="1234")


def test_environment_of_two_cards() -> None:
    grant = shared(grants.Reserved("U1", 1000, 30), grants.Reserved("U2", 2000, 30, index=1))
    assert grant.envs == {
        "CUDA_DEVICE_MEMORY_LIMIT_0": "1000m",
        "CUDA_DEVICE_MEMORY_LIMIT_1": "2000m",
        "CUDA_DEVICE_SM_LIMIT": "30",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/usr/local/vgpu/1234.cache",
        "LIBCUDA_LOG_LEVEL": "1",
    }


def test_uneven_cores_are_said_for_each_card_besides_the_first_one_for_all() -> None:
    grant = shared(grants.Reserved("U1", 1000, 30), grants.Reserved("U2", 2000, 50, index=1))
    assert grant.envs["CUDA_DEVICE_SM_LIMIT"] == "30"
    assert grant.envs["CUDA_DEVICE_SM_LIMIT_1"] == "50"


def test_limits_follow_the_order_in_which_cuda_numbers_the_cards() -> None:
    grant = shared(grants.Reserved("U2", 2000, 30, index=1), grants.Reserved("U1", 1000, 30, index=0))
    assert grant.envs["CUDA_DEVICE_MEMORY_LIMIT_0"] == "1000m"


def test_mounts_in_hamis_order() -> None:
    mounts = shared(grants.Reserved("U1", 1000, 30)).mounts
    assert [(m.container_path, m.host_path, m.read_only) for m in mounts] == [
        ("/usr/local/vgpu/libvgpu.so", "/usr/local/vgpu/libvgpu.so", True),
        ("/usr/local/vgpu", "/usr/local/vgpu/containers/uid-1_main", False),
        ("/tmp/vgpulock", "/tmp/vgpulock", False),
        ("/etc/ld.so.preload", "/usr/local/vgpu/ld.so.preload", True),
    ]


@pytest.mark.parametrize(
    "value, mounted", [("true", False), ("1", False), ("T", False), ("false", True), ("abc", True), ("yes", True)]
)
def test_preload_is_left_out_only_for_what_go_reads_as_true(value: str, mounted: bool) -> None:
    target = grants.Target("uid-1", "main", {"CUDA_DISABLE_CONTROL": value})
    grant = shared(grants.Reserved("U1", 1000, 30), target=target)
    assert ("/etc/ld.so.preload" in {m.container_path for m in grant.mounts}) is mounted


def test_optional_files_are_mounted_where_the_host_has_them() -> None:
    grant = shared(grants.Reserved("U1", 1000, 30), extras=("license", "vgpuvalidator"))
    assert {m.container_path: m.host_path for m in grant.mounts[-2:]} == {
        "/tmp/license": "/usr/local/vgpu/license",
        "/usr/bin/vgpuvalidator": "/usr/local/vgpu/vgpuvalidator",
    }


@pytest.mark.parametrize(
    "change, name, value",
    [
        ({"oversubscribe": True}, "CUDA_OVERSUBSCRIBE", "true"),
        ({"disable_core_limit": True}, "GPU_CORE_UTILIZATION_POLICY", "disable"),
        ({"log_level": "4"}, "LIBCUDA_LOG_LEVEL", "4"),
        ({"log_level": ""}, "LIBCUDA_LOG_LEVEL", None),
    ],
)
def test_settings_that_show_in_the_environment(change: dict[str, object], name: str, value: str | None) -> None:
    assert shared(grants.Reserved("U1", 1000, 30), **change).envs.get(name) == value  # type: ignore[arg-type]


def test_in_count_mode_nothing_of_the_library_is_handed_out() -> None:
    grant = shared(grants.Reserved("GPU-a", 3000, 30), count_only=True, extras=("license",))
    assert grant.mounts == ()
    assert "CUDA_DEVICE_MEMORY_SHARED_CACHE" not in grant.envs
    assert grant.envs["CUDA_DEVICE_MEMORY_LIMIT_0"] == "3000m"
