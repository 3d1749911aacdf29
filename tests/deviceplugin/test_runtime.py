"""How devices are named to the container runtime."""

from __future__ import annotations

from typing import Any

import pytest

from deviceplugin import runtime
from deviceplugin.runtime import Named

ONE = Named("GPU-1", "0", ("dev/nvidia0",))
TWO = Named("GPU-2", "1", ("dev/nvidia1",))
COMMON = ("dev/nvidiactl", "dev/nvidia-uvm")


def access(*devices: Named, **handing: Any) -> runtime.Access:
    return runtime.access(runtime.Handing(**handing), devices or (ONE, TWO), COMMON, lambda: "c0ffee")


def test_the_usual_strategy_is_one_variable() -> None:
    assert access() == runtime.Access({"NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-2"})


def test_a_card_that_is_given_twice_is_named_once() -> None:
    assert access(ONE, ONE).envs == {"NVIDIA_VISIBLE_DEVICES": "GPU-1"}


def test_devices_can_be_named_by_index_and_instances_keep_their_uuid() -> None:
    assert access(TWO, Named("MIG-1"), by_index=True).envs == {"NVIDIA_VISIBLE_DEVICES": "1,MIG-1"}


def test_volume_mounts_name_devices_by_where_nothing_is_mounted() -> None:
    found = access(strategies=(runtime.VOLUMES,), imex=("0",))
    assert found.envs == {"NVIDIA_VISIBLE_DEVICES": "/var/run/nvidia-container-devices"}
    assert [(m.host_path, m.container_path) for m in found.mounts] == [
        ("/dev/null", f"/var/run/nvidia-container-devices/{name}") for name in ("GPU-1", "GPU-2", "imex/0")
    ]


def test_of_variable_and_volume_mounts_the_second_names_the_devices() -> None:
    found = access(strategies=(runtime.ENVVAR, runtime.VOLUMES))
    assert found.envs["NVIDIA_VISIBLE_DEVICES"] == "/var/run/nvidia-container-devices"


def test_cdi_annotations_are_one_key_with_all_names() -> None:
    found = access(strategies=(runtime.CDI_ANNOTATIONS,), cdi_prefix="example.com/")
    assert found == runtime.Access(
        annotations={
            "example.com/nvidia-device-plugin_c0ffee": (
                "k8s.device-plugin.nvidia.com/gpu=GPU-1,k8s.device-plugin.nvidia.com/gpu=GPU-2"
            )
        }
    )


def test_cdi_names_travel_in_their_own_field_with_extras_and_channels() -> None:
    found = access(ONE, strategies=(runtime.CDI_CRI,), extras=("gds",), imex=("0",), specs=True)
    assert found == runtime.Access(
        cdi=(
            "k8s.device-plugin.nvidia.com/gpu=GPU-1",
            "k8s.device-plugin.nvidia.com/imex-channel=0",
            "k8s.device-plugin.nvidia.com/gds=all",
        )
    )


def test_cdi_beside_the_variable_leaves_the_variable() -> None:
    found = access(ONE, strategies=(runtime.ENVVAR, runtime.CDI_CRI))
    assert (dict(found.envs), found.cdi) == (
        {"NVIDIA_VISIBLE_DEVICES": "GPU-1"},
        ("k8s.device-plugin.nvidia.com/gpu=GPU-1",),
    )


def test_device_specs_are_the_common_nodes_and_each_cards_below_the_hosts_root() -> None:
    found = access(specs=True, dev_root="/run/nvidia/driver/", imex=("0",))
    assert [(one.container_path, one.host_path) for one in found.specs] == [
        (f"/{node}", f"/run/nvidia/driver/{node}")
        for node in (*COMMON, "dev/nvidia0", "dev/nvidia1", "dev/nvidia-caps-imex-channels/channel0")
    ]


@pytest.mark.parametrize("extra, variable", [("gdrcopy", "GDRCOPY"), ("gds", "GDS"), ("mofed", "MOFED")])
def test_extras_and_channels_are_variables_where_variables_are_used(extra: str, variable: str) -> None:
    envs = access(ONE, extras=(extra,), imex=("0",)).envs
    assert envs == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-1",
        "NVIDIA_IMEX_CHANNELS": "0",
        f"NVIDIA_{variable}": "enabled",
    }
