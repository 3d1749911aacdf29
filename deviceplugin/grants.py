"""What a container gets to keep to its reserved shares: environment and mounts for the limiting library.

MIG instances are limited by the hardware, so nothing of this is for them.

Pure: the directories named here are made by `hostpaths`. Must not know: gRPC, Kubernetes, files.
Source of names and values: HAMi v2.10.0 device plugin, and the library that reads them (HAMi-core).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from deviceplugin import runtime
from deviceplugin.runtime import Mount

SHARED_LOCKS = "/tmp/vgpulock"  # noqa: S108 - a fixed path of the library, the same in every container
PRELOAD = "/etc/ld.so.preload"

_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
"""Go's strconv.ParseBool, which decides over CUDA_DISABLE_CONTROL."""


@dataclass(frozen=True, slots=True)
class Reserved:
    """One device of a row: the scheduler's choice, with amounts. index: position on the PCI bus."""

    uuid: str
    memory_mib: int
    core_percent: int
    index: int = 0


@dataclass(frozen=True, slots=True)
class Grant:
    """The answer for one container: its limits, and access to its devices. cdi: names for the CRI field."""

    envs: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    specs: tuple[runtime.DeviceSpec, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi: tuple[str, ...] = ()

    def reaching(self, access: runtime.Access) -> Grant:
        """These limits with this access."""
        return Grant(
            {**access.envs, **self.envs},
            (*self.mounts, *access.mounts),
            access.specs,
            access.annotations,
            access.cdi,
        )


@dataclass(frozen=True, slots=True)
class Enforcement:
    """How limits reach the library. hook: the directory above `vgpu` on host and in container alike."""

    hook: str = "/usr/local"
    oversubscribe: bool = False
    disable_core_limit: bool = False
    log_level: str = "1"
    extras: tuple[str, ...] = ()
    """Names under `vgpu` that exist on the host and are optional: `license`, `vgpuvalidator`."""
    count_only: bool = False
    """Nothing of the library reaches the container: the ledger counts, nothing limits."""

    @property
    def root(self) -> str:
        """`/usr/local/vgpu`."""
        return f"{self.hook}/vgpu"

    def cache_of(self, uid: str, container: str) -> str:
        """Host directory of one container's shared region; the monitor looks for it here."""
        return f"{self.root}/containers/{uid}_{container}"


@dataclass(frozen=True, slots=True)
class Target:
    """The container that is to get the devices. env: its literal variables."""

    uid: str
    container: str
    env: Mapping[str, str]


def shared(devices: Sequence[Reserved], target: Target, enforcement: Enforcement, *, cache: str) -> Grant:
    """The limits of slices of cards, without access to them. cache: a unique word, hex with dashes.

    Devices are numbered by bus order, as CUDA does inside the container, so that a limit
    meets its card also where the cards of one container have different limits.
    """
    ordered = sorted(devices, key=lambda device: device.index)
    envs = {
        "CUDA_DEVICE_SM_LIMIT": str(ordered[0].core_percent),
    }
    if not enforcement.count_only:
        envs["CUDA_DEVICE_MEMORY_SHARED_CACHE"] = f"{enforcement.root}/{cache}.cache"
    for number, device in enumerate(ordered):
        envs[f"CUDA_DEVICE_MEMORY_LIMIT_{number}"] = f"{device.memory_mib}m"
    envs |= _uneven_cores(ordered)
    if enforcement.oversubscribe:
        envs["CUDA_OVERSUBSCRIBE"] = "true"
    if enforcement.log_level:
        envs["LIBCUDA_LOG_LEVEL"] = enforcement.log_level
    if enforcement.disable_core_limit:
        envs["GPU_CORE_UTILIZATION_POLICY"] = "disable"
    return Grant(envs, _mounts(target, enforcement))


def _uneven_cores(ordered: Sequence[Reserved]) -> dict[str, str]:
    """The library takes a limit for each device, which the one variable cannot say when they differ."""
    if len({device.core_percent for device in ordered}) == 1:
        return {}
    return {f"CUDA_DEVICE_SM_LIMIT_{n}": str(device.core_percent) for n, device in enumerate(ordered)}


def _mounts(target: Target, enforcement: Enforcement) -> tuple[Mount, ...]:
    if enforcement.count_only:
        return ()
    root = enforcement.root
    mounts = [
        # Before its parent directory: a later directory mount would not hide it, but runtimes mount in this order.
        Mount(f"{root}/libvgpu.so", f"{root}/libvgpu.so", read_only=True),
        Mount(root, enforcement.cache_of(target.uid, target.container), read_only=False),
        Mount(SHARED_LOCKS, SHARED_LOCKS, read_only=False),
    ]
    if target.env.get("CUDA_DISABLE_CONTROL") not in _TRUE:
        mounts.append(Mount(PRELOAD, f"{root}/ld.so.preload", read_only=True))
    optional = {"license": "/tmp/license", "vgpuvalidator": "/usr/bin/vgpuvalidator"}  # noqa: S108
    mounts += [Mount(optional[name], f"{root}/{name}", read_only=True) for name in enforcement.extras]
    return tuple(mounts)
