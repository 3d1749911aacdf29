"""Settings of the node agent that say how containers get their devices and what makes a device unfit.

A part of the table in `env`; apart only for its length. Source of flags and their meaning: NVIDIA's k8s-device-plugin
and HAMi v2.10.0, cmd/device-plugin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hami_platform import env_values as values
from hami_platform.env_reading import row

LIST_STRATEGIES: Final = ("envvar", "volume-mounts", "cdi-annotations", "cdi-cri")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSettings:
    """See env.Settings."""

    device_list_strategy: tuple[str, ...] = row(
        values.several(*LIST_STRATEGIES),
        "envvar",
        "How a container's devices are named to the runtime: one or several of "
        "`envvar`, `volume-mounts`, `cdi-annotations`, `cdi-cri`.",
        also=("DEVICE_LIST_STRATEGY",),
        flags=("device-list-strategy",),
    )
    device_id_strategy: str = row(
        values.choice("uuid", "index"),
        "uuid",
        "Name devices to the runtime by uuid or by index.",
        also=("DEVICE_ID_STRATEGY",),
        flags=("device-id-strategy",),
    )
    pass_device_specs: bool = row(
        values.boolean,
        "false",
        "Also hand out the device nodes themselves, for kubelets with a static CPU manager.",
        also=("PASS_DEVICE_SPECS",),
        flags=("pass-device-specs",),
    )
    cdi_dir: str = row(values.text, "/var/run/cdi", "Folder in which the agent writes CDI specifications.")
    cdi_annotation_prefix: str = row(
        values.text,
        "cdi.k8s.io/",
        "Prefix of the annotation for `cdi-annotations`.",
        also=("CDI_ANNOTATION_PREFIX",),
        flags=("cdi-annotation-prefix",),
    )
    cdi_hook_path: str = row(
        values.text,
        "/usr/bin/nvidia-ctk",
        "On the node: NVIDIA's program for CDI hooks. Empty: specifications without hooks.",
        also=("NVIDIA_CDI_HOOK_PATH", "NVIDIA_CTK_PATH"),
        flags=("nvidia-cdi-hook-path", "nvidia-ctk-path"),
    )
    driver_root: str = row(
        values.text,
        "/",
        "On the node: root of the driver's installation.",
        also=("NVIDIA_DRIVER_ROOT",),
        flags=("nvidia-driver-root",),
    )
    driver_root_inside: str = row(
        values.text,
        "/driver-root",
        "Where the agent itself sees that root, to find the driver's files for CDI.",
        also=("DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"),
        flags=("driver-root-ctr-path", "container-driver-root"),
    )
    dev_root: str = row(
        values.text,
        "",
        "On the node: the folder above `dev/`. Empty: the driver's root.",
        also=("NVIDIA_DEV_ROOT",),
        flags=("dev-root", "nvidia-dev-root"),
    )
    gdrcopy_enabled: bool = row(
        values.boolean, "false", "Containers may use GDRCopy.", also=("GDRCOPY_ENABLED",), flags=("gdrcopy-enabled",)
    )
    gds_enabled: bool = row(
        values.boolean, "false", "Containers may use GPUDirect Storage.", also=("GDS_ENABLED",), flags=("gds-enabled",)
    )
    mofed_enabled: bool = row(
        values.boolean,
        "false",
        "Containers may use Mellanox OFED devices.",
        also=("MOFED_ENABLED",),
        flags=("mofed-enabled",),
    )
    imex_channel_ids: tuple[str, ...] = row(
        values.several("0"),
        "",
        "IMEX channels for every container: none, or `0`.",
        also=("IMEX_CHANNEL_IDS",),
        flags=("imex-channel-ids",),
    )
    mig_strategy: str = row(
        values.choice("none", "single", "mixed"),
        "none",
        "Instances that an operator made, as resources that only the kubelet accounts for: `single` under the resource "
        "name, `mixed` as nvidia.com/mig-<profile>. `none`: cards in MIG mode are cut as pods ask.",
        also=("MIG_STRATEGY",),
        flags=("mig-strategy",),
    )
    pre_start: bool = row(
        values.boolean,
        "false",
        "The kubelet asks before each start of a container, and the agent makes sure that what it was given is there. "
        "Containers then cannot restart while the agent is away.",
    )
    temperature_limit_c: int = row(
        values.integer(0), "0", "Temperature (°C) at which a device is unfit. 0: its own slowdown threshold."
    )
    topology_score: bool = row(
        values.boolean,
        "false",
        "Tell the scheduler how well the devices of a node are connected.",
        also=("ENABLE_TOPOLOGY_SCORE",),
    )
    pod_resources_socket: str = row(
        values.text,
        "/var/lib/kubelet/pod-resources/kubelet.sock",
        "The kubelet's list of what each pod holds, with which the agent compares what it gave. Empty: it does not.",
    )
