"""How a container's devices are named to the container runtime: HAMi's and NVIDIA's device list strategies.

Pure. Must not know: what else a container gets, gRPC, or where device nodes come from.
Source of names and values: HAMi v2.10.0 and NVIDIA's k8s-device-plugin; the CDI annotation: Kubernetes documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

ENVVAR = "envvar"
VOLUMES = "volume-mounts"
CDI_ANNOTATIONS = "cdi-annotations"
CDI_CRI = "cdi-cri"

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
VOLUMES_ROOT = "/var/run/nvidia-container-devices"
CDI_VENDOR = "k8s.device-plugin.nvidia.com"
CDI_KIND = f"{CDI_VENDOR}/gpu"
EXTRAS = ("gdrcopy", "gds", "mofed")


@dataclass(frozen=True, slots=True)
class Mount:
    """A host path that appears in the container."""

    container_path: str
    host_path: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A device node that appears in the container, readable and writable."""

    container_path: str
    host_path: str


@dataclass(frozen=True, slots=True)
class Named:
    """One device of a container. label: a card's index; an instance has none. nodes: below `/`, as `dev/nvidia0`."""

    uuid: str
    label: str = ""
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Access:
    """What the strategies add to a container's answer. cdi: fully qualified names for the CRI field."""

    envs: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    specs: tuple[DeviceSpec, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Handing:
    """The strategies of a node. dev_root: on the host, above `dev/`. extras: of EXTRAS; imex: channel ids."""

    strategies: tuple[str, ...] = (ENVVAR,)
    by_index: bool = False
    specs: bool = False
    dev_root: str = "/"
    cdi_prefix: str = "cdi.k8s.io/"
    extras: tuple[str, ...] = ()
    imex: tuple[str, ...] = ()

    @property
    def uses_cdi(self) -> bool:
        """Whether specifications are needed."""
        return bool({CDI_ANNOTATIONS, CDI_CRI} & set(self.strategies))

    @property
    def needs_nodes(self) -> bool:
        """Whether device nodes must be known."""
        return self.specs or self.uses_cdi

    def name(self, device: Named) -> str:
        """What the device is called."""
        return device.label if self.by_index and device.label else device.uuid


def access(handing: Handing, devices: Sequence[Named], common: Sequence[str], unique: Callable[[], str]) -> Access:
    """How these devices are told. common: nodes that every container needs; unique: a new word for an annotation."""
    ids = tuple(dict.fromkeys(handing.name(device) for device in devices))
    named = _cdi_names(handing, ids) if handing.uses_cdi else ()
    only_cdi = handing.uses_cdi and not {ENVVAR, VOLUMES} & set(handing.strategies)
    annotations = {}
    if CDI_ANNOTATIONS in handing.strategies:
        annotations[f"{handing.cdi_prefix}nvidia-device-plugin_{unique()}"] = ",".join(named)
    return Access(
        envs={} if only_cdi else _envs(handing, ids),
        mounts=_volumes(handing, ids) if VOLUMES in handing.strategies else (),
        specs=_specs(handing, devices, common) if handing.specs and not only_cdi else (),
        annotations=annotations,
        cdi=named if CDI_CRI in handing.strategies else (),
    )


def _envs(handing: Handing, ids: Sequence[str]) -> dict[str, str]:
    envs = {VISIBLE: VOLUMES_ROOT if VOLUMES in handing.strategies else ",".join(ids)}
    if handing.imex and VOLUMES not in handing.strategies:
        envs["NVIDIA_IMEX_CHANNELS"] = ",".join(handing.imex)
    return envs | {f"NVIDIA_{extra.upper()}": "enabled" for extra in handing.extras}


def _volumes(handing: Handing, ids: Sequence[str]) -> tuple[Mount, ...]:
    """The runtime reads the names of these mounts; what is mounted does not matter."""
    names = [*ids, *(f"imex/{channel}" for channel in handing.imex)]
    return tuple(Mount(f"{VOLUMES_ROOT}/{name}", "/dev/null", read_only=True) for name in names)


def _specs(handing: Handing, devices: Sequence[Named], common: Sequence[str]) -> tuple[DeviceSpec, ...]:
    nodes = dict.fromkeys((*common, *(node for device in devices for node in device.nodes)))
    channels = [f"dev/nvidia-caps-imex-channels/channel{channel}" for channel in handing.imex]
    root = handing.dev_root.rstrip("/")
    return tuple(DeviceSpec(f"/{node}", f"{root}/{node}") for node in (*nodes, *channels))


def _cdi_names(handing: Handing, ids: Sequence[str]) -> tuple[str, ...]:
    return (
        *(f"{CDI_KIND}={name}" for name in ids),
        *(f"{CDI_VENDOR}/imex-channel={channel}" for channel in handing.imex),
        *(f"{CDI_VENDOR}/{extra}=all" for extra in handing.extras),
    )
